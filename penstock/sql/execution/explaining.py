"""EXPLAIN: the plans of a statement as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.errors import ArgumentTypeError
from penstock.sql.errors import ValidationError
from penstock.sql.execution.explain_detail import ExplainDetail
from penstock.sql.logical.nodes import LogicalNode
from penstock.sql.parse import statements as sql
from penstock.sql.results import table_result
from penstock.sql.results.table_result import TableResult

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext


def explain(context: StatementContext, statement: sql.ExplainStatement) -> TableResult:
    """Carry out EXPLAIN."""
    details = [ExplainDetail[name] for name in statement.details]
    return table_result.of_text("result", explain_statement(context, statement.statement, details))


def explain_statement(
    context: StatementContext, statement: sql.Statement, details: Iterable[ExplainDetail]
) -> str:
    """Return the plans of a query, an INSERT or a statement set."""
    planning = context.planner
    if isinstance(statement, sql.QueryStatement):
        roots: list[LogicalNode] = [planning.query(statement)]
    elif isinstance(statement, sql.InsertStatement):
        roots = [planning.insert(statement)]
    elif isinstance(statement, sql.StatementSetBlock):
        roots = [planning.insert(each) for each in statement.inserts]
    elif isinstance(statement, sql.ExplainStatement):
        return explain_statement(context, statement.statement, details)
    else:
        raise ValidationError(
            f"cannot explain {type(statement).__name__.removesuffix('Statement')}",
            hint="queries, INSERT and statement sets can be explained",
        )
    return explain_plans(context, roots, details)


def explain_plans(
    context: StatementContext, roots: Sequence[LogicalNode], details: Iterable[ExplainDetail]
) -> str:
    """Return the text of plans."""
    names = []
    for each in details:
        if not isinstance(each, ExplainDetail):
            raise ArgumentTypeError(
                f"not an ExplainDetail: {each!r}", hint="use ExplainDetail.CHANGELOG_MODE"
            )
        names.append(each.name)
    text: str = context.planner.plan(roots).explain(names)
    return text
