"""Text to statements, expressions and types."""

from __future__ import annotations

from penstock.sql.parse.grammar import Grammar
from penstock.sql.parse.statements import Statement
from penstock.sql.parse.tokens import SqlText
from penstock.sql.parse.trees import position_of

__all__ = ["parse", "parse_expression", "position_of"]


def parse(text: str) -> list[Statement]:
    """Return the statements of a text; semicolons are between them.

    >>> [type(statement).__name__ for statement in parse("SET 'a' = 'b'; SELECT 1;")]
    ['SetStatement', 'QueryStatement']
    """
    grammar = Grammar(SqlText(text))
    try:
        return _statements(grammar)
    except RecursionError:
        tokens = grammar.tokens
        raise tokens.error_at(tokens.current, "the statement is nested too deeply") from None


def _statements(grammar: Grammar) -> list[Statement]:
    tokens = grammar.tokens
    statements: list[Statement] = []
    while True:
        while tokens.accept(";"):
            pass
        if tokens.at_end:
            return statements
        statements.append(grammar.statements.statement())
        if not tokens.at_end and not tokens.accept(";"):
            raise tokens.failure()


def parse_expression(text: str) -> object:
    """Return the tree of an expression.

    >>> parse_expression("a + 1").key
    'add'
    """
    grammar = Grammar(SqlText(text))
    tree = grammar.expressions.expression()
    grammar.tokens.expect_end()
    return tree
