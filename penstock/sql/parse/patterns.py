"""The grammar of MATCH_RECOGNIZE."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.parse.calls import CallParser
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


class PatternParser(CallParser):
    """Reads MATCH_RECOGNIZE (...)."""

    def interval(self) -> Any:
        """Take an interval."""
        raise NotImplementedError

    def match_recognize(self, relation: Any) -> MatchRecognize:
        """Take MATCH_RECOGNIZE (...) behind a relation."""
        self.expect("MATCH_RECOGNIZE")
        self.expect("(")
        parts: dict[str, Any] = {"this": relation}
        if self.accept("PARTITION", "BY"):
            parts["partition_by"] = self.separated(self.expression)
        if self.accept("ORDER", "BY"):
            parts["order"] = exp.Order(expressions=self.order_items())
        if self.accept("MEASURES"):
            parts["measures"] = self.separated(self._measure)
        parts["rows"] = self._rows_per_match()
        if self.accept("AFTER"):
            parts["after"] = self._after_match()
        self.expect("PATTERN")
        self._whole_pattern(parts)
        if self.accept("WITHIN"):
            parts["within"] = self.interval()
        if self.accept("SUBSET"):
            parts["subsets"] = self.separated(self._subset)
        if self.accept("DEFINE"):
            parts["define"] = self.separated(self._definition)
        self.expect(")")
        return MatchRecognize(**parts)

    def _measure(self) -> exp.Alias:
        start = self.index
        value = self._running_or_final()
        self.expect("AS")
        return self.placed(exp.Alias(this=value, alias=self.any_identifier()), start)

    def _running_or_final(self) -> Any:
        start = self.index
        if self.current.upper in ("RUNNING", "FINAL") and self.ahead().upper not in (".", "("):
            word = self.take().text
            operand = self.expression()
            return self.placed(exp.Anonymous(this=word, expressions=[operand]), start)
        return self.expression()

    def _rows_per_match(self) -> str | None:
        if self.accept("ONE"):
            self.expect("ROW", "PER", "MATCH")
            return "ONE ROW PER MATCH"
        if self.accept("ALL"):
            self.expect("ROWS", "PER", "MATCH")
            return "ALL ROWS PER MATCH"
        return None

    def _after_match(self) -> AfterMatch:
        start = self.index - 1
        self.expect("MATCH", "SKIP")
        if self.accept("PAST"):
            self.expect("LAST", "ROW")
            return self.placed(AfterMatch(this="PAST LAST ROW"), start)
        self.expect("TO")
        word = self.accept_any("NEXT", "FIRST", "LAST")
        if word == "NEXT":
            self.expect("ROW")
            return self.placed(AfterMatch(this="NEXT ROW"), start)
        variable = self.name("a variable of the pattern")
        return self.placed(AfterMatch(this=word or "LAST", variable=variable), start)

    def _whole_pattern(self, parts: dict[str, Any]) -> None:
        self.expect("(")
        parts["start"] = self.accept("^") or None
        parts["pattern"] = self._choice()
        parts["end"] = self.accept("$") or None
        self.expect(")")

    def _choice(self) -> Any:
        start = self.index
        choices = self.separated(self._sequence, "|")
        if len(choices) == 1:
            return choices[0]
        return self.placed(PatternChoice(expressions=choices), start)

    def _sequence(self) -> Any:
        start = self.index
        terms = [self._quantified_term()]
        while self.current.upper in ("(", "{-") or (
            self.current.kind in (TokenKind.WORD, TokenKind.QUOTED) and self.current.text != "$"
        ):
            terms.append(self._quantified_term())
        if len(terms) == 1:
            return terms[0]
        return self.placed(PatternSequence(expressions=terms), start)

    def _quantified_term(self) -> Any:
        start = self.index
        term = self._term()
        symbol = self.current.upper
        if symbol in ("*", "+", "?"):
            self.take()
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[symbol]
        elif symbol == "{":
            low, high = self._bounds()
        else:
            for expected in ("*", "+", "?", "{"):
                self.wanted(expected)
            return term
        greedy = not self.accept("?")
        node = PatternQuantified(this=term, minimum=low, maximum=high, greedy=greedy)
        return self.placed(node, start)

    def _bounds(self) -> tuple[int, int | None]:
        opened = self.take()
        low, high = 0, None
        if self.current.upper != ",":
            low = self.number()
            high = low
        if self.accept(","):
            high = None if self.current.upper == "}" else self.number()
        self.expect("}")
        if high is not None and (high < low or high == 0):
            raise self.error_at(opened, f"a quantifier cannot go from {low} to {high}")
        return low, high

    def _term(self) -> Any:
        start = self.index
        if self.accept("("):
            inner = self._choice()
            self.expect(")")
            return inner
        if self.accept("{-"):
            inner = self._choice()
            self.expect("-}")
            return self.placed(PatternExclusion(this=inner), start)
        if self.looking_at("PERMUTE", "("):
            self.take()
            choices = self.in_parentheses(lambda: self.separated(self._choice))
            return self.placed(PatternPermutation(expressions=choices), start)
        return self.placed(PatternVariable(this=self.name("a variable of the pattern")), start)

    def _subset(self) -> exp.Alias:
        start = self.index
        name = self.identifier("a variable")
        self.expect("=")
        variables = self.in_parentheses(lambda: self.separated(self.identifier))
        return self.placed(exp.Alias(this=exp.Tuple(expressions=variables), alias=name), start)

    def _definition(self) -> exp.Alias:
        start = self.index
        name = self.identifier("a variable of the pattern")
        self.expect("AS")
        return self.placed(exp.Alias(this=self._running_or_final(), alias=name), start)
