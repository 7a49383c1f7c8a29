"""Names of tables and columns, and what an opening parenthesis holds: grammar that needs nothing but the tokens."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.parse.stream import TokenStream
from penstock.sql.parse.tokens import TokenKind

QUERY_WORDS = ("SELECT", "WITH", "VALUES")
# Keywords that may follow a parenthesized query within a larger query.
_BEHIND_QUERY = (")", "UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT", "OFFSET", "FETCH")


def table_name(tokens: TokenStream) -> exp.Table:
    """Take the name of a table as an exp.Table."""
    start = tokens.index
    parts = [tokens.identifier("the name of a table")]
    while tokens.accept("."):
        parts.append(tokens.any_identifier("the name of a table"))
    if len(parts) > 3:
        raise tokens.error_at(
            tokens.previous,
            "the name of a table has at most three parts",
            "write catalog.database.table; put parts that contain a dot in backquotes",
        )
    roles = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
    return tokens.placed(exp.Table(**roles), start)


def column_names(tokens: TokenStream) -> list[exp.Identifier]:
    """Take names in parentheses."""
    return tokens.in_parentheses(lambda: tokens.separated(tokens.any_identifier))


def query_in_parentheses(tokens: TokenStream) -> bool:
    """Return whether the parenthesis that comes next holds a query, maybe in more parentheses."""
    return tokens.current.upper == "(" and _holds_query(tokens, tokens.index)


def _holds_query(tokens: TokenStream, at: int) -> bool:
    """Return whether the parenthesis at a token holds a query: ((SELECT 1) UNION ...) does, ((SELECT 1) + 1) does not."""
    inner = tokens.at(at + 1).upper
    if inner != "(" or not _holds_query(tokens, at + 1):
        return inner in QUERY_WORDS or inner == "TABLE"
    depth, end = 1, at + 2
    while depth and tokens.at(end).kind is not TokenKind.END:
        depth += {"(": 1, ")": -1}.get(tokens.at(end).upper, 0)
        end += 1
    return tokens.at(end).upper in _BEHIND_QUERY
