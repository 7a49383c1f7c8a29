"""Catalogs by hand, plans of queries over them, and plans as short texts."""

from __future__ import annotations

from typing import Any

from penstock.catalogs.reader import UserFunction
from penstock.catalogs.tables import (
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    ResolvedTable,
    ResolvedView,
    TablePath,
)
from penstock.sql.logical.nodes import LogicalNode, LogicalSink
from penstock.sql.logical.planner import LogicalPlanner, PlanSettings
from penstock.sql.parse.parser import parse
from penstock.sql.parse.statements import CreateTableStatement, CreateViewStatement, InsertStatement


class Catalog:
    """A CatalogReader over dictionaries."""

    def __init__(self, *statements: str) -> None:
        self.tables: dict[str, Any] = {}
        self.functions: dict[str, UserFunction] = {}
        for text in statements:
            (statement,) = parse(text)
            if isinstance(statement, CreateTableStatement):
                self.tables[statement.table[-1]] = table_of(statement)
            elif isinstance(statement, CreateViewStatement):
                name = statement.view[-1]
                self.tables[name] = ResolvedView(
                    path(name), statement.query.tree, statement.query.text, statement.columns
                )

    def find_table(self, name: Any) -> Any:
        return self.tables.get(name[-1])

    def find_function(self, name: Any) -> UserFunction | None:
        return self.functions.get(name[-1].lower())

    def table_names(self) -> list[str]:
        return list(self.tables)

    def function_names(self) -> list[str]:
        return list(self.functions)

    def at(self, catalog: str, database: str) -> Catalog:
        del catalog, database
        return self


def path(name: str) -> TablePath:
    return TablePath("default_catalog", "default_database", name)


def table_of(statement: CreateTableStatement) -> ResolvedTable:
    columns: list[Any] = []
    for each in statement.columns:
        if each.kind == "physical":
            columns.append(PhysicalColumn(each.name, each.type))
        elif each.kind == "metadata":
            columns.append(
                MetadataColumn(each.name, each.type, each.metadata_key or each.name, each.virtual)
            )
        else:
            columns.append(ComputedColumn(each.name, each.expression, each.expression_text))
    watermark = statement.watermark
    return ResolvedTable(
        path(statement.table[-1]),
        tuple(columns),
        statement.options,
        None
        if watermark is None
        else (watermark.column, watermark.expression, watermark.expression_text),
        statement.primary_key,
        statement.partition_keys,
    )


CATALOG = Catalog(
    """CREATE TABLE bid (auction BIGINT, price BIGINT, channel STRING, ts TIMESTAMP(3), arr ARRAY<INT>, m MAP<STRING, INT>,
       r ROW<x INT, y ROW<z STRING>>, pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND)""",
    """CREATE TABLE auction (id BIGINT, name STRING, seller BIGINT, ts TIMESTAMP(3), expires TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED,
       WATERMARK FOR ts AS ts)""",
    "CREATE TABLE local_time (k INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts)",
    "CREATE TABLE s (k INT, v INT)",
    "CREATE TABLE t (k INT, w INT)",
    "CREATE TABLE sink (a BIGINT, b STRING NOT NULL, c DOUBLE)",
    "CREATE TABLE loose (a BIGINT, b STRING, c DOUBLE)",
    "CREATE TABLE days (a BIGINT, d STRING, h STRING) PARTITIONED BY (d, h)",
    "CREATE TABLE meta (a INT, o BIGINT METADATA FROM 'offset' VIRTUAL, t TIMESTAMP(3) METADATA, twice AS a * 2)",
    "CREATE VIEW expensive AS SELECT auction, price FROM bid WHERE price > 100",
    "CREATE VIEW renamed (x, y) AS SELECT auction, price FROM bid",
    "CREATE VIEW circle AS SELECT * FROM circle",
)


def plan(text: str, catalog: Any = CATALOG, zone: str = "UTC") -> LogicalNode:
    """The plan of a statement."""
    (statement,) = parse(text)
    planner = LogicalPlanner(catalog, PlanSettings(zone))
    if isinstance(statement, InsertStatement):
        return planner.insert(statement)
    return planner.query(statement.tree, text)


def write_of(text: str) -> LogicalSink:
    node = plan(text)
    assert isinstance(node, LogicalSink)
    return node


def columns(node: LogicalNode) -> str:
    """The columns of a plan: name, type, and what is special about them."""
    return ", ".join(
        f"{each.name} {each.type}" + (f" *{each.time}*" if each.time else "")
        for each in node.schema
    )


def times(node: LogicalNode) -> dict[str, str]:
    """The time attributes of a plan."""
    return {each.name: each.time for each in node.schema if each.time}


def outline(node: LogicalNode) -> str:
    """The nodes of a plan, the last first; what reads a table is its name."""
    kind = type(node).__name__.removeprefix("Logical")
    if kind == "TableScan":
        return str(node.table.path.name)  # type: ignore[attr-defined]
    if kind in {"Join", "SetOperation"}:
        kind = node.kind  # type: ignore[attr-defined]
    inside = ", ".join(outline(each) for each in node.inputs)
    return f"{kind}({inside})"


def find(node: LogicalNode, kind: type[Any]) -> Any:
    """The first node of a kind, from the end of the plan."""
    if isinstance(node, kind):
        return node
    for each in node.inputs:
        found = find(each, kind)
        if found is not None:
            return found
    return None
