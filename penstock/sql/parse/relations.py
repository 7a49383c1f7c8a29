"""The grammar of FROM: tables, joins, functions, UNNEST."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.errors import SqlParseError
from penstock.sql.parse.calls import CallParser
from penstock.sql.parse.hints import parse_hints
from penstock.sql.parse.names import column_names, query_in_parentheses, table_name
from penstock.sql.parse.parts import ExpressionPart, QueryPart
from penstock.sql.parse.patterns import PatternParser
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import TokenKind
from penstock.sql.parse.trees import Hint, TableFunctionCall

_SIDES = ("LEFT", "RIGHT", "FULL")


class RelationParser:
    """Reads relations."""

    def __init__(
        self,
        tokens: TokenStream,
        expressions: ExpressionPart,
        queries: QueryPart,
        calls: CallParser,
        patterns: PatternParser,
    ) -> None:
        self._tokens = tokens
        self._expressions = expressions
        self._queries = queries
        self._calls = calls
        self._patterns = patterns

    # --- FROM and joins -----------------------------------------------------------------------

    def from_clause(self, node: Any) -> None:
        """Take the relations behind FROM, of which FROM is taken, and write them into a query."""
        start = self._tokens.index - 1
        node.set("from_", self._tokens.placed(exp.From(this=self.relation()), start))
        joins = self._joins()
        while self._tokens.accept(","):
            first = self._tokens.index - 1
            relation = self.relation()
            inner = self._joins()
            if any(join.args.get("side") in ("RIGHT", "FULL") for join in inner):
                # a comma binds less than JOIN, which is not all the same for these
                relation.set("joins", inner)
                relation = self._tokens.placed(exp.Subquery(this=relation), first + 1)
                inner = []
            joins.append(self._tokens.placed(exp.Join(this=relation), first))
            joins.extend(inner)
        if joins:
            node.set("joins", joins)

    def _joins(self) -> list[Any]:
        joins = []
        while (join := self._join()) is not None:
            joins.append(join)
        self._tokens.wanted(",")
        return joins

    def _join(self) -> object:
        start = self._tokens.index
        parts: dict[str, Any] = {}
        if self._tokens.current.upper == "NATURAL":
            self._tokens.take()
            parts["method"] = "NATURAL"
        word = self._tokens.current.upper
        if word in _SIDES:
            parts["side"] = self._tokens.take().upper
            if self._tokens.accept("OUTER"):
                parts["kind"] = "OUTER"
            if self._tokens.current.upper in ("SEMI", "ANTI"):
                raise self._tokens.error_at(
                    self._tokens.current,
                    f"{parts['side']} {self._tokens.current.upper} JOIN is not supported",
                    "write WHERE [NOT] EXISTS (SELECT ...) or [NOT] IN (SELECT ...)",
                )
        elif word in ("INNER", "CROSS"):
            parts["kind"] = self._tokens.take().upper
        elif word != "JOIN":
            if parts:
                self._tokens.wanted("JOIN")
                raise self._tokens.failure()
            for expected in ("JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS"):
                self._tokens.wanted(expected)
            return None
        self._tokens.expect("JOIN")
        relation = self.relation()
        parts.update(self._condition(parts, start))
        return self._tokens.placed(exp.Join(this=relation, **parts), start)

    def _condition(self, parts: dict[str, Any], start: int) -> dict[str, Any]:
        if parts.get("kind") == "CROSS" or parts.get("method") == "NATURAL":
            return {}
        if self._tokens.accept("ON"):
            return {"on": self._expressions.expression()}
        if self._tokens.accept("USING"):
            return {"using": column_names(self._tokens)}
        raise self._tokens.failure("use CROSS JOIN for a join without a condition")

    # --- one relation -------------------------------------------------------------------------

    def relation(self) -> Any:
        """Parse a relation with its clauses: FOR SYSTEM_TIME, MATCH_RECOGNIZE, hints, alias."""
        start = self._tokens.index
        node = self._plain_relation()
        hints: tuple[Hint, ...] = ()
        alias = None
        while True:  # hints and FOR SYSTEM_TIME may stand before and behind the alias
            if self._tokens.current.kind is TokenKind.HINT:
                hints += parse_hints(self._tokens.source, self._tokens.take())
            elif isinstance(node, exp.Table) and self._tokens.looking_at("FOR"):
                self._version(node)
            elif self._tokens.looking_at("TABLESAMPLE"):
                raise self._tokens.error_at(self._tokens.current, "TABLESAMPLE is not supported")
            elif alias is None and (alias := self._alias()) is not None:
                node.set("alias", alias)
            else:
                break
        node = self._tokens.placed(node, start)
        if hints:
            node.meta["hints"] = hints
        if self._tokens.looking_at("MATCH_RECOGNIZE"):
            node = self._matched(node, start)
        return node

    def _matched(self, node: object, start: int) -> Any:
        found = self._patterns.match_recognize(node)
        alias = self._alias()
        if alias is not None:
            found.set("alias", alias)
        return self._tokens.placed(found, start)

    def _plain_relation(self) -> Any:
        start, word = self._tokens.index, self._tokens.current.upper
        if word == "LATERAL":
            return self._lateral()
        if word == "UNNEST":
            return self._unnest()
        if word == "TABLE" and self._tokens.ahead().upper == "(":
            self._tokens.take()
            return self._tokens.placed(
                TableFunctionCall(this=self._tokens.in_parentheses(self._table_call)), start
            )
        if word == "(":
            return self._relation_in_parentheses()
        if (
            self._tokens.current.kind in (TokenKind.WORD, TokenKind.QUOTED)
            and self._tokens.at_name()
        ):
            if self._tokens.ahead().upper == "(":
                return self._tokens.placed(TableFunctionCall(this=self._table_call()), start)
            return table_name(self._tokens)
        for expected in ("a table", "LATERAL TABLE", "UNNEST", "TABLE", "("):
            self._tokens.wanted(expected)
        raise self._tokens.failure(
            f"quote it if it is a name: `{self._tokens.current.text}`"
            if self._tokens.current.kind is TokenKind.WORD
            else None
        )

    def _table_call(self) -> object:
        start = self._tokens.index
        parts = [self._tokens.any_identifier("a function")]
        while self._tokens.accept("."):
            parts.append(self._tokens.any_identifier())
        return self._calls.call(parts, start)

    def _lateral(self) -> object:
        start = self._tokens.index
        self._tokens.take()
        if self._tokens.accept("TABLE"):
            return self._tokens.placed(
                exp.Lateral(this=self._tokens.in_parentheses(self._table_call)), start
            )
        if self._tokens.current.upper == "(":
            return self._tokens.placed(exp.Lateral(this=self._queries.subquery()), start)
        if self._tokens.current.upper == "UNNEST":
            return self._unnest()
        if self._tokens.at_name() and self._tokens.ahead().upper == "(":
            return self._tokens.placed(exp.Lateral(this=self._table_call()), start)
        for expected in ("TABLE", "("):
            self._tokens.wanted(expected)
        raise self._tokens.failure()

    def _unnest(self) -> object:
        start = self._tokens.index
        self._tokens.take()
        values = self._tokens.in_parentheses(
            lambda: self._tokens.separated(self._expressions.expression)
        )
        ordinality = self._tokens.accept("WITH", "ORDINALITY")
        return self._tokens.placed(exp.Unnest(expressions=values, offset=ordinality), start)

    def _relation_in_parentheses(self) -> Any:
        start = self._tokens.index
        if query_in_parentheses(self._tokens):
            try:
                return self._queries.subquery()
            except SqlParseError:
                if self._tokens.at(start + 1).upper != "(":
                    raise
                self._tokens.go_back(
                    start
                )  # ((query) AS a JOIN b ...): a relation in the parentheses
        self._tokens.expect("(")
        inner = self.relation()
        joins = self._joins()
        self._tokens.expect(")")
        if joins:
            inner.set("joins", joins)
        elif not inner.args.get("alias"):
            return inner
        return self._tokens.placed(exp.Subquery(this=inner), start)

    def _version(self, node: exp.Table) -> None:
        start = self._tokens.index
        self._tokens.expect("FOR")
        if not self._tokens.accept_any("SYSTEM_TIME", "SYSTEM"):
            raise self._tokens.failure()
        if self._tokens.previous.upper == "SYSTEM":
            self._tokens.expect("TIME")
        self._tokens.expect("AS", "OF")
        version = exp.Version(this="TIMESTAMP", kind="AS OF", expression=self._expressions.sum())
        node.set("version", self._tokens.placed(version, start))

    def _alias(self) -> exp.TableAlias | None:
        start = self._tokens.index
        if self._tokens.accept("AS"):
            name = self._tokens.identifier("an alias")
        elif self._tokens.at_name():
            name = self._tokens.identifier()
        else:
            return None
        columns = column_names(self._tokens) if self._tokens.current.upper == "(" else None
        return self._tokens.placed(exp.TableAlias(this=name, columns=columns), start)
