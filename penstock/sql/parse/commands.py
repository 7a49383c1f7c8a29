"""The grammar of commands: SHOW, DESCRIBE, USE, SET, RESET, STOP JOB, and of statements that change rows of tables."""

from __future__ import annotations

from penstock.sql.parse.expressions import ExpressionParser
from penstock.sql.parse.statements import (
    DeleteStatement,
    DescribeStatement,
    JobControlStatement,
    ResetStatement,
    SetStatement,
    ShowStatement,
    TruncateStatement,
    UseStatement,
)
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import TokenKind

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


class CommandParser:
    """Reads commands, of each of which the first word is taken."""

    def __init__(self, tokens: TokenStream, expressions: ExpressionParser) -> None:
        self._tokens = tokens
        self._expressions = expressions

    # --- SHOW, DESCRIBE, USE ------------------------------------------------------------------

    def show(self) -> ShowStatement:
        """Take what is shown, and the pattern of its names."""
        for words, what in _SHOWN.items():
            if self._tokens.looking_at(*words):
                self._tokens.skip(len(words))
                return self._shown(what)
        for words in _SHOWN:
            self._tokens.wanted(" ".join(words))
        raise self._tokens.failure()

    def _shown(self, what: str) -> ShowStatement:
        target, like, not_like = None, None, False
        if what.startswith("CREATE"):
            return ShowStatement(
                what=what, target=self._tokens.path(f"the name of a {what[7:].lower()}")
            )
        if what == "PARTITIONS":
            return ShowStatement(what=what, target=self._tokens.path("the name of a table"))
        if what in ("DATABASES", "TABLES", "VIEWS", "FUNCTIONS", "COLUMNS"):
            if what == "COLUMNS":
                self._tokens.expect_any("FROM", "IN")
                target = self._tokens.path("the name of a table")
            elif self._tokens.accept_any("FROM", "IN"):
                target = self._tokens.path("the name of a catalog or database")
        if not what.startswith(("CURRENT", "FULL", "MODULES", "JOBS")):
            not_like = self._tokens.accept("NOT", "LIKE")
            if not_like or self._tokens.accept_any("LIKE", "ILIKE"):
                like = self._tokens.string("a pattern in quotes")
        return ShowStatement(what=what, target=target, like=like, not_like=not_like)

    def describe(self) -> DescribeStatement:
        """Take what is described."""
        kind = "TABLE"
        if self._tokens.current.upper in ("CATALOG", "DATABASE", "FUNCTION", "JOB") and (
            self._tokens.ahead().kind in (TokenKind.WORD, TokenKind.QUOTED, TokenKind.STRING)
        ):
            kind = self._tokens.take().upper
        elif self._tokens.current.upper == "TABLE":
            self._tokens.take()
        extended = (
            self._tokens.current.upper == "EXTENDED"
            and self._tokens.ahead().kind is not TokenKind.END
        )
        if extended:
            self._tokens.take()
        if kind == "JOB":
            return DescribeStatement(name=(self._tokens.string("a job id in quotes"),), kind=kind)
        return DescribeStatement(
            name=self._tokens.path(f"the name of a {kind.lower()}"), kind=kind, extended=extended
        )

    def use(self) -> UseStatement:
        """Take the catalog, the database or the modules that are used from now on."""
        if self._tokens.current.upper == "CATALOG" and self._tokens.ahead().kind in (
            TokenKind.WORD,
            TokenKind.QUOTED,
        ):
            self._tokens.take()
            return UseStatement(kind="CATALOG", name=(self._tokens.name("the name of a catalog"),))
        if self._tokens.current.upper == "MODULES" and self._tokens.ahead().kind in (
            TokenKind.WORD,
            TokenKind.QUOTED,
        ):
            self._tokens.take()
            return UseStatement(
                kind="MODULES", name=tuple(self._tokens.separated(self._tokens.name))
            )
        return UseStatement(kind="DATABASE", name=self._tokens.path("the name of a database"))

    # --- options and jobs ---------------------------------------------------------------------

    def set(self) -> SetStatement:
        """Take a key and its value, if there is one."""
        if self._tokens.at_end or self._tokens.looking_at(";"):
            return SetStatement()
        key = self._option_name()
        self._tokens.expect("=")
        if self._tokens.current.kind is TokenKind.STRING:
            return SetStatement(key=key, value=self._tokens.take().text)
        return SetStatement(key=key, value=self._bare_value())

    def reset(self) -> ResetStatement:
        """Take a key, if there is one."""
        if self._tokens.at_end or self._tokens.looking_at(";"):
            return ResetStatement()
        return ResetStatement(key=self._option_name())

    def _option_name(self) -> str:
        """Take a key, in quotes or without."""
        if self._tokens.current.kind is TokenKind.STRING:
            return self._tokens.take().text
        if self._tokens.current.kind is not TokenKind.WORD:
            self._tokens.wanted("a key in quotes")
            raise self._tokens.failure()
        start = self._tokens.index
        self._tokens.take()
        while not self._tokens.at_end and self._tokens.current.upper not in ("=", ";"):
            if self._tokens.current.start != self._tokens.previous.end:
                self._tokens.wanted("=")
                raise self._tokens.failure()
            self._tokens.take()
        return self._tokens.text_between(start, self._tokens.index)

    def _bare_value(self) -> str:
        """Parse a value without quotes: the rest of the statement."""
        start = self._tokens.index
        while not self._tokens.at_end and not self._tokens.looking_at(";"):
            self._tokens.take()
        if start == self._tokens.index:
            self._tokens.wanted("a value in quotes")
            raise self._tokens.failure()
        return self._tokens.text_between(start, self._tokens.index)

    def stop(self) -> JobControlStatement:
        """Take the job that is stopped, and how."""
        self._tokens.expect("JOB")
        job_id = self._tokens.string("a job id in quotes")
        savepoint = self._tokens.accept("WITH", "SAVEPOINT")
        drain = self._tokens.accept("WITH", "DRAIN")
        return JobControlStatement(job_id=job_id, savepoint=savepoint, drain=drain)

    # --- rows of tables -----------------------------------------------------------------------

    def truncate(self) -> TruncateStatement:
        """Take the table of TRUNCATE TABLE."""
        self._tokens.expect("TABLE")
        return TruncateStatement(table=self._tokens.path("the name of a table"))

    def delete(self) -> DeleteStatement:
        """Take the table of DELETE, and its condition."""
        self._tokens.expect("FROM")
        table = self._tokens.path("the name of a table")
        if self._tokens.accept("WHERE"):
            self._expressions.expression()
        return DeleteStatement(table=table)

    def update(self) -> DeleteStatement:
        """Take the table of UPDATE, its assignments and its condition."""
        table = self._tokens.path("the name of a table")
        self._tokens.expect("SET")
        self._tokens.separated(self._expressions.expression)
        if self._tokens.accept("WHERE"):
            self._expressions.expression()
        return DeleteStatement(table=table, kind="UPDATE")
