"""Translates SQL with JDBC's `?` parameters to the form of Python drivers.

The parser only knows strings, names and comments, to ignore question marks in them, and detects INSERT statements with
nothing but parameters, which can be sent in a faster form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.errors import ArgumentError, ArgumentTypeError

_TOKEN = re.compile(
    r"""
    (?P<text> [eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` )
  | (?P<dollar> \$(?P<tag>(?:[A-Za-z_]\w*)?)\$ .*? \$(?P=tag)\$ )
  | (?P<line> --[^\n]* )
  | (?P<block> /\* )
  | (?P<operator> \?\? )
  | (?P<parameter> \? )
  | (?P<word> \w[\w$]* )
  | (?P<space> \s+ )
  | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_MYSQL_TEXT = re.compile(r"""'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*\"""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StatementToken:
    """A token of SQL: `kind` is text, comment, parameter, operator (of `??`), word, space or other."""

    kind: str
    text: str


def tokens(sql: str, *, backslashes: bool = False) -> Iterator[StatementToken]:
    """Tokenize SQL. With `backslashes` (MySQL) a quote after a backslash does not end a string."""
    at = 0
    while at < len(sql):
        if backslashes and sql[at] in "'\"" and (text := _MYSQL_TEXT.match(sql, at)):
            yield StatementToken("text", text[0])
            at = text.end()
            continue
        match = _TOKEN.match(sql, at)
        assert match is not None
        kind = str(match.lastgroup)
        if kind == "tag":
            kind = "dollar"
        end = _end_of_comment(sql, at) if kind == "block" else match.end()
        if kind in {"line", "block"}:
            kind = "comment"
        elif kind == "dollar":
            kind = "text"
        yield StatementToken(kind, sql[at:end])
        at = end


def _end_of_comment(sql: str, start: int) -> int:
    """Return the end of a comment; comments nest."""
    depth, at = 0, start
    for match in re.finditer(r"/\*|\*/", sql[start:]):
        depth += 1 if match[0] == "/*" else -1
        at = start + match.end()
        if depth == 0:
            return at
    return len(sql)


def check_sql(sql: object, what: str = "the statement") -> str:
    """Return SQL after checking that it is a non-empty str."""
    if not isinstance(sql, str):
        raise ArgumentTypeError(f"{what} is not a str", detail=f"got {sql!r}")
    if not sql.strip():
        raise ArgumentError(f"{what} is empty")
    return sql


def count_parameters(sql: str) -> int:
    """Return how many `?` are parameters.

    >>> count_parameters("insert into t values (?, '?', a::text, j ?? 'key') -- ?")
    1
    """
    return sum(token.kind == "parameter" for token in tokens(sql))


def translate(
    sql: str,
    placeholder: Callable[[int], str],
    *,
    percent: bool = False,
    backslashes: bool = False,
) -> str:
    """Replace each `?` with the driver's placeholder, and each `??`, JDBC's form of the operator, with `?`.

    With `percent` every other percent sign is doubled, for drivers whose placeholder is `%s`.

    >>> translate("select * from t where a like '%?' and b = ? and c ?? 'x'", lambda n: "%s", percent=True)
    "select * from t where a like '%%?' and b = %s and c ? 'x'"
    """
    parts: list[str] = []
    number = 0
    for token in tokens(sql, backslashes=backslashes):
        if token.kind == "parameter":
            parts.append(placeholder(number))
            number += 1
        elif token.kind == "operator":
            parts.append("?")
        else:
            parts.append(token.text.replace("%", "%%") if percent else token.text)
    return "".join(parts)


def for_psycopg(sql: str, placeholder: str = "%s") -> str:
    """Return a statement in psycopg's form."""
    return translate(sql, lambda _: placeholder, percent=True)


@dataclass(frozen=True, slots=True)
class PlainInsert:
    """An INSERT of one row with nothing but parameters: `INSERT INTO table (columns) VALUES (?, ...)` and a tail.

    `tail` is an ON CONFLICT clause, or empty. `conflict` are the positions of its columns, or None if it names something else.
    """

    table: str
    columns: tuple[str, ...]
    tail: str
    conflict: tuple[int, ...] | None

    @property
    def upserts(self) -> bool:
        """Whether it may change an existing row."""
        return re.search(r"\bdo\s+update\b", self.tail, re.IGNORECASE) is not None


def plain_insert(sql: str) -> PlainInsert | None:
    """Parse a plain INSERT; None for other statements.

    >>> plain_insert("INSERT INTO t (a, b) VALUES (?, ?) ON CONFLICT (a) DO UPDATE SET b = excluded.b").conflict
    (0,)
    >>> plain_insert("INSERT INTO t (a, b) VALUES (?, now())") is None
    True
    """
    pieces = [token for token in tokens(sql) if token.kind != "comment"]
    while pieces and (pieces[-1].kind == "space" or pieces[-1].text == ";"):
        pieces.pop()
    if any(piece.text == ";" for piece in pieces):
        return None
    # Strings, names and parameters each become one character, so that a pattern can match; positions are kept.
    shape, places = [], []
    for number, piece in enumerate(pieces):
        short = {"parameter": "?", "space": " "}.get(piece.kind, piece.text)
        if piece.kind == "text":
            short = '"' if piece.text.startswith('"') else "'"
        shape.append(short)
        places.extend([number] * len(short))
    match = _PLAIN.match("".join(shape))
    if match is None:
        return None

    def original(group: str) -> str:
        start, end = match.span(group)
        return "".join(piece.text for piece in pieces[places[start] : places[end - 1] + 1]).strip()

    columns = tuple(name.strip() for name in original("columns").split(","))
    tail = "".join(piece.text for piece in pieces[places[match.end() - 1] + 1 :]).strip()
    if len(columns) != match["values"].count("?") or any("," in name for name in columns):
        return None
    if tail and (
        not re.match(r"on\s+conflict\b", tail, re.IGNORECASE)
        or re.search(r"\breturning\b", tail, re.IGNORECASE)
        or any(token.kind in {"parameter", "operator"} for token in tokens(tail))
    ):
        return None
    return PlainInsert(original("table"), columns, tail, _conflict(tail, columns))


_NAME = r'(?:\w[\w$]*|")'
_PLAIN = re.compile(
    rf"\s*insert\s+into\s+(?P<table>{_NAME}(?:\s*\.\s*{_NAME})?)\s*"
    rf"\(\s*(?P<columns>{_NAME}(?:\s*,\s*{_NAME})*)\s*\)\s*"
    r"values\s*\(\s*(?P<values>\?(?:\s*,\s*\?)*)\s*\)",
    re.IGNORECASE,
)


def _conflict(tail: str, columns: tuple[str, ...]) -> tuple[int, ...] | None:
    match = re.match(r"on\s+conflict\s*\(([^()]*)\)", tail, re.IGNORECASE)
    if match is None:
        return None
    folded = [_folded(name) for name in columns]
    wanted = [_folded(name.strip()) for name in match[1].split(",")]
    if not all(name in folded for name in wanted):
        return None
    return tuple(folded.index(name) for name in wanted)


def _folded(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()
