"""The recursive parts of the grammar: expressions hold calls and queries, and these hold expressions again."""

from __future__ import annotations

from typing import Any, Protocol

from penstock.sql.errors import SqlParseError


class ExpressionPart(Protocol):
    """The part that reads expressions, for the parts that it uses itself."""

    def expression(self) -> Any:
        """Take an expression."""

    def sum(self) -> Any:
        """Take an operand of a comparison."""

    def named(self) -> Any:
        """Take a column with its qualifiers, or a call of a function."""

    def parenthesized(self) -> object:
        """Take a query, an expression or several expressions in parentheses."""

    def no_expression(self) -> SqlParseError:
        """Return the error that an expression was expected."""


class QueryPart(Protocol):
    """The part that reads queries, for the parts that it uses itself."""

    def query(self) -> Any:
        """Take a query."""

    def subquery(self) -> Any:
        """Take a query in parentheses as an exp.Subquery without alias."""
