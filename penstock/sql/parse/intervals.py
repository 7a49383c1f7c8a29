"""The grammar of intervals: INTERVAL '10' SECOND, INTERVAL '1-2' YEAR TO MONTH, INTERVAL n DAY."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.parse.literals import (
    UNITS,
    check_interval,
    is_span,
    units_of,
)
from penstock.sql.parse.parts import ExpressionPart
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import TokenKind


class IntervalParser:
    """Reads intervals and their units."""

    def __init__(self, tokens: TokenStream, expressions: ExpressionPart) -> None:
        self._tokens = tokens
        self._expressions = expressions

    def interval(self) -> Any:
        """Take INTERVAL '...' unit [TO unit]; the constant may also be a number, or an operand."""
        start = self._tokens.index
        self._tokens.expect("INTERVAL")
        sign = "-" if self._tokens.current.upper == "-" else ""
        if self._tokens.current.upper in ("-", "+"):
            self._tokens.take()
        text_token = self._tokens.current
        if not sign and (
            text_token.upper == "(" or text_token.kind in (TokenKind.WORD, TokenKind.QUOTED)
        ):
            return self._counted_interval(start)
        if text_token.kind is TokenKind.NUMBER:
            text = sign + self._tokens.take().text
        else:
            text = sign + self._tokens.string("a string such as '10'")
        unit = self.units()
        problem = check_interval(text, *units_of(unit))
        if problem is not None:
            raise self._tokens.error_at(text_token, problem)
        return self._tokens.placed(exp.Interval(this=exp.Literal.string(text), unit=unit), start)

    def at_interval(self) -> bool:
        """Return whether INTERVAL begins an interval, and is not a name: a constant comes next, or an operand with a unit behind it."""
        after = self._tokens.ahead(2 if self._tokens.ahead().upper in ("-", "+") else 1)
        return (
            after.kind in (TokenKind.STRING, TokenKind.NUMBER)
            or after.upper == "("
            or (
                after.kind in (TokenKind.WORD, TokenKind.QUOTED)
                and self._tokens.ahead(2).upper in UNITS
            )
        )

    def units(self) -> object:
        """Take a unit, or one TO a smaller one."""
        first = exp.Var(this=self._unit())
        if not self._tokens.accept("TO"):
            return first
        token = self._tokens.current
        last = exp.Var(this=self._unit())
        if not is_span(first.name, last.name):
            raise self._tokens.error_at(
                token, f"an interval cannot go from {first.name} to {last.name}"
            )
        return exp.IntervalSpan(this=first, expression=last)

    def _counted_interval(self, start: int) -> object:
        """Take INTERVAL n unit, of which INTERVAL is taken: n times the unit."""
        operand = (
            self._expressions.parenthesized()
            if self._tokens.current.upper == "("
            else self._expressions.named()
        )
        unit = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this=self._unit()))
        return self._tokens.placed(
            exp.Mul(this=operand, expression=self._tokens.placed(unit, start)), start
        )

    def _unit(self) -> str:
        word = self._tokens.current.upper
        unit = UNITS.get(word)
        if unit is None:
            self._tokens.wanted("a unit such as SECOND, MINUTE, HOUR, DAY, MONTH or YEAR")
            raise self._tokens.failure()
        self._tokens.take()
        if self._tokens.accept("("):  # a precision says nothing about the value
            self._tokens.separated(self._tokens.number)
            self._tokens.expect(")")
        return unit
