"""The grammar of statements: its parts over one text, and EXPLAIN, EXECUTE and statement sets, which hold other statements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from penstock.sql.errors import SqlParseError
from penstock.sql.parse.calls import CallParser
from penstock.sql.parse.columns import ColumnParser
from penstock.sql.parse.commands import CommandParser
from penstock.sql.parse.definitions import DefinitionParser
from penstock.sql.parse.expressions import ExpressionParser
from penstock.sql.parse.inserts import InsertParser
from penstock.sql.parse.intervals import IntervalParser
from penstock.sql.parse.patterns import PatternParser
from penstock.sql.parse.queries import QueryParser
from penstock.sql.parse.relations import RelationParser
from penstock.sql.parse.statements import ExplainStatement, Statement, StatementSetBlock
from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import SqlText, TokenKind
from penstock.sql.parse.type_names import TypeParser
from penstock.sql.parse.windows import WindowParser

_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")

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


class StatementParser:
    """Reads whole statements."""

    def __init__(
        self,
        tokens: TokenStream,
        queries: QueryParser,
        inserts: InsertParser,
        definitions: DefinitionParser,
        commands: CommandParser,
    ) -> None:
        self._tokens = tokens
        self._queries = queries
        self._inserts = inserts
        self._readers: dict[str, Callable[[], Statement]] = {
            "INSERT": inserts.insert,
            "CREATE": definitions.create,
            "DROP": definitions.drop,
            "ALTER": definitions.alter,
            "EXPLAIN": self._explain,
            "SHOW": commands.show,
            "DESCRIBE": commands.describe,
            "DESC": commands.describe,
            "USE": commands.use,
            "SET": commands.set,
            "RESET": commands.reset,
            "EXECUTE": self._execute,
            "BEGIN": self._begin,
            "STOP": commands.stop,
            "TRUNCATE": commands.truncate,
            "DELETE": commands.delete,
            "UPDATE": commands.update,
        }

    def statement(self) -> Statement:
        """Take one statement, without the semicolon behind it."""
        start = self._tokens.index
        parsed = self._statement()
        text = self._tokens.text_between(start, self._tokens.index)
        return dataclasses.replace(parsed, text=text, source=self._tokens.source.text)

    def _statement(self) -> Statement:
        word = self._tokens.current.upper
        if word in ("SELECT", "WITH", "VALUES", "("):
            return self._queries.statement()
        read = self._readers.get(word)
        if read is None:
            for known in ("SELECT", "WITH", "VALUES", *self._readers):
                self._tokens.wanted(known)
            raise self._no_statement()
        self._tokens.take()
        return read()

    def _no_statement(self) -> SqlParseError:
        token = self._tokens.current
        hint = self._tokens.meant(self._tokens.index, self._tokens.expected_words())
        if token.kind is TokenKind.END:
            return self._tokens.error_at(token, "empty statement")
        if token.upper in _REFUSED:
            return self._tokens.error_at(
                token, f"{token.upper} is not supported", _REFUSED[token.upper]
            )
        return self._tokens.error_at(token, f"unknown statement '{token.text}'", hint)

    def _execute(self) -> Statement:
        if self._tokens.accept("STATEMENT", "SET"):
            self._tokens.expect("BEGIN")
            return StatementSetBlock(inserts=self._inserts.inserts())
        if self._tokens.accept("PLAN"):
            raise self._tokens.error_at(self._tokens.previous, "compiled plans are not supported")
        word = self._tokens.current.upper
        if word not in ("SELECT", "WITH", "VALUES", "INSERT", "("):
            for expected in ("STATEMENT SET", "INSERT", "SELECT"):
                self._tokens.wanted(expected)
            raise self._tokens.failure()
        return self._statement()

    def _begin(self) -> Statement:
        self._tokens.expect("STATEMENT", "SET")
        self._tokens.accept(";")
        return StatementSetBlock(inserts=self._inserts.inserts())

    def _explain(self) -> ExplainStatement:
        details: list[str] = []
        if self._tokens.accept("PLAN"):
            self._tokens.expect("FOR")
        elif self._tokens.current.upper in _DETAILS:
            details = self._tokens.separated(lambda: self._tokens.expect_any(*_DETAILS))
        if self._tokens.accept("STATEMENT", "SET"):
            self._tokens.expect("BEGIN")
            return ExplainStatement(
                statement=StatementSetBlock(inserts=self._inserts.inserts()), details=tuple(details)
            )
        if self._tokens.current.upper not in ("SELECT", "WITH", "VALUES", "INSERT", "EXECUTE", "("):
            for word in ("PLAN FOR", *_DETAILS, "SELECT", "WITH", "VALUES", "INSERT", "EXECUTE"):
                self._tokens.wanted(word)
            raise self._tokens.failure()
        return ExplainStatement(statement=self.statement(), details=tuple(details))


class Grammar:
    """The parts of the grammar over one text: each has the tokens, and the parts that it needs.

    Expressions and queries hold what the other parts read, and are parts of these again: they are connected last.
    """

    def __init__(self, source: SqlText) -> None:
        tokens = TokenStream(source)
        types = TypeParser(tokens)
        expressions = ExpressionParser(tokens)
        intervals = IntervalParser(tokens, expressions)
        windows = WindowParser(tokens, expressions)
        queries = QueryParser(tokens, expressions, windows)
        calls = CallParser(tokens, types, expressions, queries, windows)
        patterns = PatternParser(tokens, expressions, windows, intervals)
        relations = RelationParser(tokens, expressions, queries, calls, patterns)
        expressions.connect(calls, intervals, queries)
        queries.connect(relations)
        columns = ColumnParser(tokens, types, expressions)
        self.tokens = tokens
        self.expressions = expressions
        self.queries = queries
        self.statements = StatementParser(
            tokens,
            queries,
            InsertParser(tokens, expressions, queries),
            DefinitionParser(tokens, queries, columns),
            CommandParser(tokens, expressions),
        )
