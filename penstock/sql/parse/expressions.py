"""The grammar of expressions, with the precedence of standard SQL: OR, AND, NOT, IS, comparisons, IN and its kin, + -, * / % ||, signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from penstock.sql.errors import SqlParseError
from penstock.sql.parse.calls import NO_PARENTHESES, CallParser
from penstock.sql.parse.intervals import IntervalParser
from penstock.sql.parse.literals import UNITS
from penstock.sql.parse.names import QUERY_WORDS, query_in_parentheses
from penstock.sql.parse.parts import QueryPart
from penstock.sql.parse.stream import RESERVED, TokenStream
from penstock.sql.parse.tokens import TokenKind
from penstock.sql.parse.trees import (
    Difference,
    HexLiteral,
    IsJson,
    TypedLiteral,
)

_COMPARISONS: dict[str, type[exp.Expression]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_LITERAL_TYPES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
_MANY = 16
_CALLABLE = ("LEFT", "RIGHT")  # reserved, but also functions


class ExpressionParser:
    """Reads expressions. `connect` gives it the parts that hold expressions themselves."""

    _calls: CallParser
    _intervals: IntervalParser
    _queries: QueryPart

    def __init__(self, tokens: TokenStream) -> None:
        self._tokens = tokens

    def connect(self, calls: CallParser, intervals: IntervalParser, queries: QueryPart) -> None:
        """Take the parts that read operands, which need this one."""
        self._calls = calls
        self._intervals = intervals
        self._queries = queries

    def expression(self) -> Any:
        """Take an expression."""
        token = self._tokens.current
        if token.kind in (TokenKind.NUMBER, TokenKind.STRING) and self._tokens.ahead().upper in (
            ",",
            ")",
        ):
            return self._primary()  # fast path for long lists of constants
        return self._chain("OR", exp.Or, self._conjunction)

    def _conjunction(self) -> object:
        return self._chain("AND", exp.And, self._negation)

    def _chain(self, word: str, kind: type[exp.Expression], operand: Callable[[], Any]) -> object:
        start = self._tokens.index
        operands = [operand()]
        while self._tokens.accept(word):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else self._joined(kind, operands, start)

    def _joined(self, kind: type[exp.Expression], operands: list[Any], start: int) -> object:
        """Return operands with AND or OR between: a few from left to right, many as a tree that is not deep, since those who walk over it call themselves."""
        if len(operands) <= _MANY:
            left = operands[0]
            for right in operands[1:]:
                left = self._tokens.placed(kind(this=left, expression=right), start)
            return left
        middle = len(operands) // 2
        halves = (
            self._joined(kind, part, start) for part in (operands[:middle], operands[middle:])
        )
        return self._tokens.placed(kind(this=next(halves), expression=next(halves)), start)

    def _negation(self) -> object:
        start = self._tokens.index
        if self._tokens.current.upper == "NOT":
            self._tokens.take()
            return self._tokens.placed(exp.Not(this=self._negation()), start)
        return self._tested()

    def _tested(self) -> object:
        start = self._tokens.index
        left = self._comparison()
        while self._tokens.current.upper == "IS":
            self._tokens.take()
            left = self._is(left, start)
        for word in ("AND", "OR"):
            self._tokens.wanted(word)
        return left

    def _comparison(self) -> object:
        start = self._tokens.index
        left = self._range()
        while True:
            symbol = self._tokens.current.upper
            if symbol in _COMPARISONS:
                self._tokens.take()
                right = self._quantified() or self._range()
                left = self._tokens.placed(_COMPARISONS[symbol](this=left, expression=right), start)
            elif self._tokens.looking_at("IS", "DISTINCT", "FROM"):
                self._tokens.skip(3)
                left = self._tokens.placed(
                    exp.NullSafeNEQ(this=left, expression=self._range()), start
                )
            elif self._tokens.looking_at("IS", "NOT", "DISTINCT", "FROM"):
                self._tokens.skip(4)
                left = self._tokens.placed(
                    exp.NullSafeEQ(this=left, expression=self._range()), start
                )
            else:
                return left

    def _range(self) -> object:
        start = self._tokens.index
        left = self.sum()
        while (found := self._predicate(left, start)) is not None:
            left = found
        return left

    def _quantified(self) -> object:
        """Take ANY, SOME or ALL (query), if that comes next."""
        if (
            self._tokens.current.upper not in ("ANY", "SOME", "ALL")
            or self._tokens.ahead().upper != "("
        ):
            return None
        start = self._tokens.index
        kind = exp.All if self._tokens.take().upper == "ALL" else exp.Any
        return self._tokens.placed(kind(this=self._subquery_or_list()), start)

    def _subquery_or_list(self) -> object:
        start = self._tokens.index
        if self._tokens.ahead().upper in QUERY_WORDS:
            return self._queries.subquery()
        values = self._tokens.in_parentheses(lambda: self._tokens.separated(self.expression))
        return self._tokens.placed(exp.Tuple(expressions=values), start)

    def _predicate(self, left: object, start: int) -> object:
        """Parse the predicate after an operand: IN, LIKE, BETWEEN, ... with or without NOT."""
        negated = self._tokens.current.upper == "NOT"
        word = self._tokens.ahead().upper if negated else self._tokens.current.upper
        parse = {
            "IN": self._in,
            "LIKE": self._like,
            "SIMILAR": self._like,
            "BETWEEN": self._between,
            "OVERLAPS": self._overlaps,
        }.get(word)
        if parse is None or (negated and word == "OVERLAPS"):
            return None
        self._tokens.skip(2 if negated else 1)
        node = self._tokens.placed(parse(left, word), start)
        return self._tokens.placed(exp.Not(this=node), start) if negated else node

    def _is(self, left: object, start: int) -> object:
        negated = self._tokens.accept("NOT")
        word = self._tokens.expect_any("NULL", "TRUE", "FALSE", "UNKNOWN", "JSON", "DISTINCT")
        if word == "DISTINCT":
            self._tokens.expect("FROM")
            raise self._tokens.failure()
        node: exp.Expression
        if word == "JSON":
            kind_of_json = self._tokens.accept_any("VALUE", "OBJECT", "ARRAY", "SCALAR") or "VALUE"
            node = IsJson(this=left, kind=kind_of_json)
        elif word in ("NULL", "UNKNOWN"):
            node = exp.Is(this=left, expression=exp.Null())
        else:
            node = exp.Is(this=left, expression=exp.Boolean(this=word == "TRUE"))
        node = self._tokens.placed(node, start)
        return self._tokens.placed(exp.Not(this=node), start) if negated else node

    def _in(self, left: object, word: str) -> exp.Expression:
        if query_in_parentheses(self._tokens):
            return exp.In(this=left, query=self._queries.subquery())
        values = self._tokens.in_parentheses(lambda: self._tokens.separated(self.expression))
        return exp.In(this=left, expressions=values)

    def _like(self, left: object, word: str) -> exp.Expression:
        start = self._tokens.index
        if word == "SIMILAR":
            self._tokens.expect("TO")
        kind = exp.SimilarTo if word == "SIMILAR" else exp.Like
        node: exp.Expression = kind(this=left, expression=self.sum())
        if self._tokens.accept("ESCAPE"):
            node = exp.Escape(this=self._tokens.placed(node, start), expression=self.sum())
        return node

    def _between(self, left: object, word: str) -> exp.Expression:
        symmetric = self._tokens.accept("SYMMETRIC")
        if not symmetric:
            self._tokens.accept("ASYMMETRIC")
        low = self.sum()
        self._tokens.expect("AND")
        high = self.sum()
        return exp.Between(this=left, low=low, high=high, symmetric=symmetric or None)

    def _overlaps(self, left: object, word: str) -> exp.Expression:
        return exp.Overlaps(this=left, expression=self.sum())

    # --- arithmetic ---------------------------------------------------------------------------

    def sum(self) -> Any:
        """Take an operand of a comparison."""
        return self._binary({"+": exp.Add, "-": exp.Sub}, self._product)

    def _product(self) -> object:
        operators: dict[str, type[exp.Expression]] = {
            "*": exp.Mul,
            "/": exp.Div,
            "%": exp.Mod,
            "||": exp.DPipe,
        }
        return self._binary(operators, self._signed)

    def _binary(
        self, operators: dict[str, type[exp.Expression]], operand: Callable[[], Any]
    ) -> object:
        start = self._tokens.index
        left = operand()
        while (kind := operators.get(self._tokens.current.upper)) is not None:
            self._tokens.take()
            left = self._tokens.placed(kind(this=left, expression=operand()), start)
        return left

    def _signed(self) -> object:
        start = self._tokens.index
        if self._tokens.current.upper == "-":
            self._tokens.take()
            return self._tokens.placed(exp.Neg(this=self._signed()), start)
        if self._tokens.current.upper == "+":
            self._tokens.take()
            return self._signed()
        return self._accessed(self._primary(), start)

    def _accessed(self, node: object, start: int) -> object:
        """Parse accesses after an operand: [index] and .field."""
        while True:
            if self._tokens.current.upper == "[":
                self._tokens.take()
                index = self.expression()
                self._tokens.expect("]")
                node = self._tokens.placed(exp.Bracket(this=node, expressions=[index]), start)
            elif self._tokens.current.upper == "." and not isinstance(node, exp.Literal):
                self._tokens.take()
                if self._tokens.current.upper == "*":
                    self._tokens.take()
                    field: exp.Expression = exp.Star()
                else:
                    field = self._tokens.any_identifier("the name of a field")
                node = self._tokens.placed(exp.Dot(this=node, expression=field), start)
            else:
                return node

    # --- operands -----------------------------------------------------------------------------

    def _primary(self) -> object:
        token = self._tokens.current
        if token.kind is TokenKind.WORD:
            return self._word()
        start = self._tokens.index
        if token.kind is TokenKind.QUOTED:
            return self.named()
        if token.kind is TokenKind.STRING:
            return self._text()
        if token.kind is TokenKind.NUMBER:
            self._tokens.take()
            return self._tokens.placed(exp.Literal.number(token.text), start)
        if token.kind is TokenKind.HEX:
            self._tokens.take()
            return self._tokens.placed(HexLiteral(this=token.text), start)
        if token.upper == "(":
            return self.parenthesized()
        if token.upper == "." and self._tokens.ahead().kind is TokenKind.NUMBER:
            self._tokens.take()
            return self._tokens.placed(exp.Literal.number(f"0.{self._tokens.take().text}"), start)
        raise self.no_expression()

    def no_expression(self) -> SqlParseError:
        """Return the error that an expression was expected."""
        self._tokens.wanted("an expression")
        return self._tokens.failure()

    def _text(self) -> object:
        """Take a string; strings on lines after each other are one."""
        start = self._tokens.index
        text = self._tokens.take().text
        while self._tokens.current.kind is TokenKind.STRING:
            text += self._tokens.take().text
        return self._tokens.placed(exp.Literal.string(text), start)

    def parenthesized(self) -> object:
        """Take a query, an expression or several expressions in parentheses."""
        start = self._tokens.index
        if query_in_parentheses(self._tokens):
            return self._queries.subquery()
        self._tokens.expect("(")
        values = self._tokens.separated(self.expression)
        self._tokens.expect(")")
        if len(values) == 1:
            if isinstance(values[0], exp.Sub) and self._tokens.current.upper in UNITS:
                return self._difference(values[0], start)
            return self._tokens.placed(exp.Paren(this=values[0]), start)
        return self._tokens.placed(exp.Tuple(expressions=values), start)

    def _difference(self, inner: Any, start: int) -> object:
        """Take the unit behind (a - b), which makes it an interval: DAY is not an alias there."""
        unit = self._intervals.units()
        return self._tokens.placed(
            Difference(this=inner.this, expression=inner.expression, unit=unit), start
        )

    def _word(self) -> object:
        token = self._tokens.current
        word, start = token.upper, self._tokens.index
        if word in ("NULL", "TRUE", "FALSE", "UNKNOWN"):
            self._tokens.take()
            constant = exp.Boolean(this=word == "TRUE") if word in ("TRUE", "FALSE") else exp.Null()
            return self._tokens.placed(constant, start)
        if word == "CASE":
            return self._case()
        if word == "EXISTS":
            self._tokens.take()
            return self._tokens.placed(exp.Exists(this=self._queries.subquery().this), start)
        if word in _LITERAL_TYPES and self._tokens.ahead().kind is TokenKind.STRING:
            self._tokens.take()
            return self._tokens.placed(
                TypedLiteral(this=self._tokens.take().text, kind=word), start
            )
        if word == "INTERVAL" and self._intervals.at_interval():
            return self._intervals.interval()
        special = self._calls.special_call()
        if special is not None:
            return special
        if word in NO_PARENTHESES and self._tokens.ahead().upper != "(":
            self._tokens.take()
            return self._tokens.placed(exp.Anonymous(this=token.text, expressions=[]), start)
        if word in RESERVED and (word not in _CALLABLE or self._tokens.ahead().upper != "("):
            raise self.no_expression()
        return self.named()

    def named(self) -> Any:
        """Take a column with its qualifiers, or a call of a function."""
        start = self._tokens.index
        parts = [self._tokens.any_identifier("a column or function")]
        while self._tokens.current.upper == ".":
            if self._tokens.ahead().upper == "*":
                self._tokens.take()
                star = self._tokens.placed(exp.Star(), self._tokens.index)
                self._tokens.take()
                return self._column([*parts, star], start)
            self._tokens.take()
            parts.append(self._tokens.any_identifier("a name"))
        if self._tokens.current.upper == "(":
            return self._calls.call(parts, start)
        return self._column(parts, start)

    def _column(self, parts: list[Any], start: int) -> object:
        head, rest = parts[:4], parts[4:]
        roles = dict(zip(("this", "table", "db", "catalog"), reversed(head), strict=False))
        node: exp.Expression = self._tokens.placed(exp.Column(**roles), start)
        for field in rest:
            node = self._tokens.placed(exp.Dot(this=node, expression=field), start)
        return node

    def _case(self) -> object:
        start = self._tokens.index
        self._tokens.take()
        operand = None if self._tokens.current.upper == "WHEN" else self.expression()
        branches = []
        self._tokens.expect("WHEN")
        while True:
            first = self._tokens.index
            conditions = self._tokens.separated(self.expression)
            self._tokens.expect("THEN")
            result = self.expression()
            if len(conditions) > 1 and operand is None:
                raise self._tokens.error_at(
                    self._tokens.at(first), "a condition must be one expression"
                )
            for condition in conditions:
                branch = exp.If(this=condition, true=result.copy())
                branches.append(self._tokens.placed(branch, first))
            if not self._tokens.accept("WHEN"):
                break
        default = self.expression() if self._tokens.accept("ELSE") else None
        self._tokens.expect("END")
        return self._tokens.placed(exp.Case(this=operand, ifs=branches, default=default), start)
