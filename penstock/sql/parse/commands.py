"""The grammar of the other statements: INSERT, statement sets, EXPLAIN, SHOW, DESCRIBE, USE, SET, RESET, jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from penstock.sql.errors import SqlParseError
from penstock.sql.parse.definitions import DefinitionParser
from penstock.sql.parse.expressions import ExpressionParser
from penstock.sql.parse.hints import parse_hints
from penstock.sql.parse.statements import (
    DeleteStatement,
    DescribeStatement,
    ExplainStatement,
    InsertStatement,
    JobControlStatement,
    QueryStatement,
    ResetStatement,
    SetStatement,
    ShowStatement,
    Statement,
    StatementSetBlock,
    TruncateStatement,
    UseStatement,
)
from penstock.sql.parse.tokens import TokenKind
from penstock.sql.parse.trees import name_parts

_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
_SHOWN = {
    ("CATALOGS",): "CATALOGS",
    ("DATABASES",): "DATABASES",
    ("TABLES",): "TABLES",
    ("VIEWS",): "VIEWS",
    ("FUNCTIONS",): "FUNCTIONS",
    ("USER", "FUNCTIONS"): "USER FUNCTIONS",
    ("COLUMNS",): "COLUMNS",
    ("PARTITIONS",): "PARTITIONS",
    ("MODULES",): "MODULES",
    ("FULL", "MODULES"): "FULL MODULES",
    ("JOBS",): "JOBS",
    ("CURRENT", "CATALOG"): "CURRENT CATALOG",
    ("CURRENT", "DATABASE"): "CURRENT DATABASE",
    ("CREATE", "TABLE"): "CREATE TABLE",
    ("CREATE", "VIEW"): "CREATE VIEW",
    ("CREATE", "CATALOG"): "CREATE CATALOG",
}


# Statements of Flink that are not supported, with an alternative.
_REFUSED = {
    "CALL": "procedures are not supported",
    "LOAD": "only the built-in core module is supported",
    "UNLOAD": "only the built-in core module is supported",
    "ADD": "jars are not supported: install connectors with pip",
    "REMOVE": "jars are not supported: install connectors with pip",
    "COMPILE": "take a savepoint to resume with a changed query",
    "ANALYZE": "the planner does not use statistics",
    "MERGE": "use INSERT INTO a table with a primary key",
}


class StatementParser(ExpressionParser, DefinitionParser):
    """Reads whole statements."""

    def statement(self) -> Statement:
        """Take one statement, without the semicolon behind it."""
        start = self.index
        parsed = self._statement()
        text = self.text_between(start, self.index)
        return dataclasses.replace(parsed, text=text, source=self.source.text)

    def _statement(self) -> Statement:
        word = self.current.upper
        if word in ("SELECT", "WITH", "VALUES", "("):
            return self.query_statement()
        parse = self._STATEMENTS.get(word)
        if parse is None:
            for known in ("SELECT", "WITH", "VALUES", *self._STATEMENTS):
                self.wanted(known)
            raise self._no_statement()
        self.take()
        return parse(self)

    def _no_statement(self) -> SqlParseError:
        token = self.current
        hint = self._meant(self.index, self.expected_words())
        if token.kind is TokenKind.END:
            return self.error_at(token, "empty statement")
        if token.upper in _REFUSED:
            return self.error_at(token, f"{token.upper} is not supported", _REFUSED[token.upper])
        return self.error_at(token, f"unknown statement '{token.text}'", hint)

    def query_statement(self) -> QueryStatement:
        """Take a query as a statement."""
        start = self.index
        tree = self.query()
        text = self.text_between(start, self.index)
        return QueryStatement(tree=tree, text=text, source=self.source.text)

    # --- INSERT -------------------------------------------------------------------------------

    def _insert(self) -> InsertStatement:
        start = self.index - 1
        overwrite = self.expect_any("INTO", "OVERWRITE") == "OVERWRITE"
        self.accept("TABLE")
        target = self.table_name()
        options: dict[str, str] = {}
        options.update(self._table_options())
        partition = self._partition() if self.accept("PARTITION") else {}
        columns = None
        if self.current.upper == "(" and not self._query_in_parentheses():
            columns = tuple(str(column.this) for column in self.column_names())
        options.update(self._table_options())
        query = self.query_statement()
        return InsertStatement(
            table=name_parts(target),
            target=target,
            query=query,
            columns=columns,
            overwrite=overwrite,
            partition=partition,
            options=options,
            text=self.text_between(start, self.index),
            source=self.source.text,
        )

    def _table_options(self) -> dict[str, str]:
        options: dict[str, str] = {}
        if self.current.kind is TokenKind.HINT:
            token = self.take()
            for hint in parse_hints(self.source, token):
                if hint.name != "OPTIONS":
                    raise self.error_at(token, f"hint {hint.name} is not supported on a sink")
                options.update(hint.options)
        return options

    def _partition(self) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        self.expect("(")
        while True:
            column = str(self.any_identifier("a column").this)
            parts[column] = self.expression() if self.accept("=") else None
            if not self.accept(","):
                break
        self.expect(")")
        return parts

    # --- statement sets -----------------------------------------------------------------------

    def _execute(self) -> Statement:
        if self.accept("STATEMENT", "SET"):
            self.expect("BEGIN")
            return StatementSetBlock(inserts=self._inserts())
        if self.accept("PLAN"):
            raise self.error_at(self.previous, "compiled plans are not supported")
        word = self.current.upper
        if word not in ("SELECT", "WITH", "VALUES", "INSERT", "("):
            for expected in ("STATEMENT SET", "INSERT", "SELECT"):
                self.wanted(expected)
            raise self.failure()
        return self._statement()

    def _begin(self) -> Statement:
        self.expect("STATEMENT", "SET")
        self.accept(";")
        return StatementSetBlock(inserts=self._inserts())

    def _inserts(self) -> tuple[InsertStatement, ...]:
        inserts: list[InsertStatement] = []
        while not self.accept("END"):
            self.expect("INSERT")
            inserts.append(self._insert())
            if not self.accept(";"):
                self.expect("END")
                break
        if not inserts:
            raise self.error_at(self.previous, "a statement set needs at least one INSERT")
        return tuple(inserts)

    # --- EXPLAIN ------------------------------------------------------------------------------

    def _explain(self) -> ExplainStatement:
        details: list[str] = []
        if self.accept("PLAN"):
            self.expect("FOR")
        elif self.current.upper in _DETAILS:
            details = self.separated(lambda: self.expect_any(*_DETAILS))
        if self.accept("STATEMENT", "SET"):
            self.expect("BEGIN")
            return ExplainStatement(
                statement=StatementSetBlock(inserts=self._inserts()), details=tuple(details)
            )
        if self.current.upper not in ("SELECT", "WITH", "VALUES", "INSERT", "EXECUTE", "("):
            for word in ("PLAN FOR", *_DETAILS, "SELECT", "WITH", "VALUES", "INSERT", "EXECUTE"):
                self.wanted(word)
            raise self.failure()
        return ExplainStatement(statement=self.statement(), details=tuple(details))

    # --- SHOW, DESCRIBE, USE ------------------------------------------------------------------

    def _show(self) -> ShowStatement:
        for words, what in _SHOWN.items():
            if self.looking_at(*words):
                self.index += len(words)
                return self._shown(what)
        for words in _SHOWN:
            self.wanted(" ".join(words))
        raise self.failure()

    def _shown(self, what: str) -> ShowStatement:
        target, like, not_like = None, None, False
        if what.startswith("CREATE"):
            return ShowStatement(what=what, target=self.path(f"the name of a {what[7:].lower()}"))
        if what == "PARTITIONS":
            return ShowStatement(what=what, target=self.path("the name of a table"))
        if what in ("DATABASES", "TABLES", "VIEWS", "FUNCTIONS", "COLUMNS"):
            if what == "COLUMNS":
                self.expect_any("FROM", "IN")
                target = self.path("the name of a table")
            elif self.accept_any("FROM", "IN"):
                target = self.path("the name of a catalog or database")
        if not what.startswith(("CURRENT", "FULL", "MODULES", "JOBS")):
            not_like = self.accept("NOT", "LIKE")
            if not_like or self.accept_any("LIKE", "ILIKE"):
                like = self.string("a pattern in quotes")
        return ShowStatement(what=what, target=target, like=like, not_like=not_like)

    def _describe(self) -> DescribeStatement:
        kind = "TABLE"
        if self.current.upper in ("CATALOG", "DATABASE", "FUNCTION", "JOB") and (
            self.ahead().kind in (TokenKind.WORD, TokenKind.QUOTED, TokenKind.STRING)
        ):
            kind = self.take().upper
        elif self.current.upper == "TABLE":
            self.take()
        extended = self.current.upper == "EXTENDED" and self.ahead().kind is not TokenKind.END
        if extended:
            self.take()
        if kind == "JOB":
            return DescribeStatement(name=(self.string("a job id in quotes"),), kind=kind)
        return DescribeStatement(
            name=self.path(f"the name of a {kind.lower()}"), kind=kind, extended=extended
        )

    def _use(self) -> UseStatement:
        if self.current.upper == "CATALOG" and self.ahead().kind in (
            TokenKind.WORD,
            TokenKind.QUOTED,
        ):
            self.take()
            return UseStatement(kind="CATALOG", name=(self.name("the name of a catalog"),))
        if self.current.upper == "MODULES" and self.ahead().kind in (
            TokenKind.WORD,
            TokenKind.QUOTED,
        ):
            self.take()
            return UseStatement(kind="MODULES", name=tuple(self.separated(self.name)))
        return UseStatement(kind="DATABASE", name=self.path("the name of a database"))

    # --- options, jobs, data ------------------------------------------------------------------

    def _set(self) -> SetStatement:
        if self.at_end or self.looking_at(";"):
            return SetStatement()
        key = self._option_name()
        self.expect("=")
        if self.current.kind is TokenKind.STRING:
            return SetStatement(key=key, value=self.take().text)
        return SetStatement(key=key, value=self._bare_value())

    def _option_name(self) -> str:
        """Take a key, in quotes or without."""
        if self.current.kind is TokenKind.STRING:
            return self.take().text
        if self.current.kind is not TokenKind.WORD:
            self.wanted("a key in quotes")
            raise self.failure()
        start = self.index
        self.take()
        while not self.at_end and self.current.upper not in ("=", ";"):
            if self.current.start != self.previous.end:
                self.wanted("=")
                raise self.failure()
            self.take()
        return self.text_between(start, self.index)

    def _bare_value(self) -> str:
        """Parse a value without quotes: the rest of the statement."""
        start = self.index
        while not self.at_end and not self.looking_at(";"):
            self.take()
        if start == self.index:
            self.wanted("a value in quotes")
            raise self.failure()
        return self.text_between(start, self.index)

    def _reset(self) -> ResetStatement:
        if self.at_end or self.looking_at(";"):
            return ResetStatement()
        return ResetStatement(key=self._option_name())

    def _stop(self) -> JobControlStatement:
        self.expect("JOB")
        job_id = self.string("a job id in quotes")
        savepoint = self.accept("WITH", "SAVEPOINT")
        drain = self.accept("WITH", "DRAIN")
        return JobControlStatement(job_id=job_id, savepoint=savepoint, drain=drain)

    def _truncate(self) -> TruncateStatement:
        self.expect("TABLE")
        return TruncateStatement(table=self.path("the name of a table"))

    def _delete(self) -> DeleteStatement:
        self.expect("FROM")
        table = self.path("the name of a table")
        if self.accept("WHERE"):
            self.expression()
        return DeleteStatement(table=table)

    def _update(self) -> DeleteStatement:
        table = self.path("the name of a table")
        self.expect("SET")
        self.separated(self.expression)
        if self.accept("WHERE"):
            self.expression()
        return DeleteStatement(table=table, kind="UPDATE")

    _STATEMENTS: ClassVar[dict[str, Callable[..., Statement]]] = {
        "INSERT": _insert,
        "CREATE": DefinitionParser.create,
        "DROP": DefinitionParser.drop,
        "ALTER": DefinitionParser.alter,
        "EXPLAIN": _explain,
        "SHOW": _show,
        "DESCRIBE": _describe,
        "DESC": _describe,
        "USE": _use,
        "SET": _set,
        "RESET": _reset,
        "EXECUTE": _execute,
        "BEGIN": _begin,
        "STOP": _stop,
        "TRUNCATE": _truncate,
        "DELETE": _delete,
        "UPDATE": _update,
    }
