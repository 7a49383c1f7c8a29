"""Text of which exactly one statement is expected."""

from __future__ import annotations

from penstock.sql.errors import ValidationError
from penstock.sql.parse.statements import QueryStatement, Statement


def parse_one(text: str) -> Statement:
    """Parse a text that must contain exactly one statement."""
    from penstock.sql.parse.parser import parse

    found = parse(text)
    if len(found) != 1:
        raise ValidationError(
            "expected one statement, got none"
            if not found
            else f"expected one statement, got {len(found)}",
            hint="execute them one by one; EXECUTE STATEMENT SET runs several INSERTs as one job"
            if found
            else None,
        )
    return found[0]


def parse_query(text: str) -> QueryStatement:
    """Parse a text that must contain exactly one query."""
    statement = parse_one(text)
    if not isinstance(statement, QueryStatement):
        raise ValidationError(
            "sql_query needs a query", detail=text, hint="use execute_sql for other statements"
        )
    return statement
