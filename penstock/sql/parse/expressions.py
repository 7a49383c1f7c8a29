"""The grammar of expressions, with the precedence of standard SQL: OR, AND, NOT, IS, comparisons, IN and its kin, + -, * / % ||, signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from penstock.sql.errors import SqlParseError
from penstock.sql.parse.calls import NO_PARENTHESES, CallParser
from penstock.sql.parse.literals import (
    UNITS,
    check_interval,
    is_span,
    units_of,
)
from penstock.sql.parse.stream import RESERVED
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
_QUERY_WORDS = ("SELECT", "WITH", "VALUES")
# Keywords that may follow a parenthesized query within a larger query.
_BEHIND_QUERY = (")", "UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH")


class ExpressionParser(CallParser):
    """Reads expressions."""

    def expression(self) -> Any:
        """Take an expression."""
        token = self.current
        if token.kind in (TokenKind.NUMBER, TokenKind.STRING) and self.ahead().upper in (",", ")"):
            return self._primary()  # fast path for long lists of constants
        return self._chain("OR", exp.Or, self._conjunction)

    def _conjunction(self) -> Any:
        return self._chain("AND", exp.And, self._negation)

    def _chain(self, word: str, kind: type[exp.Expression], operand: Callable[[], Any]) -> Any:
        start = self.index
        operands = [operand()]
        while self.accept(word):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else self._joined(kind, operands, start)

    def _joined(self, kind: type[exp.Expression], operands: list[Any], start: int) -> Any:
        """Return operands with AND or OR between: a few from left to right, many as a tree that is not deep, since those who walk over it call themselves."""
        if len(operands) <= _MANY:
            left = operands[0]
            for right in operands[1:]:
                left = self.placed(kind(this=left, expression=right), start)
            return left
        middle = len(operands) // 2
        halves = (
            self._joined(kind, part, start) for part in (operands[:middle], operands[middle:])
        )
        return self.placed(kind(this=next(halves), expression=next(halves)), start)

    def _negation(self) -> Any:
        start = self.index
        if self.current.upper == "NOT":
            self.take()
            return self.placed(exp.Not(this=self._negation()), start)
        return self._tested()

    def _tested(self) -> Any:
        start = self.index
        left = self._comparison()
        while self.current.upper == "IS":
            self.take()
            left = self._is(left, start)
        for word in ("AND", "OR"):
            self.wanted(word)
        return left

    def _comparison(self) -> Any:
        start = self.index
        left = self._range()
        while True:
            symbol = self.current.upper
            if symbol in _COMPARISONS:
                self.take()
                right = self._quantified() or self._range()
                left = self.placed(_COMPARISONS[symbol](this=left, expression=right), start)
            elif self.looking_at("IS", "DISTINCT", "FROM"):
                self.index += 3
                left = self.placed(exp.NullSafeNEQ(this=left, expression=self._range()), start)
            elif self.looking_at("IS", "NOT", "DISTINCT", "FROM"):
                self.index += 4
                left = self.placed(exp.NullSafeEQ(this=left, expression=self._range()), start)
            else:
                return left

    def _range(self) -> Any:
        start = self.index
        left = self.sum()
        while (found := self._predicate(left, start)) is not None:
            left = found
        return left

    def _quantified(self) -> Any:
        """Take ANY, SOME or ALL (query), if that comes next."""
        if self.current.upper not in ("ANY", "SOME", "ALL") or self.ahead().upper != "(":
            return None
        start = self.index
        kind = exp.All if self.take().upper == "ALL" else exp.Any
        return self.placed(kind(this=self._subquery_or_list()), start)

    def _subquery_or_list(self) -> Any:
        start = self.index
        if self.ahead().upper in _QUERY_WORDS:
            return self.subquery()
        values = self.in_parentheses(lambda: self.separated(self.expression))
        return self.placed(exp.Tuple(expressions=values), start)

    def _predicate(self, left: Any, start: int) -> Any:
        """Parse the predicate after an operand: IN, LIKE, BETWEEN, ... with or without NOT."""
        negated = self.current.upper == "NOT"
        word = self.ahead().upper if negated else self.current.upper
        parse = {
            "IN": self._in,
            "LIKE": self._like,
            "SIMILAR": self._like,
            "BETWEEN": self._between,
            "OVERLAPS": self._overlaps,
        }.get(word)
        if parse is None or (negated and word == "OVERLAPS"):
            return None
        self.index += 2 if negated else 1
        node = self.placed(parse(left, word), start)
        return self.placed(exp.Not(this=node), start) if negated else node

    def _is(self, left: Any, start: int) -> Any:
        negated = self.accept("NOT")
        word = self.expect_any("NULL", "TRUE", "FALSE", "UNKNOWN", "JSON", "DISTINCT")
        if word == "DISTINCT":
            self.expect("FROM")
            raise self.failure()
        node: exp.Expression
        if word == "JSON":
            kind_of_json = self.accept_any("VALUE", "OBJECT", "ARRAY", "SCALAR") or "VALUE"
            node = IsJson(this=left, kind=kind_of_json)
        elif word in ("NULL", "UNKNOWN"):
            node = exp.Is(this=left, expression=exp.Null())
        else:
            node = exp.Is(this=left, expression=exp.Boolean(this=word == "TRUE"))
        node = self.placed(node, start)
        return self.placed(exp.Not(this=node), start) if negated else node

    def _in(self, left: Any, word: str) -> exp.Expression:
        if self._query_in_parentheses():
            return exp.In(this=left, query=self.subquery())
        values = self.in_parentheses(lambda: self.separated(self.expression))
        return exp.In(this=left, expressions=values)

    def _like(self, left: Any, word: str) -> exp.Expression:
        start = self.index
        if word == "SIMILAR":
            self.expect("TO")
        kind = exp.SimilarTo if word == "SIMILAR" else exp.Like
        node: exp.Expression = kind(this=left, expression=self.sum())
        if self.accept("ESCAPE"):
            node = exp.Escape(this=self.placed(node, start), expression=self.sum())
        return node

    def _between(self, left: Any, word: str) -> exp.Expression:
        symmetric = self.accept("SYMMETRIC")
        if not symmetric:
            self.accept("ASYMMETRIC")
        low = self.sum()
        self.expect("AND")
        high = self.sum()
        return exp.Between(this=left, low=low, high=high, symmetric=symmetric or None)

    def _overlaps(self, left: Any, word: str) -> exp.Expression:
        return exp.Overlaps(this=left, expression=self.sum())

    # --- arithmetic ---------------------------------------------------------------------------

    def sum(self) -> Any:
        """Take an operand of a comparison."""
        return self._binary({"+": exp.Add, "-": exp.Sub}, self._product)

    def _product(self) -> Any:
        operators: dict[str, type[exp.Expression]] = {
            "*": exp.Mul,
            "/": exp.Div,
            "%": exp.Mod,
            "||": exp.DPipe,
        }
        return self._binary(operators, self._signed)

    def _binary(
        self, operators: dict[str, type[exp.Expression]], operand: Callable[[], Any]
    ) -> Any:
        start = self.index
        left = operand()
        while (kind := operators.get(self.current.upper)) is not None:
            self.take()
            left = self.placed(kind(this=left, expression=operand()), start)
        return left

    def _signed(self) -> Any:
        start = self.index
        if self.current.upper == "-":
            self.take()
            return self.placed(exp.Neg(this=self._signed()), start)
        if self.current.upper == "+":
            self.take()
            return self._signed()
        return self._accessed(self._primary(), start)

    def _accessed(self, node: Any, start: int) -> Any:
        """Parse accesses after an operand: [index] and .field."""
        while True:
            if self.current.upper == "[":
                self.take()
                index = self.expression()
                self.expect("]")
                node = self.placed(exp.Bracket(this=node, expressions=[index]), start)
            elif self.current.upper == "." and not isinstance(node, exp.Literal):
                self.take()
                if self.current.upper == "*":
                    self.take()
                    field: exp.Expression = exp.Star()
                else:
                    field = self.any_identifier("the name of a field")
                node = self.placed(exp.Dot(this=node, expression=field), start)
            else:
                return node

    # --- operands -----------------------------------------------------------------------------

    def _primary(self) -> Any:
        token = self.current
        if token.kind is TokenKind.WORD:
            return self._word()
        start = self.index
        if token.kind is TokenKind.QUOTED:
            return self._named()
        if token.kind is TokenKind.STRING:
            return self._text()
        if token.kind is TokenKind.NUMBER:
            self.take()
            return self.placed(exp.Literal.number(token.text), start)
        if token.kind is TokenKind.HEX:
            self.take()
            return self.placed(HexLiteral(this=token.text), start)
        if token.upper == "(":
            return self._parenthesised()
        if token.upper == "." and self.ahead().kind is TokenKind.NUMBER:
            self.take()
            return self.placed(exp.Literal.number(f"0.{self.take().text}"), start)
        raise self.no_expression()

    def no_expression(self) -> SqlParseError:
        """Return the error that an expression was expected."""
        self.wanted("an expression")
        return self.failure()

    def _text(self) -> Any:
        """Take a string; strings on lines after each other are one."""
        start = self.index
        text = self.take().text
        while self.current.kind is TokenKind.STRING:
            text += self.take().text
        return self.placed(exp.Literal.string(text), start)

    def _parenthesised(self) -> Any:
        start = self.index
        if self._query_in_parentheses():
            return self.subquery()
        self.expect("(")
        values = self.separated(self.expression)
        self.expect(")")
        if len(values) == 1:
            if isinstance(values[0], exp.Sub) and self.current.upper in UNITS:
                return self._difference(values[0], start)
            return self.placed(exp.Paren(this=values[0]), start)
        return self.placed(exp.Tuple(expressions=values), start)

    def _difference(self, inner: Any, start: int) -> Any:
        """Take the unit behind (a - b), which makes it an interval: DAY is not an alias there."""
        unit = self._units()
        return self.placed(
            Difference(this=inner.this, expression=inner.expression, unit=unit), start
        )

    def _query_in_parentheses(self) -> bool:
        """Return whether the parenthesis that comes next holds a query, maybe in more parentheses."""
        return self.current.upper == "(" and self._holds_query(self.index)

    def _holds_query(self, at: int) -> bool:
        """Return whether the parenthesis at a token holds a query: ((SELECT 1) UNION ...) does, ((SELECT 1) + 1) does not."""
        inner = self.tokens[min(at + 1, len(self.tokens) - 1)].upper
        if inner != "(" or not self._holds_query(at + 1):
            return inner in _QUERY_WORDS or inner == "TABLE"
        depth, end = 1, at + 2
        while depth and end < len(self.tokens):
            depth += {"(": 1, ")": -1}.get(self.tokens[end].upper, 0)
            end += 1
        return end < len(self.tokens) and self.tokens[end].upper in _BEHIND_QUERY

    def _word(self) -> Any:
        token = self.current
        word, start = token.upper, self.index
        if word in ("NULL", "TRUE", "FALSE", "UNKNOWN"):
            self.take()
            constant = exp.Boolean(this=word == "TRUE") if word in ("TRUE", "FALSE") else exp.Null()
            return self.placed(constant, start)
        if word == "CASE":
            return self._case()
        if word == "EXISTS":
            self.take()
            return self.placed(exp.Exists(this=self.subquery().this), start)
        if word in _LITERAL_TYPES and self.ahead().kind is TokenKind.STRING:
            self.take()
            return self.placed(TypedLiteral(this=self.take().text, kind=word), start)
        if word == "INTERVAL" and self._at_interval():
            return self.interval()
        special = self.special_call()
        if special is not None:
            return special
        if word in NO_PARENTHESES and self.ahead().upper != "(":
            self.take()
            return self.placed(exp.Anonymous(this=token.text, expressions=[]), start)
        if word in RESERVED and (word not in _CALLABLE or self.ahead().upper != "("):
            raise self.no_expression()
        return self._named()

    def _named(self) -> Any:
        """Take a column with its qualifiers, or a call of a function."""
        start = self.index
        parts = [self.any_identifier("a column or function")]
        while self.current.upper == ".":
            if self.ahead().upper == "*":
                self.take()
                star = self.placed(exp.Star(), self.index)
                self.take()
                return self._column([*parts, star], start)
            self.take()
            parts.append(self.any_identifier("a name"))
        if self.current.upper == "(":
            return self.call(parts, start)
        return self._column(parts, start)

    def _column(self, parts: list[Any], start: int) -> Any:
        head, rest = parts[:4], parts[4:]
        roles = dict(zip(("this", "table", "db", "catalog"), reversed(head), strict=False))
        node: exp.Expression = self.placed(exp.Column(**roles), start)
        for field in rest:
            node = self.placed(exp.Dot(this=node, expression=field), start)
        return node

    def _case(self) -> Any:
        start = self.index
        self.take()
        operand = None if self.current.upper == "WHEN" else self.expression()
        branches = []
        self.expect("WHEN")
        while True:
            first = self.index
            conditions = self.separated(self.expression)
            self.expect("THEN")
            result = self.expression()
            if len(conditions) > 1 and operand is None:
                raise self.error_at(self.tokens[first], "a condition must be one expression")
            for condition in conditions:
                branch = exp.If(this=condition, true=result.copy())
                branches.append(self.placed(branch, first))
            if not self.accept("WHEN"):
                break
        default = self.expression() if self.accept("ELSE") else None
        self.expect("END")
        return self.placed(exp.Case(this=operand, ifs=branches, default=default), start)

    def _at_interval(self) -> bool:
        """Return whether INTERVAL begins an interval, and is not a name: a constant comes next, or an operand with a unit behind it."""
        after = self.ahead(2 if self.ahead().upper in ("-", "+") else 1)
        return (
            after.kind in (TokenKind.STRING, TokenKind.NUMBER)
            or after.upper == "("
            or (after.kind in (TokenKind.WORD, TokenKind.QUOTED) and self.ahead(2).upper in UNITS)
        )

    def _counted_interval(self, start: int) -> Any:
        """Take INTERVAL n unit, of which INTERVAL is taken: n times the unit."""
        operand = self._parenthesised() if self.current.upper == "(" else self._named()
        unit = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this=self._unit()))
        return self.placed(exp.Mul(this=operand, expression=self.placed(unit, start)), start)

    def interval(self) -> Any:
        """Take INTERVAL '...' unit [TO unit]; the constant may also be a number, or an operand."""
        start = self.index
        self.expect("INTERVAL")
        sign = "-" if self.current.upper == "-" else ""
        if self.current.upper in ("-", "+"):
            self.take()
        text_token = self.current
        if not sign and (
            text_token.upper == "(" or text_token.kind in (TokenKind.WORD, TokenKind.QUOTED)
        ):
            return self._counted_interval(start)
        if text_token.kind is TokenKind.NUMBER:
            text = sign + self.take().text
        else:
            text = sign + self.string("a string such as '10'")
        unit = self._units()
        problem = check_interval(text, *units_of(unit))
        if problem is not None:
            raise self.error_at(text_token, problem)
        return self.placed(exp.Interval(this=exp.Literal.string(text), unit=unit), start)

    def _units(self) -> Any:
        """Take a unit, or one TO a smaller one."""
        first = exp.Var(this=self._unit())
        if not self.accept("TO"):
            return first
        token = self.current
        last = exp.Var(this=self._unit())
        if not is_span(first.name, last.name):
            raise self.error_at(token, f"an interval cannot go from {first.name} to {last.name}")
        return exp.IntervalSpan(this=first, expression=last)

    def _unit(self) -> str:
        word = self.current.upper
        unit = UNITS.get(word)
        if unit is None:
            self.wanted("a unit such as SECOND, MINUTE, HOUR, DAY, MONTH or YEAR")
            raise self.failure()
        self.take()
        if self.accept("("):  # a precision says nothing about the value
            self.separated(self.number)
            self.expect(")")
        return unit
