"""Text to statements, expressions and types."""

from __future__ import annotations

from typing import Any

from penstock.sql.parse.commands import StatementParser
from penstock.sql.parse.statements import Statement
from penstock.sql.parse.stream import checked_end
from penstock.sql.parse.tokens import SqlText
from penstock.sql.parse.trees import position_of

__all__ = ["parse", "parse_expression", "position_of"]


def parse(text: str) -> list[Statement]:
    """Return the statements of a text; semicolons are between them.

    >>> [type(statement).__name__ for statement in parse("SET 'a' = 'b'; SELECT 1;")]
    ['SetStatement', 'QueryStatement']
    """
    parser = StatementParser(SqlText(text))
    try:
        return _statements(parser)
    except RecursionError:
        raise parser.error_at(parser.current, "the statement is nested too deeply") from None


def _statements(parser: StatementParser) -> list[Statement]:
    statements: list[Statement] = []
    while True:
        while parser.accept(";"):
            pass
        if parser.at_end:
            return statements
        statements.append(parser.statement())
        if not parser.at_end and not parser.accept(";"):
            raise parser.failure()


def parse_expression(text: str) -> Any:
    """Return the tree of an expression.

    >>> parse_expression("a + 1").key
    'add'
    """
    parser = StatementParser(SqlText(text))
    tree = parser.expression()
    checked_end(parser)
    return tree
