"""Helpers for tests of plans: tables, connectors that only say what they can, and nodes in short."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from penstock.catalogs.tables import PhysicalColumn, ResolvedTable, TablePath
from penstock.common import Configuration
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.staged_sinks import CollectSink
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.discovery import Factories
from penstock.sql.connector.providers import ScanProvider, SinkProvider, TableFactory
from penstock.sql.expr.nodes import (
    AggregateCall,
    Call,
    InputRef,
    Literal,
    Rex,
)
from penstock.sql.logical.nodes import (
    Field,
    LogicalNode,
    LogicalTableScan,
    LogicalWatermarkAssigner,
    Schema,
)
from penstock.sql.physical.explain import physical_tree
from penstock.sql.physical.planner import PhysicalPlan, PhysicalPlanner
from penstock.sql.physical.settings import PlannerSettings
from penstock.sql.types import (
    BigIntType,
    BooleanType,
    DataType,
    IntType,
    TimestampType,
    VarCharType,
)

INT, LONG, TEXT, TIME = IntType(), BigIntType(), VarCharType(2**31 - 1), TimestampType(3)
BOOL = BooleanType()
MODES = {
    "append": ChangelogMode.insert_only(),
    "upsert": ChangelogMode.upsert(),
    "all": ChangelogMode.all(),
}


class Table:
    """A table of the toy connector: it can do what its options say."""

    def __init__(self, context: Any) -> None:
        self.options = context.options
        columns = [each for each in context.table.columns if isinstance(each, PhysicalColumn)]
        self.types = {each.name: each.type for each in columns}
        self.names = list(self.types)
        self.filters: list[Rex] = []
        self.limit: int | None = None
        abilities = {
            "apply_projection": self._apply_projection,
            "apply_filters": self._apply_filters,
            "apply_limit": self._apply_limit,
            "lookup_provider": self._lookup_provider,
        }
        for name in self.options.get("can", "").split():
            setattr(self, name, abilities[name])

    def bounded(self) -> bool:
        return "unbounded" not in self.options

    def scan(self) -> ScanProvider:
        return ScanProvider(
            CollectionSource([]),
            tuple(self.names),
            tuple(self.types[n] for n in self.names),
            columnar="columnar" in self.options,
            parallelism=self.parallelism,
        )

    @property
    def parallelism(self) -> int | None:
        return int(self.options["parallelism"]) if "parallelism" in self.options else None

    def _apply_projection(self, names: Any) -> None:
        self.names = list(names)

    def _apply_filters(self, filters: Any) -> Any:
        self.filters = [each for each in filters if each.function == "="]
        return [each for each in filters if each.function != "="]

    def _apply_limit(self, limit: int) -> None:
        self.limit = limit

    def _lookup_provider(self, keys: Any, names: Any) -> Any:
        return ("lookup", tuple(keys), tuple(names))


class Source(Table):
    def changelog_mode(self) -> ChangelogMode:
        return MODES[self.options.get("mode", "append")]


class Sink(Table):
    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        mode = MODES[self.options.get("mode", "append")]
        return ChangelogMode(mode.kinds)

    def write(self, *, overwrite: bool, partition: Any) -> SinkProvider:
        return SinkProvider(
            CollectSink(None),  # type: ignore[arg-type]
            parallelism=self.parallelism,
            needs_watermarks=self.options.get("needs-watermarks"),
        )


@dataclass
class Toys(TableFactory):
    """The toy connector."""

    identifier: str = "toy"
    made: list[Any] = field(default_factory=list)

    def source(self, context: Any) -> Any:
        self.made.append(Source(context))
        return self.made[-1]

    def sink(self, context: Any) -> Any:
        return Sink(context)


def table(
    name: str, columns: dict[str, DataType], key: tuple[str, ...] | None = None, **options: str
) -> ResolvedTable:
    """A table of the toy connector."""
    return ResolvedTable(
        TablePath("c", "d", name),
        tuple(PhysicalColumn(each, kind) for each, kind in columns.items()),
        {"connector": "toy", **options},
        primary_key=key,
    )


def scan(of: ResolvedTable) -> LogicalTableScan:
    """All columns of a table."""
    return LogicalTableScan(
        schema=tuple(Field(each.name, each.type) for each in of.columns),  # type: ignore[union-attr]
        table=of,
    )


def timed(node: LogicalNode, column: int) -> LogicalWatermarkAssigner:
    """A node whose column is its time."""
    schema = tuple(
        Field(f.name, f.type, "rowtime" if at == column else f.time)
        for at, f in enumerate(node.schema)
    )
    return LogicalWatermarkAssigner(
        schema=schema, input=node, rowtime=column, expression=ref(node, column)
    )


def ref(node: LogicalNode, column: int) -> InputRef:
    return InputRef(node.schema[column].type, column)


def call(function: str, *operands: Rex, kind: DataType = BOOL) -> Call:
    return Call(kind, function, operands)


def number(value: int, kind: DataType = INT) -> Literal:
    return Literal(kind, value)


def count() -> AggregateCall:
    return AggregateCall("COUNT", (), BigIntType(False))


def fields(**columns: DataType) -> Schema:
    return tuple(Field(name, kind) for name, kind in columns.items())


def planner(toys: Toys | None = None, batch: bool = False, **options: str) -> PhysicalPlanner:
    """A planner that knows the toy connector; names of options have _ for . and __ for -."""
    factories: Factories[TableFactory] = Factories("connector")
    factories.add(toys or Toys())
    options.setdefault("table_optimizer_agg__phase__strategy", "ONE_PHASE")
    configuration = Configuration.from_dict(
        {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    )
    return PhysicalPlanner(PlannerSettings(factories, configuration, batch=batch))


def shown(plan: PhysicalPlan | LogicalNode, **details: bool) -> str:
    """The tree of a plan."""
    made = plan if isinstance(plan, PhysicalPlan) else planner().plan([plan])
    return physical_tree(made.roots, **details)


def kinds(plan: PhysicalPlan | LogicalNode) -> list[str]:
    """The names of the nodes of a plan, ends first."""
    return re.findall(r"^[ :+\-]*(\w+)", shown(plan), re.MULTILINE)
