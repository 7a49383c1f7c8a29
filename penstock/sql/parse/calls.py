"""The grammar of calls: operands, DISTINCT, ORDER BY, FILTER, OVER, and tables as operands."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.parse.json_calls import JsonCallParser
from penstock.sql.parse.names import table_name
from penstock.sql.parse.parts import ExpressionPart, QueryPart
from penstock.sql.parse.special_calls import CallReader, SpecialCallParser, called
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import TokenKind
from penstock.sql.parse.trees import DefaultArgument, Descriptor, TableArgument
from penstock.sql.parse.type_names import TypeParser
from penstock.sql.parse.windows import WindowParser

# Functions that are called without parentheses.
NO_PARENTHESES = frozenset(
    [
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "CURRENT_ROW_TIMESTAMP",
        "LOCALTIME",
        "LOCALTIMESTAMP",
        "CURRENT_DATABASE",
        "CURRENT_CATALOG",
        "CURRENT_USER",
        "SESSION_USER",
        "SYSTEM_USER",
    ]
)


class CallParser:
    """Reads calls of functions."""

    def __init__(
        self,
        tokens: TokenStream,
        types: TypeParser,
        expressions: ExpressionPart,
        queries: QueryPart,
        windows: WindowParser,
    ) -> None:
        self._tokens = tokens
        self._expressions = expressions
        self._queries = queries
        self._windows = windows
        self._special: dict[str, CallReader] = {
            "ARRAY": self._array_or_map,
            "MAP": self._array_or_map,
            **SpecialCallParser(tokens, types, expressions).readers(),
            **JsonCallParser(tokens, types, expressions).readers(),
        }

    def call(self, parts: list[Any], start: int) -> Any:
        """Take the operands of a function whose name was taken, and what may follow them."""
        self._tokens.expect("(")
        return self._suffixed(called(self._tokens, parts, self._operands(), start), start)

    def _operands(self) -> list[Any]:
        """Take operands up to the closing parenthesis."""
        if self._tokens.current.upper == "*" and self._tokens.ahead().upper == ")":
            star = self._tokens.placed(exp.Star(), self._tokens.index)
            self._tokens.skip(2)
            return [star]
        if self._tokens.accept(")"):
            return []
        start = self._tokens.index
        distinct = self._tokens.current.upper == "DISTINCT"
        if distinct or self._tokens.current.upper == "ALL":
            self._tokens.take()
        operands = self._tokens.separated(self._operand)
        if self._tokens.accept("ORDER", "BY"):  # ARRAY_AGG(x ORDER BY y)
            order = exp.Order(expressions=self._windows.order_items())
            operands[-1] = self._tokens.placed(exp.Order(this=operands[-1], **order.args), start)
        self._tokens.expect(")")
        if distinct:
            return [self._tokens.placed(exp.Distinct(expressions=operands), start)]
        return operands

    def _operand(self) -> object:
        start = self._tokens.index
        if (
            self._tokens.current.kind in (TokenKind.WORD, TokenKind.QUOTED)
            and self._tokens.ahead().upper == "=>"
        ):
            name = self._tokens.any_identifier()
            self._tokens.expect("=>")
            return self._tokens.placed(exp.Kwarg(this=name, expression=self._operand()), start)
        word = self._tokens.current.upper
        if word == "DEFAULT" and self._tokens.ahead().upper in (",", ")"):
            self._tokens.take()
            return self._tokens.placed(DefaultArgument(), start)
        if word == "DESCRIPTOR" and self._tokens.ahead().upper == "(":
            self._tokens.take()
            names = self._tokens.in_parentheses(
                lambda: self._tokens.separated(self._tokens.any_identifier)
            )
            return self._tokens.placed(Descriptor(expressions=names), start)
        if word == "TABLE":
            self._tokens.take()
            relation = (
                self._queries.subquery()
                if self._tokens.current.upper == "("
                else table_name(self._tokens)
            )
            return self._table_argument(relation, start)
        if word in ("SELECT", "WITH", "VALUES"):
            self._tokens.wanted("an expression")
            raise self._tokens.failure("put a query in parentheses")
        operand = self._expressions.expression()
        if isinstance(operand, exp.Subquery) and self._tokens.looking_at("PARTITION", "BY"):
            return self._table_argument(operand, start)
        return operand

    def _table_argument(self, relation: object, start: int) -> object:
        partition, order = None, None
        if self._tokens.accept("PARTITION", "BY"):
            if self._tokens.current.upper == "(":
                partition = self._tokens.in_parentheses(
                    lambda: self._tokens.separated(self._expressions.expression)
                )
            else:
                partition = [self._expressions.expression()]  # more than one are in parentheses
        if self._tokens.accept("ORDER", "BY"):
            if self._tokens.current.upper == "(":
                order = exp.Order(
                    expressions=self._tokens.in_parentheses(self._windows.order_items)
                )
            else:
                order = exp.Order(expressions=self._windows.order_items()[:1])
        node = TableArgument(this=relation, partition_by=partition, order=order)
        return self._tokens.placed(node, start)

    def _suffixed(self, node: object, start: int) -> object:
        """Parse the clauses after a call: IGNORE NULLS, WITHIN GROUP, FILTER, OVER."""
        if (
            self._tokens.current.upper in ("IGNORE", "RESPECT")
            and self._tokens.ahead().upper == "NULLS"
        ):
            kind = exp.IgnoreNulls if self._tokens.take().upper == "IGNORE" else exp.RespectNulls
            self._tokens.take()
            node = self._tokens.placed(kind(this=node), start)
        if self._tokens.looking_at("WITHIN", "GROUP"):
            self._tokens.skip(2)
            self._tokens.expect("(")
            self._tokens.expect("ORDER", "BY")
            order = exp.Order(expressions=self._windows.order_items())
            self._tokens.expect(")")
            node = self._tokens.placed(exp.WithinGroup(this=node, expression=order), start)
        if self._tokens.looking_at("FILTER", "("):
            self._tokens.skip(2)
            self._tokens.expect("WHERE")
            where = exp.Where(this=self._expressions.expression())
            self._tokens.expect(")")
            node = self._tokens.placed(exp.Filter(this=node, expression=where), start)
        if self._tokens.current.upper == "OVER":
            self._tokens.take()
            node = self._tokens.placed(self._window(node), start)
        return node

    def _window(self, node: object) -> exp.Window:
        if self._tokens.current.upper == "(":
            parts = self._tokens.in_parentheses(self._windows.window_specification)
            return exp.Window(this=node, over="OVER", **parts)
        return exp.Window(this=node, over="OVER", alias=self._tokens.identifier("a window"))

    # --- functions with a grammar of their own ------------------------------------------------

    def special_call(self) -> object:
        """Take a call of a function with a grammar of its own, if the current word is its name."""
        word = self._tokens.current.upper
        read = self._special.get(word)
        openings = ("(", "[") if word in ("ARRAY", "MAP") else ("(",)
        if read is None or self._tokens.ahead().upper not in openings:
            return None
        start = self._tokens.index
        name = self._tokens.any_identifier()
        node = read(name, start)
        return self._suffixed(node, start)

    def _array_or_map(self, name: Any, start: int) -> object:
        if self._tokens.current.upper == "(":
            if self._tokens.ahead().upper in ("SELECT", "WITH", "VALUES"):
                raise self._tokens.error_at(
                    self._tokens.at(start),
                    f"{name.this}(query) is not supported",
                    "use ARRAY_AGG or COLLECT in the query",
                )
            self._tokens.expect("(")
            return called(self._tokens, [name], self._operands(), start)
        self._tokens.expect("[")
        values: list[Any] = []
        if not self._tokens.accept("]"):
            values = self._tokens.separated(self._expressions.expression)
            self._tokens.expect("]")
        return called(self._tokens, [name], values, start)
