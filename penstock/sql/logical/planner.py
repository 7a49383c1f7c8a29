"""From parsed statements to logical plans."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalogs.reader import CatalogReader
from penstock.sql.expr.nodes import Rex
from penstock.sql.logical import insert as inserts
from penstock.sql.logical.context import LogicalPlanContext, PlanSettings
from penstock.sql.logical.expressions import Expressions
from penstock.sql.logical.nodes import LogicalNode, LogicalSink, Schema
from penstock.sql.logical.queries import query
from penstock.sql.logical.scope import scope_of
from penstock.sql.parse.statements import InsertStatement


class LogicalPlanner:
    """Makes plans of queries: names are looked up, expressions typed, subqueries joined. Errors have a position in the statement."""

    def __init__(self, catalog: CatalogReader, settings: PlanSettings | None = None) -> None:
        self.catalog = catalog
        self.settings = settings or PlanSettings()

    def query(self, tree: exp.Expr, text: str = "") -> LogicalNode:
        """Return the plan of a query; `text` is the statement, for errors."""
        return query(self._context(text), tree)

    def insert(self, statement: InsertStatement) -> LogicalSink:
        """Return the plan of INSERT: columns as the table has them, with casts where values widen."""
        return inserts.insert(self._context(statement.source or statement.text), statement)

    def write(self, node: LogicalNode, statement: InsertStatement) -> LogicalSink:
        """Return the plan that writes rows of another plan, as INSERT would."""
        return inserts.write(self._context(statement.source or statement.text), statement, node)

    def expression(self, tree: exp.Expr, schema: Schema, text: str = "") -> Rex:
        """Return an expression over columns: of a computed column, a watermark, the Table API."""
        return Expressions(self._context(text), scope_of(schema)).convert(tree)

    def _context(self, text: str) -> LogicalPlanContext:
        return LogicalPlanContext(self.catalog, self.settings, text)


__all__ = ["LogicalPlanner", "PlanSettings"]
