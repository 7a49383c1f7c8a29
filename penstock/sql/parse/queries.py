"""The grammar of queries: SELECT and its clauses, VALUES, WITH, set operations."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.parse.hints import parse_hints
from penstock.sql.parse.names import column_names, table_name
from penstock.sql.parse.parts import ExpressionPart
from penstock.sql.parse.relations import RelationParser
from penstock.sql.parse.statements import QueryStatement
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import TokenKind
from penstock.sql.parse.windows import WindowParser

_SET_OPERATIONS: dict[str, type[exp.SetOperation]] = {
    "UNION": exp.Union,
    "INTERSECT": exp.Intersect,
    "EXCEPT": exp.Except,
    "MINUS": exp.Except,
}


class QueryParser:
    """Reads queries. `connect` gives it the parts that hold queries themselves."""

    _relations: RelationParser

    def __init__(
        self, tokens: TokenStream, expressions: ExpressionPart, windows: WindowParser
    ) -> None:
        self._tokens = tokens
        self._expressions = expressions
        self._windows = windows

    def connect(self, relations: RelationParser) -> None:
        """Take the part that reads relations, which needs this one."""
        self._relations = relations

    def query(self) -> Any:
        """Take a query: WITH, set operations, ORDER BY, LIMIT."""
        start = self._tokens.index
        with_ = self._with() if self._tokens.accept("WITH") else None
        node = self._set_operation()
        node = self._ordered_and_limited(node, start)
        if with_ is not None:
            node.set("with_", with_)
        return node

    def statement(self) -> QueryStatement:
        """Take a query as a statement."""
        start = self._tokens.index
        tree = self.query()
        text = self._tokens.text_between(start, self._tokens.index)
        return QueryStatement(tree=tree, text=text, source=self._tokens.source.text)

    def subquery(self) -> Any:
        """Take a query in parentheses as an exp.Subquery without alias."""
        start = self._tokens.index
        self._tokens.expect("(")
        inner = self.query()
        self._tokens.expect(")")
        return self._tokens.placed(exp.Subquery(this=inner), start)

    def _with(self) -> exp.With:
        recursive = self._tokens.accept("RECURSIVE")
        tables = self._tokens.separated(self._common_table)
        return exp.With(expressions=tables, recursive=recursive or None)

    def _common_table(self) -> exp.CTE:
        start = self._tokens.index
        name = self._tokens.identifier("the name of a table")
        columns = column_names(self._tokens) if self._tokens.current.upper == "(" else None
        self._tokens.expect("AS")
        self._tokens.expect("(")
        query = self.query()
        self._tokens.expect(")")
        alias = exp.TableAlias(this=name, columns=columns)
        return self._tokens.placed(exp.CTE(this=query, alias=alias), start)

    def _set_operation(self) -> Any:
        """Take queries with UNION and EXCEPT between; INTERSECT binds them more tightly."""
        start = self._tokens.index
        left = self._intersection()
        while (word := self._tokens.accept_any("UNION", "EXCEPT", "MINUS")) is not None:
            left = self._combined(left, word, self._duplicates(), self._intersection(), start)
        return left

    def _intersection(self) -> object:
        start = self._tokens.index
        left = self._query_term()
        while self._tokens.accept("INTERSECT"):
            left = self._combined(left, "INTERSECT", self._duplicates(), self._query_term(), start)
        return left

    def _duplicates(self) -> bool:
        """Take ALL or DISTINCT; return whether duplicates go."""
        return self._tokens.accept_any("ALL", "DISTINCT") != "ALL"

    def _combined(
        self, left: object, word: str, distinct: bool, right: object, start: int
    ) -> object:
        kind = _SET_OPERATIONS[word]
        return self._tokens.placed(kind(this=left, expression=right, distinct=distinct), start)

    def _query_term(self) -> object:
        word = self._tokens.current.upper
        if word == "SELECT":
            return self._select()
        if word == "VALUES":
            return self._values()
        if word == "TABLE" and self._tokens.ahead().kind in (TokenKind.WORD, TokenKind.QUOTED):
            start = self._tokens.index
            self._tokens.take()
            source = exp.From(this=table_name(self._tokens))
            return self._tokens.placed(exp.Select(expressions=[exp.Star()], from_=source), start)
        if word == "(":
            return self.subquery()
        for expected in ("SELECT", "VALUES", "WITH", "("):
            self._tokens.wanted(expected)
        raise self._tokens.failure()

    def _ordered_and_limited(self, node: Any, start: int) -> Any:
        if self._tokens.current.upper not in ("ORDER", "LIMIT", "OFFSET", "FETCH"):
            for word in ("ORDER BY", "LIMIT", "OFFSET", "FETCH"):
                self._tokens.wanted(word)
            return node
        if isinstance(node, exp.Subquery):  # (query) ORDER BY ...: the order is of the whole
            source = exp.From(this=node)
            node = self._tokens.placed(exp.Select(expressions=[exp.Star()], from_=source), start)
        if self._tokens.accept("ORDER", "BY"):
            first = self._tokens.index - 2
            node.set(
                "order",
                self._tokens.placed(exp.Order(expressions=self._windows.order_items()), first),
            )
        while (clause := self._tokens.accept_any("LIMIT", "OFFSET", "FETCH")) is not None:
            self._limited(node, clause)
        return node

    def _limited(self, node: Any, word: str) -> None:
        start = self._tokens.index - 1
        if word == "OFFSET":
            if node.args.get("offset"):
                raise self._tokens.error_at(self._tokens.previous, "duplicate OFFSET")
            offset = exp.Offset(expression=self._row_count())
            self._tokens.accept_any("ROW", "ROWS")
            node.set("offset", self._tokens.placed(offset, start))
            return
        if node.args.get("limit"):
            raise self._tokens.error_at(self._tokens.previous, f"{word} after another limit")
        if word == "LIMIT" and self._tokens.accept("ALL"):
            return
        if word == "FETCH":
            self._tokens.expect_any("FIRST", "NEXT")
        count = self._row_count()
        if word == "FETCH":
            self._tokens.expect_any("ROW", "ROWS")
            self._tokens.expect("ONLY")
        elif self._tokens.accept(","):  # LIMIT offset, count
            node.set("offset", self._tokens.placed(exp.Offset(expression=count), start))
            count = self._row_count()
        node.set("limit", self._tokens.placed(exp.Limit(expression=count), start))

    def _row_count(self) -> object:
        start = self._tokens.index
        return self._tokens.placed(exp.Literal.number(str(self._tokens.number())), start)

    # --- SELECT -------------------------------------------------------------------------------

    def _select(self) -> object:
        start = self._tokens.index
        self._tokens.expect("SELECT")
        hints = self._hints()
        distinct = self._tokens.accept_any("DISTINCT", "ALL") == "DISTINCT"
        if self._tokens.current.upper in ("FROM", "WHERE") or self._tokens.at_end:
            raise self._expressions.no_expression()
        node = exp.Select(
            expressions=self._tokens.separated(self._projection),
            distinct=exp.Distinct() if distinct else None,
        )
        if self._tokens.accept("FROM"):
            self._relations.from_clause(node)
            self._clauses(node)
        node = self._tokens.placed(node, start)
        if hints:
            node.meta["hints"] = hints
        return node

    def _hints(self) -> object:
        if self._tokens.current.kind is TokenKind.HINT:
            return parse_hints(self._tokens.source, self._tokens.take())
        return ()

    def _projection(self) -> object:
        start = self._tokens.index
        if self._tokens.current.upper == "*":
            self._tokens.take()
            return self._tokens.placed(exp.Star(), start)
        value = self._expressions.expression()
        if self._tokens.accept("AS"):
            alias = self._tokens.identifier("a name for the column")
            return self._tokens.placed(exp.Alias(this=value, alias=alias), start)
        if self._tokens.at_name():
            return self._tokens.placed(
                exp.Alias(this=value, alias=self._tokens.identifier()), start
            )
        return value

    def _clauses(self, node: Any) -> None:
        """Take the clauses behind FROM, in their order."""
        if self._tokens.accept("WHERE"):
            start = self._tokens.index - 1
            node.set(
                "where", self._tokens.placed(exp.Where(this=self._expressions.expression()), start)
            )
        if self._tokens.accept("GROUP", "BY"):
            node.set("group", self._group())
        if self._tokens.accept("HAVING"):
            start = self._tokens.index - 1
            node.set(
                "having",
                self._tokens.placed(exp.Having(this=self._expressions.expression()), start),
            )
        if self._tokens.accept("WINDOW"):
            node.set("windows", self._tokens.separated(self._named_window))
        if self._tokens.accept("QUALIFY"):
            start = self._tokens.index - 1
            node.set(
                "qualify",
                self._tokens.placed(exp.Qualify(this=self._expressions.expression()), start),
            )

    def _group(self) -> exp.Group:
        start = self._tokens.index - 2
        self._tokens.accept_any("ALL", "DISTINCT")
        return self._tokens.placed(
            exp.Group(expressions=self._tokens.separated(self._grouping)), start
        )

    def _grouping(self) -> object:
        start = self._tokens.index
        if self._tokens.looking_at("GROUPING", "SETS"):
            self._tokens.skip(2)
            sets = self._tokens.in_parentheses(lambda: self._tokens.separated(self._grouping))
            return self._tokens.placed(exp.GroupingSets(expressions=sets), start)
        for word, kind in (("ROLLUP", exp.Rollup), ("CUBE", exp.Cube)):
            if self._tokens.looking_at(word, "("):
                self._tokens.take()
                keys = self._tokens.in_parentheses(lambda: self._tokens.separated(self._grouping))
                return self._tokens.placed(kind(expressions=keys), start)
        if self._tokens.looking_at("(", ")"):
            self._tokens.skip(2)
            return self._tokens.placed(exp.Tuple(expressions=[]), start)
        value = self._expressions.expression()
        if isinstance(value, exp.Paren):
            return self._tokens.placed(exp.Tuple(expressions=[value.this]), start)
        return value

    def _named_window(self) -> exp.Window:
        start = self._tokens.index
        name = self._tokens.identifier("the name of a window")
        self._tokens.expect("AS")
        parts = self._tokens.in_parentheses(self._windows.window_specification)
        return self._tokens.placed(exp.Window(this=name, **parts), start)

    def _values(self) -> exp.Values:
        start = self._tokens.index
        self._tokens.expect("VALUES")
        return self._tokens.placed(
            exp.Values(expressions=self._tokens.separated(self._row_of_values)), start
        )

    def _row_of_values(self) -> exp.Tuple:
        start = self._tokens.index
        value = self._expressions.expression()
        if isinstance(value, exp.Tuple):
            return value
        if isinstance(value, exp.Paren):
            value = value.this
        elif isinstance(value, exp.Anonymous) and value.name.upper() == "ROW":
            return self._tokens.placed(exp.Tuple(expressions=value.expressions), start)
        return self._tokens.placed(exp.Tuple(expressions=[value]), start)
