"""The grammar of MATCH_RECOGNIZE."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.parse.intervals import IntervalParser
from penstock.sql.parse.parts import ExpressionPart
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import TokenKind
from penstock.sql.parse.trees import (
    AfterMatch,
    MatchRecognize,
    PatternChoice,
    PatternExclusion,
    PatternPermutation,
    PatternQuantified,
    PatternSequence,
    PatternVariable,
)
from penstock.sql.parse.windows import WindowParser


class PatternParser:
    """Reads MATCH_RECOGNIZE (...)."""

    def __init__(
        self,
        tokens: TokenStream,
        expressions: ExpressionPart,
        windows: WindowParser,
        intervals: IntervalParser,
    ) -> None:
        self._tokens = tokens
        self._expressions = expressions
        self._windows = windows
        self._intervals = intervals

    def match_recognize(self, relation: object) -> MatchRecognize:
        """Take MATCH_RECOGNIZE (...) behind a relation."""
        self._tokens.expect("MATCH_RECOGNIZE")
        self._tokens.expect("(")
        parts: dict[str, Any] = {"this": relation}
        if self._tokens.accept("PARTITION", "BY"):
            parts["partition_by"] = self._tokens.separated(self._expressions.expression)
        if self._tokens.accept("ORDER", "BY"):
            parts["order"] = exp.Order(expressions=self._windows.order_items())
        if self._tokens.accept("MEASURES"):
            parts["measures"] = self._tokens.separated(self._measure)
        parts["rows"] = self._rows_per_match()
        if self._tokens.accept("AFTER"):
            parts["after"] = self._after_match()
        self._tokens.expect("PATTERN")
        self._whole_pattern(parts)
        if self._tokens.accept("WITHIN"):
            parts["within"] = self._intervals.interval()
        if self._tokens.accept("SUBSET"):
            parts["subsets"] = self._tokens.separated(self._subset)
        if self._tokens.accept("DEFINE"):
            parts["define"] = self._tokens.separated(self._definition)
        self._tokens.expect(")")
        return MatchRecognize(**parts)

    def _measure(self) -> exp.Alias:
        start = self._tokens.index
        value = self._running_or_final()
        self._tokens.expect("AS")
        return self._tokens.placed(
            exp.Alias(this=value, alias=self._tokens.any_identifier()), start
        )

    def _running_or_final(self) -> object:
        start = self._tokens.index
        if self._tokens.current.upper in (
            "RUNNING",
            "FINAL",
        ) and self._tokens.ahead().upper not in (".", "("):
            word = self._tokens.take().text
            operand = self._expressions.expression()
            return self._tokens.placed(exp.Anonymous(this=word, expressions=[operand]), start)
        return self._expressions.expression()

    def _rows_per_match(self) -> str | None:
        if self._tokens.accept("ONE"):
            self._tokens.expect("ROW", "PER", "MATCH")
            return "ONE ROW PER MATCH"
        if self._tokens.accept("ALL"):
            self._tokens.expect("ROWS", "PER", "MATCH")
            return "ALL ROWS PER MATCH"
        return None

    def _after_match(self) -> AfterMatch:
        start = self._tokens.index - 1
        self._tokens.expect("MATCH", "SKIP")
        if self._tokens.accept("PAST"):
            self._tokens.expect("LAST", "ROW")
            return self._tokens.placed(AfterMatch(this="PAST LAST ROW"), start)
        self._tokens.expect("TO")
        word = self._tokens.accept_any("NEXT", "FIRST", "LAST")
        if word == "NEXT":
            self._tokens.expect("ROW")
            return self._tokens.placed(AfterMatch(this="NEXT ROW"), start)
        variable = self._tokens.name("a variable of the pattern")
        return self._tokens.placed(AfterMatch(this=word or "LAST", variable=variable), start)

    def _whole_pattern(self, parts: dict[str, Any]) -> None:
        self._tokens.expect("(")
        parts["start"] = self._tokens.accept("^") or None
        parts["pattern"] = self._choice()
        parts["end"] = self._tokens.accept("$") or None
        self._tokens.expect(")")

    def _choice(self) -> object:
        start = self._tokens.index
        choices = self._tokens.separated(self._sequence, "|")
        if len(choices) == 1:
            return choices[0]
        return self._tokens.placed(PatternChoice(expressions=choices), start)

    def _sequence(self) -> object:
        start = self._tokens.index
        terms = [self._quantified_term()]
        while self._tokens.current.upper in ("(", "{-") or (
            self._tokens.current.kind in (TokenKind.WORD, TokenKind.QUOTED)
            and self._tokens.current.text != "$"
        ):
            terms.append(self._quantified_term())
        if len(terms) == 1:
            return terms[0]
        return self._tokens.placed(PatternSequence(expressions=terms), start)

    def _quantified_term(self) -> object:
        start = self._tokens.index
        term = self._term()
        symbol = self._tokens.current.upper
        if symbol in ("*", "+", "?"):
            self._tokens.take()
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[symbol]
        elif symbol == "{":
            low, high = self._bounds()
        else:
            for expected in ("*", "+", "?", "{"):
                self._tokens.wanted(expected)
            return term
        greedy = not self._tokens.accept("?")
        node = PatternQuantified(this=term, minimum=low, maximum=high, greedy=greedy)
        return self._tokens.placed(node, start)

    def _bounds(self) -> tuple[int, int | None]:
        opened = self._tokens.take()
        low, high = 0, None
        if self._tokens.current.upper != ",":
            low = self._tokens.number()
            high = low
        if self._tokens.accept(","):
            high = None if self._tokens.current.upper == "}" else self._tokens.number()
        self._tokens.expect("}")
        if high is not None and (high < low or high == 0):
            raise self._tokens.error_at(opened, f"a quantifier cannot go from {low} to {high}")
        return low, high

    def _term(self) -> object:
        start = self._tokens.index
        if self._tokens.accept("("):
            inner = self._choice()
            self._tokens.expect(")")
            return inner
        if self._tokens.accept("{-"):
            inner = self._choice()
            self._tokens.expect("-}")
            return self._tokens.placed(PatternExclusion(this=inner), start)
        if self._tokens.looking_at("PERMUTE", "("):
            self._tokens.take()
            choices = self._tokens.in_parentheses(lambda: self._tokens.separated(self._choice))
            return self._tokens.placed(PatternPermutation(expressions=choices), start)
        return self._tokens.placed(
            PatternVariable(this=self._tokens.name("a variable of the pattern")), start
        )

    def _subset(self) -> exp.Alias:
        start = self._tokens.index
        name = self._tokens.identifier("a variable")
        self._tokens.expect("=")
        variables = self._tokens.in_parentheses(
            lambda: self._tokens.separated(self._tokens.identifier)
        )
        return self._tokens.placed(
            exp.Alias(this=exp.Tuple(expressions=variables), alias=name), start
        )

    def _definition(self) -> exp.Alias:
        start = self._tokens.index
        name = self._tokens.identifier("a variable of the pattern")
        self._tokens.expect("AS")
        return self._tokens.placed(exp.Alias(this=self._running_or_final(), alias=name), start)
