"""Regular expressions: Java's, run by Polars where it has the same syntax, else by Python."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from penstock.runtime.columnar.expressions.compiler import ExpressionCompiler, compiles, rowwise
from penstock.runtime.columnar.expressions.patterns import java_pattern
from penstock.runtime.columnar.expressions.texts import constant, each_row
from penstock.sql.expr.nodes import Call

_UNLIKE_RUST = re.compile(r"\(\?[=!<]|\\[1-9QEGZzhHRX]|\\p\{(?!L\}|N\})|[*+?}]\+|&&|\[[^\]]*\[")


def _in_rust(pattern: object) -> bool:
    """Whether a pattern means the same to Polars' regular expressions as to Java's."""
    return (
        isinstance(pattern, str)
        and not _UNLIKE_RUST.search(pattern)
        and java_pattern(pattern) is not None
    )


@compiles("REGEXP")
def _regexp(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    operands = compiler.operands(call)
    pattern = constant(call.operands[1])
    if _in_rust(pattern) and pattern:
        return operands[0].str.contains(_ascii(pattern))
    return rowwise(
        lambda text, given: bool(given) and _search(given, text) is not None, operands, call.type
    )


def _ascii(pattern: str) -> str:
    """Return a pattern whose classes are of ASCII letters only, as Java's are."""
    for short, letters in ((r"\d", "[0-9]"), (r"\w", "[a-zA-Z0-9_]")):
        if short in pattern and "[" not in pattern:
            pattern = pattern.replace(short, letters)
    return pattern


def _search(pattern: str, text: str) -> re.Match[str] | None:
    compiled = java_pattern(pattern)
    return None if compiled is None else compiled.search(text)


@dataclass(frozen=True, slots=True)
class DelimitedValue:
    """A value after a marker, up to a stop character, as in patterns such as `(&|^)id=([^&]*)`. Found without a regular expression, three times as fast.

    `lead`: the letter that must stand before the mark, unless the text begins with it; empty if any may.
    """

    lead: str
    mark: str
    stop: str

    def present(self, text: pl.Expr) -> pl.Expr:
        """Whether texts have the mark."""
        found = text.str.contains(self.lead + self.mark, literal=True)
        return found | text.str.starts_with(self.mark) if self.lead else found

    def value(self, text: pl.Expr) -> pl.Expr:
        """Return the value after the marker; NULL if there is none."""
        mark = (self.lead + self.mark).encode()
        at = text.str.find(mark.decode(), literal=True).cast(pl.Int64()) + len(mark)
        if self.lead:
            at = (
                pl.when(text.str.starts_with(self.mark)).then(len(self.mark.encode())).otherwise(at)
            )
        rest = text.cast(pl.Binary()).bin.slice(at).cast(pl.String())
        rest = pl.when(at.is_not_null()).then(rest)

        def cut(values: pl.Series) -> pl.Series:
            if not values.str.contains(self.stop, literal=True).any():
                return values
            return values.str.splitn(self.stop, 2).struct.field("field_0")

        return rest.map_batches(cut, return_dtype=pl.String(), is_elementwise=True)


_MARKED = re.compile(
    r"(?:\((?P<lead>[^\\()\[\]|^$.*+?{}])\|\^\))?(?P<mark>[\w=&%/ ,;:-]{3,})\(\[\^(?P<stop>[^\]\\^-])\]\*\)"
)


def marked(pattern: object, group: object) -> DelimitedValue | None:
    """Return the marker that a pattern looks for, if it is that simple and the last group is requested.

    >>> marked("(&|^)id=([^&]*)", 2)
    Marked(lead='&', mark='id=', stop='&')
    """
    found = _MARKED.fullmatch(pattern) if isinstance(pattern, str) else None
    if found is None or group != (2 if found["lead"] else 1):
        return None
    return DelimitedValue(found["lead"] or "", found["mark"], found["stop"])


def extracts(compiler: ExpressionCompiler, call: Call) -> pl.Expr | None:
    """Return whether REGEXP_EXTRACT is non-NULL, if that is cheaper to compute than its value."""
    simple = marked(constant(call.operands[1]), constant(call.operands[-1]))
    if simple is None:
        return None
    return simple.present(compiler.compile(call.operands[0])).fill_null(value=False)


@compiles("REGEXP_EXTRACT")
def _regexp_extract(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    operands = compiler.operands(call)
    pattern = constant(call.operands[1])
    group = constant(call.operands[2]) if len(call.operands) > 2 else 0
    simple = marked(pattern, group)
    if simple is not None:
        return simple.value(operands[0])
    if _in_rust(pattern) and isinstance(group, int):
        compiled = java_pattern(pattern)
        assert compiled is not None
        if 0 <= group <= compiled.groups:
            return operands[0].str.extract(_ascii(pattern), group)
    return rowwise(_extracted, operands, call.type)


def _extracted(text: str, pattern: str, group: int = 0) -> str | None:
    found = _search(pattern, text)
    if found is None or not 0 <= group <= found.re.groups:
        return None
    return found[group]


def _extracted_all(text: str, pattern: str, group: int = 1) -> list[str | None] | None:
    compiled = java_pattern(pattern)
    if compiled is None or not 0 <= group <= compiled.groups:
        return None
    return [found[group] for found in compiled.finditer(text)]


def _regexp_replace(text: str, pattern: str, replacement: str) -> str | None:
    compiled = java_pattern(pattern)
    if compiled is None:
        return None
    return compiled.sub(lambda _: replacement, text)  # without groups in it


def _regexp_count(text: str, pattern: str) -> int | None:
    compiled = java_pattern(pattern)
    return None if compiled is None else sum(1 for _ in compiled.finditer(text))


def _regexp_instr(text: str, pattern: str) -> int | None:
    compiled = java_pattern(pattern)
    if compiled is None:
        return None
    found = compiled.search(text)
    return 0 if found is None else found.start() + 1


def _regexp_substr(text: str, pattern: str) -> str | None:
    found = _search(pattern, text)
    return None if found is None else found[0]


each_row("REGEXP_EXTRACT_ALL", _extracted_all)
each_row("REGEXP_REPLACE", _regexp_replace)
each_row("REGEXP_COUNT", _regexp_count)
each_row("REGEXP_INSTR", _regexp_instr)
each_row("REGEXP_SUBSTR", _regexp_substr)
