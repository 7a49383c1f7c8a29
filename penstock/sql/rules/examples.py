"""Plans of SQL text before and after a rule, for examples in docstrings."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.catalogs.reader import UserFunction
from penstock.catalogs.tables import PhysicalColumn, ResolvedTable, TablePath
from penstock.sql.logical.nodes import LogicalNode
from penstock.sql.logical.plan_texts import logical_tree
from penstock.sql.logical.planner import LogicalPlanner
from penstock.sql.parse.parser import parse
from penstock.sql.parse.statements import CreateTableStatement, InsertStatement, QueryStatement
from penstock.sql.rules.optimizer import Rule

_TABLES = (
    "CREATE TABLE bids (auction BIGINT, bidder BIGINT, price BIGINT)",
    "CREATE TABLE people (id BIGINT, name STRING)",
    "CREATE TABLE visits (page STRING, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '5' SECOND)",
    "CREATE TABLE prices (price BIGINT) WITH ('connector' = 'filesystem', 'path' = '/prices')",
)


class _Tables:
    """A CatalogReader of the tables of the examples."""

    def __init__(self) -> None:
        self._tables = {table.path.name: table for table in map(_table, _TABLES)}

    def find_table(self, name: Sequence[str]) -> ResolvedTable | None:
        return self._tables.get(name[-1])

    def find_function(self, name: Sequence[str]) -> UserFunction | None:
        return None

    def table_names(self) -> list[str]:
        return list(self._tables)

    def function_names(self) -> list[str]:
        return []

    @property
    def here(self) -> tuple[str, str]:
        return "c", "d"

    def at(self, catalog: str, database: str) -> _Tables:
        return self


def _table(text: str) -> ResolvedTable:
    (statement,) = parse(text)
    assert isinstance(statement, CreateTableStatement)
    columns = [PhysicalColumn(each.name, each.type) for each in statement.columns if each.type]
    mark = statement.watermark
    return ResolvedTable(
        TablePath("c", "d", statement.table[-1]),
        tuple(columns),
        statement.options,
        None if mark is None else (mark.column, mark.expression, mark.expression_text),
    )


def plans_of(*texts: str) -> list[LogicalNode]:
    """Return the logical plans of queries and INSERTs over the tables of the examples."""
    return [_plan_of(text) for text in texts]


def _plan_of(text: str) -> LogicalNode:
    (statement,) = parse(text)
    planner = LogicalPlanner(_Tables())
    if isinstance(statement, InsertStatement):
        return planner.insert(statement)
    assert isinstance(statement, QueryStatement)
    return planner.query(statement.tree, text)


def show_rule(rule: Rule, *texts: str) -> None:
    """Print the plans of queries and INSERTs as they are, and as a rule rewrites them."""
    plans = plans_of(*texts)
    print(_shown(plans), "becomes", _shown(rule(plans)), sep="\n")


def _shown(plans: Sequence[LogicalNode]) -> str:
    lines = logical_tree(plans, reuse=True).splitlines()
    return "\n".join(f"  {line}" for line in lines if line)
