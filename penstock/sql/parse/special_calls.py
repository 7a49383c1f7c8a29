"""The grammar of functions whose operands have words between them: CAST(a AS INT), TRIM(BOTH 'x' FROM a), EXTRACT(DAY FROM t)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from penstock.sql.parse.literals import UNITS
from penstock.sql.parse.parts import ExpressionPart
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import TokenKind
from penstock.sql.parse.trees import TypeName
from penstock.sql.parse.type_names import TypeParser

# Time units of EXTRACT, CEIL, FLOOR and TIMESTAMPDIFF.
TIME_UNITS = (
    *dict.fromkeys(UNITS.values()),
    "MILLENNIUM",
    "CENTURY",
    "DECADE",
    "ISODOW",
    "ISOYEAR",
    "DOW",
    "DOY",
    "EPOCH",
    "MILLISECOND",
    "MICROSECOND",
    "NANOSECOND",
)
_UNITS_OF_TSI = {f"SQL_TSI_{unit}": unit for unit in TIME_UNITS}


#: Reads the operands of a function whose name was taken: from the name, and the index of its token.
CallReader = Callable[[Any, int], Any]


def called(tokens: TokenStream, parts: list[Any], operands: list[Any], start: int) -> object:
    """Return the node of a call of a function by the parts of its name."""
    node = tokens.placed(exp.Anonymous(this=str(parts[-1].this), expressions=operands), start)
    if len(parts) > 1:
        node.meta["path"] = tuple(str(part.this) for part in parts)
    return node


def type_name(tokens: TokenStream, types: TypeParser) -> TypeName:
    """Take a type as a node."""
    start = tokens.index
    return tokens.placed(TypeName(this=types.data_type()), start)


class SpecialCallParser:
    """Reads calls of functions that have a grammar of their own."""

    def __init__(self, tokens: TokenStream, types: TypeParser, expressions: ExpressionPart) -> None:
        self._tokens = tokens
        self._types = types
        self._expressions = expressions

    def readers(self) -> dict[str, CallReader]:
        """Return what reads the operands, by function."""
        return {
            "ROW": self._row,
            "CAST": self._cast,
            "TRY_CAST": self._cast,
            "EXTRACT": self._extract,
            "TIMESTAMPADD": self._timestamp_arithmetic,
            "TIMESTAMPDIFF": self._timestamp_arithmetic,
            "CEIL": self._rounded,
            "CEILING": self._rounded,
            "FLOOR": self._rounded,
            "TRIM": self._trim,
            "POSITION": self._position,
            "SUBSTRING": self._substring,
            "OVERLAY": self._overlay,
        }

    def _row(self, name: object, start: int) -> Any:
        self._tokens.expect("(")
        if self._tokens.accept(")"):
            return called(self._tokens, [name], [], start)
        values = self._tokens.separated(self._row_value)
        self._tokens.expect(")")
        return called(self._tokens, [name], values, start)

    def _row_value(self) -> object:
        start = self._tokens.index
        value = self._expressions.expression()
        if self._tokens.accept("AS"):
            alias = self._tokens.any_identifier()
            return self._tokens.placed(exp.Alias(this=value, alias=alias), start)
        return value

    def _cast(self, name: Any, start: int) -> object:
        self._tokens.expect("(")
        value = self._expressions.expression()
        self._tokens.expect("AS")
        to = type_name(self._tokens, self._types)
        self._tokens.expect(")")
        kind = exp.TryCast if name.this.upper() == "TRY_CAST" else exp.Cast
        return self._tokens.placed(kind(this=value, to=to), start)

    def _symbol(self) -> exp.Var:
        """Take a unit of time, as the word itself, as SQL_TSI_unit or in quotes."""
        token = self._tokens.current
        word = token.upper if token.kind is TokenKind.WORD else token.text.upper()
        unit = UNITS.get(word) or _UNITS_OF_TSI.get(word) or (word if word in TIME_UNITS else None)
        if unit is None or token.kind not in (TokenKind.WORD, TokenKind.STRING):
            self._tokens.wanted("a unit of time such as SECOND, MINUTE, HOUR, DAY, MONTH or YEAR")
            raise self._tokens.failure()
        self._tokens.take()
        return self._tokens.placed(exp.Var(this=unit), self._tokens.index - 1)

    def _extract(self, name: object, start: int) -> object:
        self._tokens.expect("(")
        unit = self._symbol()
        self._tokens.expect("FROM")
        value = self._expressions.expression()
        self._tokens.expect(")")
        return self._tokens.placed(exp.Extract(this=unit, expression=value), start)

    def _timestamp_arithmetic(self, name: object, start: int) -> object:
        self._tokens.expect("(")
        operands: list[Any] = [self._symbol()]
        while self._tokens.accept(","):
            operands.append(self._expressions.expression())
        self._tokens.expect(")")
        return called(self._tokens, [name], operands, start)

    def _rounded(self, name: object, start: int) -> object:
        self._tokens.expect("(")
        operands = [self._expressions.expression()]
        if self._tokens.accept("TO"):
            operands.append(self._symbol())
        self._tokens.expect(")")
        return called(self._tokens, [name], operands, start)

    def _trim(self, name: object, start: int) -> object:
        self._tokens.expect("(")
        place = self._tokens.current.upper
        characters = None
        if place in ("BOTH", "LEADING", "TRAILING"):
            self._tokens.take()
            if self._tokens.current.upper != "FROM":
                characters = self._expressions.expression()
            self._tokens.expect("FROM")
        else:
            first = self._expressions.expression()
            if not self._tokens.accept("FROM"):
                operands = [first]
                while self._tokens.accept(","):
                    operands.append(self._expressions.expression())
                self._tokens.expect(")")
                return called(self._tokens, [name], operands, start)
            place, characters = "BOTH", first
        text = self._expressions.expression()
        self._tokens.expect(")")
        node = exp.Trim(this=text, position=place, expression=characters)
        return self._tokens.placed(node, start)

    def _position(self, name: object, start: int) -> object:
        self._tokens.expect("(")
        what = self._expressions.sum()
        if not self._tokens.accept_any("IN", ","):
            raise self._tokens.failure()
        operands = [what, self._expressions.expression()]
        if self._tokens.accept("FROM"):
            operands.append(self._expressions.expression())
        self._tokens.expect(")")
        return called(self._tokens, [name], operands, start)

    def _substring(self, name: object, start: int) -> Any:
        self._tokens.expect("(")
        operands = [self._expressions.expression()]
        if self._tokens.accept("FROM"):
            operands.append(self._expressions.expression())
            if self._tokens.accept("FOR"):
                operands.append(self._expressions.expression())
        else:
            while self._tokens.accept(","):
                operands.append(self._expressions.expression())
        self._tokens.expect(")")
        return called(self._tokens, [name], operands, start)

    def _overlay(self, name: object, start: int) -> object:
        self._tokens.expect("(")
        operands = [self._expressions.expression()]
        if self._tokens.accept("PLACING"):
            operands.append(self._expressions.expression())
            self._tokens.expect("FROM")
            operands.append(self._expressions.expression())
            if self._tokens.accept("FOR"):
                operands.append(self._expressions.expression())
        else:
            while self._tokens.accept(","):
                operands.append(self._expressions.expression())
        self._tokens.expect(")")
        return called(self._tokens, [name], operands, start)
