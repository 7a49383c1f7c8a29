"""The grammar of queries: SELECT and its clauses, VALUES, WITH, set operations."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.errors import SqlParseError
from penstock.sql.parse.hints import parse_hints
from penstock.sql.parse.relations import RelationParser
from penstock.sql.parse.tokens import TokenKind

_SET_OPERATIONS: dict[str, type[exp.SetOperation]] = {
    "UNION": exp.Union,
    "INTERSECT": exp.Intersect,
    "EXCEPT": exp.Except,
    "MINUS": exp.Except,
}


class QueryParser(RelationParser):
    """Reads queries."""

    def query(self) -> Any:
        """Take a query: WITH, set operations, ORDER BY, LIMIT."""
        start = self.index
        with_ = self._with() if self.accept("WITH") else None
        node = self._set_operation()
        node = self._ordered_and_limited(node, start)
        if with_ is not None:
            node.set("with_", with_)
        return node

    def subquery(self) -> Any:
        """Take a query in parentheses as an exp.Subquery without alias."""
        start = self.index
        self.expect("(")
        inner = self.query()
        self.expect(")")
        return self.placed(exp.Subquery(this=inner), start)

    def _with(self) -> exp.With:
        recursive = self.accept("RECURSIVE")
        tables = self.separated(self._common_table)
        return exp.With(expressions=tables, recursive=recursive or None)

    def _common_table(self) -> exp.CTE:
        start = self.index
        name = self.identifier("the name of a table")
        columns = self.column_names() if self.current.upper == "(" else None
        self.expect("AS")
        self.expect("(")
        query = self.query()
        self.expect(")")
        alias = exp.TableAlias(this=name, columns=columns)
        return self.placed(exp.CTE(this=query, alias=alias), start)

    def _set_operation(self) -> Any:
        """Take queries with UNION and EXCEPT between; INTERSECT binds them more tightly."""
        start = self.index
        left = self._intersection()
        while (word := self.accept_any("UNION", "EXCEPT", "MINUS")) is not None:
            left = self._combined(left, word, self._duplicates(), self._intersection(), start)
        return left

    def _intersection(self) -> Any:
        start = self.index
        left = self._query_term()
        while self.accept("INTERSECT"):
            left = self._combined(left, "INTERSECT", self._duplicates(), self._query_term(), start)
        return left

    def _duplicates(self) -> bool:
        """Take ALL or DISTINCT; return whether duplicates go."""
        return self.accept_any("ALL", "DISTINCT") != "ALL"

    def _combined(self, left: Any, word: str, distinct: bool, right: Any, start: int) -> Any:
        kind = _SET_OPERATIONS[word]
        return self.placed(kind(this=left, expression=right, distinct=distinct), start)

    def _query_term(self) -> Any:
        word = self.current.upper
        if word == "SELECT":
            return self._select()
        if word == "VALUES":
            return self._values()
        if word == "TABLE" and self.ahead().kind in (TokenKind.WORD, TokenKind.QUOTED):
            start = self.index
            self.take()
            source = exp.From(this=self.table_name())
            return self.placed(exp.Select(expressions=[exp.Star()], from_=source), start)
        if word == "(":
            return self.subquery()
        for expected in ("SELECT", "VALUES", "WITH", "("):
            self.wanted(expected)
        raise self.failure()

    def _ordered_and_limited(self, node: Any, start: int) -> Any:
        if self.current.upper not in ("ORDER", "LIMIT", "OFFSET", "FETCH"):
            for word in ("ORDER BY", "LIMIT", "OFFSET", "FETCH"):
                self.wanted(word)
            return node
        if isinstance(node, exp.Subquery):  # (query) ORDER BY ...: the order is of the whole
            source = exp.From(this=node)
            node = self.placed(exp.Select(expressions=[exp.Star()], from_=source), start)
        if self.accept("ORDER", "BY"):
            first = self.index - 2
            node.set("order", self.placed(exp.Order(expressions=self.order_items()), first))
        while (clause := self.accept_any("LIMIT", "OFFSET", "FETCH")) is not None:
            self._limited(node, clause)
        return node

    def _limited(self, node: Any, word: str) -> None:
        start = self.index - 1
        if word == "OFFSET":
            if node.args.get("offset"):
                raise self.error_at(self.previous, "duplicate OFFSET")
            offset = exp.Offset(expression=self._row_count())
            self.accept_any("ROW", "ROWS")
            node.set("offset", self.placed(offset, start))
            return
        if node.args.get("limit"):
            raise self.error_at(self.previous, f"{word} after another limit")
        if word == "LIMIT" and self.accept("ALL"):
            return
        if word == "FETCH":
            self.expect_any("FIRST", "NEXT")
        count = self._row_count()
        if word == "FETCH":
            self.expect_any("ROW", "ROWS")
            self.expect("ONLY")
        elif self.accept(","):  # LIMIT offset, count
            node.set("offset", self.placed(exp.Offset(expression=count), start))
            count = self._row_count()
        node.set("limit", self.placed(exp.Limit(expression=count), start))

    def _row_count(self) -> Any:
        start = self.index
        return self.placed(exp.Literal.number(str(self.number())), start)

    # --- SELECT -------------------------------------------------------------------------------

    def _select(self) -> Any:
        start = self.index
        self.expect("SELECT")
        hints = self._hints()
        distinct = self.accept_any("DISTINCT", "ALL") == "DISTINCT"
        if self.current.upper in ("FROM", "WHERE") or self.at_end:
            raise self.no_expression()
        node = exp.Select(
            expressions=self.separated(self._projection),
            distinct=exp.Distinct() if distinct else None,
        )
        if self.accept("FROM"):
            self._from(node)
            self._clauses(node)
        node = self.placed(node, start)
        if hints:
            node.meta["hints"] = hints
        return node

    def no_expression(self) -> SqlParseError:
        """Return the error that an expression was expected."""
        raise NotImplementedError

    def _hints(self) -> Any:
        if self.current.kind is TokenKind.HINT:
            return parse_hints(self.source, self.take())
        return ()

    def _projection(self) -> Any:
        start = self.index
        if self.current.upper == "*":
            self.take()
            return self.placed(exp.Star(), start)
        value = self.expression()
        if self.accept("AS"):
            alias = self.identifier("a name for the column")
            return self.placed(exp.Alias(this=value, alias=alias), start)
        if self.at_name():
            return self.placed(exp.Alias(this=value, alias=self.identifier()), start)
        return value

    def _clauses(self, node: Any) -> None:
        """Take the clauses behind FROM, in their order."""
        if self.accept("WHERE"):
            start = self.index - 1
            node.set("where", self.placed(exp.Where(this=self.expression()), start))
        if self.accept("GROUP", "BY"):
            node.set("group", self._group())
        if self.accept("HAVING"):
            start = self.index - 1
            node.set("having", self.placed(exp.Having(this=self.expression()), start))
        if self.accept("WINDOW"):
            node.set("windows", self.separated(self._named_window))
        if self.accept("QUALIFY"):
            start = self.index - 1
            node.set("qualify", self.placed(exp.Qualify(this=self.expression()), start))

    def _group(self) -> exp.Group:
        start = self.index - 2
        self.accept_any("ALL", "DISTINCT")
        return self.placed(exp.Group(expressions=self.separated(self._grouping)), start)

    def _grouping(self) -> Any:
        start = self.index
        if self.looking_at("GROUPING", "SETS"):
            self.index += 2
            sets = self.in_parentheses(lambda: self.separated(self._grouping))
            return self.placed(exp.GroupingSets(expressions=sets), start)
        for word, kind in (("ROLLUP", exp.Rollup), ("CUBE", exp.Cube)):
            if self.looking_at(word, "("):
                self.take()
                keys = self.in_parentheses(lambda: self.separated(self._grouping))
                return self.placed(kind(expressions=keys), start)
        if self.looking_at("(", ")"):
            self.index += 2
            return self.placed(exp.Tuple(expressions=[]), start)
        value = self.expression()
        if isinstance(value, exp.Paren):
            return self.placed(exp.Tuple(expressions=[value.this]), start)
        return value

    def _named_window(self) -> exp.Window:
        start = self.index
        name = self.identifier("the name of a window")
        self.expect("AS")
        parts = self.in_parentheses(self.window_specification)
        return self.placed(exp.Window(this=name, **parts), start)

    def _values(self) -> exp.Values:
        start = self.index
        self.expect("VALUES")
        return self.placed(exp.Values(expressions=self.separated(self._row_of_values)), start)

    def _row_of_values(self) -> exp.Tuple:
        start = self.index
        value = self.expression()
        if isinstance(value, exp.Tuple):
            return value
        if isinstance(value, exp.Paren):
            value = value.this
        elif isinstance(value, exp.Anonymous) and value.name.upper() == "ROW":
            return self.placed(exp.Tuple(expressions=value.expressions), start)
        return self.placed(exp.Tuple(expressions=[value]), start)
