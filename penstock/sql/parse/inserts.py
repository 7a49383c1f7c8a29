"""The grammar of INSERT and of statement sets."""

from __future__ import annotations

from typing import Any

from penstock.sql.parse.expressions import ExpressionParser
from penstock.sql.parse.hints import parse_hints
from penstock.sql.parse.names import column_names, query_in_parentheses, table_name
from penstock.sql.parse.queries import QueryParser
from penstock.sql.parse.statements import InsertStatement
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import TokenKind
from penstock.sql.parse.trees import name_parts


class InsertParser:
    """Reads INSERT, alone or several in a statement set."""

    def __init__(
        self, tokens: TokenStream, expressions: ExpressionParser, queries: QueryParser
    ) -> None:
        self._tokens = tokens
        self._expressions = expressions
        self._queries = queries

    def insert(self) -> InsertStatement:
        """Take INSERT ..., of which INSERT is taken."""
        start = self._tokens.index - 1
        overwrite = self._tokens.expect_any("INTO", "OVERWRITE") == "OVERWRITE"
        self._tokens.accept("TABLE")
        target = table_name(self._tokens)
        options: dict[str, str] = {}
        options.update(self._table_options())
        partition = self._partition() if self._tokens.accept("PARTITION") else {}
        columns = None
        if self._tokens.current.upper == "(" and not query_in_parentheses(self._tokens):
            columns = tuple(str(column.this) for column in column_names(self._tokens))
        options.update(self._table_options())
        query = self._queries.statement()
        return InsertStatement(
            table=name_parts(target),
            target=target,
            query=query,
            columns=columns,
            overwrite=overwrite,
            partition=partition,
            options=options,
            text=self._tokens.text_between(start, self._tokens.index),
            source=self._tokens.source.text,
        )

    def inserts(self) -> tuple[InsertStatement, ...]:
        """Take the INSERTs of a statement set, up to its END."""
        inserts: list[InsertStatement] = []
        while not self._tokens.accept("END"):
            self._tokens.expect("INSERT")
            inserts.append(self.insert())
            if not self._tokens.accept(";"):
                self._tokens.expect("END")
                break
        if not inserts:
            raise self._tokens.error_at(
                self._tokens.previous, "a statement set needs at least one INSERT"
            )
        return tuple(inserts)

    def _table_options(self) -> dict[str, str]:
        options: dict[str, str] = {}
        if self._tokens.current.kind is TokenKind.HINT:
            token = self._tokens.take()
            for hint in parse_hints(self._tokens.source, token):
                if hint.name != "OPTIONS":
                    raise self._tokens.error_at(
                        token, f"hint {hint.name} is not supported on a sink"
                    )
                options.update(hint.options)
        return options

    def _partition(self) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        self._tokens.expect("(")
        while True:
            column = str(self._tokens.any_identifier("a column").this)
            parts[column] = self._expressions.expression() if self._tokens.accept("=") else None
            if not self._tokens.accept(","):
                break
        self._tokens.expect(")")
        return parts
