"""The grammar of FROM: tables, joins, functions, UNNEST, and of ORDER BY and windows."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.errors import SqlParseError
from penstock.sql.parse.hints import parse_hints
from penstock.sql.parse.patterns import PatternParser
from penstock.sql.parse.tokens import TokenKind
from penstock.sql.parse.trees import Hint, TableFunctionCall

_SIDES = ("LEFT", "RIGHT", "FULL")


class RelationParser(PatternParser):
    """Reads relations."""

    def query(self) -> Any:
        """Take a query."""
        raise NotImplementedError

    def column_names(self) -> list[exp.Identifier]:
        """Take names in parentheses."""
        return self.in_parentheses(lambda: self.separated(self.any_identifier))

    # --- FROM and joins -----------------------------------------------------------------------

    def _from(self, node: Any) -> None:
        start = self.index - 1
        node.set("from_", self.placed(exp.From(this=self.relation()), start))
        joins = self._joins()
        while self.accept(","):
            first = self.index - 1
            relation = self.relation()
            inner = self._joins()
            if any(join.args.get("side") in ("RIGHT", "FULL") for join in inner):
                # a comma binds less than JOIN, which is not all the same for these
                relation.set("joins", inner)
                relation = self.placed(exp.Subquery(this=relation), first + 1)
                inner = []
            joins.append(self.placed(exp.Join(this=relation), first))
            joins.extend(inner)
        if joins:
            node.set("joins", joins)

    def _joins(self) -> list[Any]:
        joins = []
        while (join := self._join()) is not None:
            joins.append(join)
        self.wanted(",")
        return joins

    def _join(self) -> Any:
        start = self.index
        parts: dict[str, Any] = {}
        if self.current.upper == "NATURAL":
            self.take()
            parts["method"] = "NATURAL"
        word = self.current.upper
        if word in _SIDES:
            parts["side"] = self.take().upper
            if self.accept("OUTER"):
                parts["kind"] = "OUTER"
            if self.current.upper in ("SEMI", "ANTI"):
                raise self.error_at(
                    self.current,
                    f"{parts['side']} {self.current.upper} JOIN is not supported",
                    "write WHERE [NOT] EXISTS (SELECT ...) or [NOT] IN (SELECT ...)",
                )
        elif word in ("INNER", "CROSS"):
            parts["kind"] = self.take().upper
        elif word != "JOIN":
            if parts:
                self.wanted("JOIN")
                raise self.failure()
            for expected in ("JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS"):
                self.wanted(expected)
            return None
        self.expect("JOIN")
        relation = self.relation()
        parts.update(self._condition(parts, start))
        return self.placed(exp.Join(this=relation, **parts), start)

    def _condition(self, parts: dict[str, Any], start: int) -> dict[str, Any]:
        if parts.get("kind") == "CROSS" or parts.get("method") == "NATURAL":
            return {}
        if self.accept("ON"):
            return {"on": self.expression()}
        if self.accept("USING"):
            return {"using": self.column_names()}
        raise self.failure("use CROSS JOIN for a join without a condition")

    # --- one relation -------------------------------------------------------------------------

    def relation(self) -> Any:
        """Parse a relation with its clauses: FOR SYSTEM_TIME, MATCH_RECOGNIZE, hints, alias."""
        start = self.index
        node = self._plain_relation()
        hints: tuple[Hint, ...] = ()
        alias = None
        while True:  # hints and FOR SYSTEM_TIME may stand before and behind the alias
            if self.current.kind is TokenKind.HINT:
                hints += parse_hints(self.source, self.take())
            elif isinstance(node, exp.Table) and self.looking_at("FOR"):
                self._version(node)
            elif self.looking_at("TABLESAMPLE"):
                raise self.error_at(self.current, "TABLESAMPLE is not supported")
            elif alias is None and (alias := self._alias()) is not None:
                node.set("alias", alias)
            else:
                break
        node = self.placed(node, start)
        if hints:
            node.meta["hints"] = hints
        if self.looking_at("MATCH_RECOGNIZE"):
            node = self._matched(node, start)
        return node

    def _matched(self, node: Any, start: int) -> Any:
        found = self.match_recognize(node)
        alias = self._alias()
        if alias is not None:
            found.set("alias", alias)
        return self.placed(found, start)

    def _plain_relation(self) -> Any:
        start, word = self.index, self.current.upper
        if word == "LATERAL":
            return self._lateral()
        if word == "UNNEST":
            return self._unnest()
        if word == "TABLE" and self.ahead().upper == "(":
            self.take()
            return self.placed(TableFunctionCall(this=self.in_parentheses(self._table_call)), start)
        if word == "(":
            return self._relation_in_parentheses()
        if self.current.kind in (TokenKind.WORD, TokenKind.QUOTED) and self.at_name():
            if self.ahead().upper == "(":
                return self.placed(TableFunctionCall(this=self._table_call()), start)
            return self.table_name()
        for expected in ("a table", "LATERAL TABLE", "UNNEST", "TABLE", "("):
            self.wanted(expected)
        raise self.failure(
            f"quote it if it is a name: `{self.current.text}`"
            if self.current.kind is TokenKind.WORD
            else None
        )

    def table_name(self) -> exp.Table:
        """Take the name of a table as an exp.Table."""
        start = self.index
        parts = [self.identifier("the name of a table")]
        while self.accept("."):
            parts.append(self.any_identifier("the name of a table"))
        if len(parts) > 3:
            raise self.error_at(
                self.previous,
                "the name of a table has at most three parts",
                "write catalog.database.table; put parts that contain a dot in backquotes",
            )
        roles = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
        return self.placed(exp.Table(**roles), start)

    def _table_call(self) -> Any:
        start = self.index
        parts = [self.any_identifier("a function")]
        while self.accept("."):
            parts.append(self.any_identifier())
        return self.call(parts, start)

    def _lateral(self) -> Any:
        start = self.index
        self.take()
        if self.accept("TABLE"):
            return self.placed(exp.Lateral(this=self.in_parentheses(self._table_call)), start)
        if self.current.upper == "(":
            return self.placed(exp.Lateral(this=self.subquery()), start)
        if self.current.upper == "UNNEST":
            return self._unnest()
        if self.at_name() and self.ahead().upper == "(":
            return self.placed(exp.Lateral(this=self._table_call()), start)
        for expected in ("TABLE", "("):
            self.wanted(expected)
        raise self.failure()

    def _unnest(self) -> Any:
        start = self.index
        self.take()
        values = self.in_parentheses(lambda: self.separated(self.expression))
        ordinality = self.accept("WITH", "ORDINALITY")
        return self.placed(exp.Unnest(expressions=values, offset=ordinality), start)

    def _relation_in_parentheses(self) -> Any:
        start = self.index
        if self._query_in_parentheses():
            try:
                return self.subquery()
            except SqlParseError:
                if self.tokens[start + 1].upper != "(":
                    raise
                self.index = start  # ((query) AS a JOIN b ...): a relation in the parentheses
        self.expect("(")
        inner = self.relation()
        joins = self._joins()
        self.expect(")")
        if joins:
            inner.set("joins", joins)
        elif not inner.args.get("alias"):
            return inner
        return self.placed(exp.Subquery(this=inner), start)

    def _query_in_parentheses(self) -> bool:
        raise NotImplementedError

    def _version(self, node: exp.Table) -> None:
        start = self.index
        self.expect("FOR")
        if not self.accept_any("SYSTEM_TIME", "SYSTEM"):
            raise self.failure()
        if self.previous.upper == "SYSTEM":
            self.expect("TIME")
        self.expect("AS", "OF")
        version = exp.Version(this="TIMESTAMP", kind="AS OF", expression=self.sum())
        node.set("version", self.placed(version, start))

    def _alias(self) -> exp.TableAlias | None:
        start = self.index
        if self.accept("AS"):
            name = self.identifier("an alias")
        elif self.at_name():
            name = self.identifier()
        else:
            return None
        columns = self.column_names() if self.current.upper == "(" else None
        return self.placed(exp.TableAlias(this=name, columns=columns), start)

    # --- ORDER BY and windows -----------------------------------------------------------------

    def order_items(self) -> list[Any]:
        """Parse the items of ORDER BY."""
        return self.separated(self._order_item)

    def _order_item(self) -> exp.Ordered:
        start = self.index
        value = self.expression()
        descending = self.accept_any("ASC", "DESC") == "DESC"
        nulls_first = None
        if self.accept("NULLS"):
            nulls_first = self.expect_any("FIRST", "LAST") == "FIRST"
        node = exp.Ordered(this=value, desc=descending, nulls_first=nulls_first)
        return self.placed(node, start)

    def window_specification(self) -> dict[str, Any]:
        """Parse the window specification of OVER."""
        parts: dict[str, Any] = {}
        if self.at_name() and self.current.upper not in ("ROWS", "RANGE"):
            parts["alias"] = self.identifier()
        if self.accept("PARTITION", "BY"):
            parts["partition_by"] = self.separated(self.expression)
        if self.accept("ORDER", "BY"):
            parts["order"] = exp.Order(expressions=self.order_items())
        if (kind := self.accept_any("ROWS", "RANGE")) is not None:
            parts["spec"] = self._frame(kind)
        return parts

    def _frame(self, kind: str) -> exp.WindowSpec:
        start = self.index - 1
        if self.accept("BETWEEN"):
            first = self._bound()
            self.expect("AND")
            last = self._bound()
        else:
            first, last = self._bound(), ("CURRENT ROW", None)
        node = exp.WindowSpec(
            kind=kind, start=first[0], start_side=first[1], end=last[0], end_side=last[1]
        )
        return self.placed(node, start)

    def _bound(self) -> tuple[Any, str | None]:
        if self.accept("CURRENT", "ROW"):
            return "CURRENT ROW", None
        value = "UNBOUNDED" if self.accept("UNBOUNDED") else self.sum()
        return value, self.expect_any("PRECEDING", "FOLLOWING")
