"""Translation of a physical plan to transformations, from which the JobGraph is built."""

from __future__ import annotations

from typing import Any

from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.collection import CollectionSource
from penstock.graph.operator_specs import OperatorSpec, SinkSpec, SourceSpec
from penstock.graph.operator_specs.columnar.stateless import (
    ColumnsToRowsSpec,
    ExpandSpec,
    RowsToColumnsSpec,
)
from penstock.graph.partitioning import Global, Hash
from penstock.graph.state_description import StateDescription
from penstock.graph.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    Transformation,
    UnionTransformation,
)
from penstock.options import table as options
from penstock.runtime.columnar.keys import ColumnsKey
from penstock.sql.expr.nodes import Literal
from penstock.sql.physical.changelog_traits import inputs_first
from penstock.sql.physical.explain import kind_of, line_of
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import (
    PhysicalExchange,
    PhysicalNode,
    PhysicalOperator,
    PhysicalResult,
    PhysicalStreamScan,
    PhysicalTableScan,
    PhysicalTableSink,
    PhysicalUnion,
    PhysicalValues,
)
from penstock.sql.physical.placement import is_placed
from penstock.sql.physical.planner import PhysicalPlan
from penstock.sql.physical.state_descriptions import describe_source, describe_state
from penstock.sql.types import IntType


def translate(plan: PhysicalPlan) -> list[Transformation]:
    """Return the ends of a plan as transformations: sinks, or the last step that gives the columns of a result."""
    translator = _Translator(plan)
    for node in inputs_first(plan.roots):
        translator.add(node)
    return [translator.made[id(root)] for root in plan.roots]


class _Translator:
    """Makes transformations of nodes, inputs first. Nodes are numbered in that order, so the same statement has the same names and uids each time."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self.made: dict[int, Transformation] = {}
        self._settings = plan.settings
        configuration = plan.settings.configuration
        default = configuration.get(options.DEFAULT_PARALLELISM)
        self._parallelism = default if default > 0 else None
        self._uids = configuration.get(options.UID_GENERATION) == "ALWAYS"
        self._number = 0
        # What runs with a parallelism of its own, by node; what reads it without an exchange runs with the same, for rows must stay in their order.
        self._widths: dict[int, int | None] = {}
        # All tables are known before the first operator is described.
        self._lineage = Lineage()
        self._scans: list[PhysicalTableScan] = []
        for node in inputs_first(plan.roots):
            self._lineage.columns(node)
            if isinstance(node, PhysicalTableScan):
                self._scans.append(node)

    def add(self, node: PhysicalNode) -> None:
        """Translate one node."""
        self._number += 1
        self._widths[id(node)] = self._width(node)
        self.made[id(node)] = self._translate(node)

    def _width(self, node: PhysicalNode) -> int | None:
        match node:
            case PhysicalTableScan():
                return node.scanned.parallelism  # type: ignore[no-any-return]
            case PhysicalStreamScan():
                return node.transformation.parallelism  # type: ignore[no-any-return]
            case PhysicalValues():
                return 1
            case PhysicalExchange():
                return None if node.columns else 1
            case PhysicalUnion():
                widths = {self._widths[id(each)] for each in node.inputs}
                changed = [each for each in node.inputs if each.traits.changes.retracts]
                if len(widths) > 1 and changed:
                    return 1
                return widths.pop() if len(widths) == 1 else None
            case PhysicalTableSink() if node.written.parallelism is not None:
                return node.written.parallelism  # type: ignore[no-any-return]
            case PhysicalOperator(single=True):
                return 1
        return self._widths[id(node.inputs[0])] if node.inputs else None

    def _translate(self, node: PhysicalNode) -> Transformation:
        inputs = [self.made[id(each)] for each in node.inputs]
        match node:
            case PhysicalTableScan():
                return self._scan(node)
            case PhysicalStreamScan():
                stream: Transformation = node.transformation
                return stream
            case PhysicalValues():
                return self._rows(node)
            case PhysicalExchange():
                return self._exchange(node, inputs[0])
            case PhysicalUnion():
                return UnionTransformation("Union", inputs, parallelism=self._widths[id(node)])
            case PhysicalTableSink():
                return self._sink(node, inputs[0])
            case PhysicalResult():
                return inputs[0]
            case PhysicalOperator():
                return self._operator(node, inputs)
        raise AssertionError(node)

    def _step(
        self,
        node: PhysicalNode,
        spec: OperatorSpec,
        inputs: list[Transformation],
        *,
        name: str | None = None,
        kind: str = "operator",
        key_selectors: tuple[Any, ...] = (),
        suffix: str = "",
        state_description: StateDescription | None = None,
    ) -> OperatorTransformation:
        width = self._widths[id(node)]
        title = name or f"{kind_of(node)}[{self._number}]"
        return OperatorTransformation(
            title,
            inputs,
            spec=spec,
            kind=kind,
            parallelism=width or self._parallelism,
            parallelism_fixed=width == 1,
            key_selectors=key_selectors,
            description=line_of(node),
            uid=f"{self._number}_{kind_of(node).lower()}{suffix}" if self._uids else None,
            state_description=state_description,
        )

    def _scan(self, node: PhysicalTableScan) -> Transformation:
        scanned = node.scanned
        strategy = scanned.watermarks or WatermarkStrategy.no_watermarks()
        return self._step(
            node,
            node.spec or SourceSpec(scanned.source, strategy, table=str(node.table.path)),
            [],
            name=f"Source: {node.table.path.name}[{self._number}]",
            kind="source",
            state_description=describe_source(node, self._scans),
        )

    def _rows(self, node: PhysicalValues) -> Transformation:
        """Send constants with the source; expressions are computed from one row, in a task."""
        constant = all(isinstance(each, Literal) for row in node.rows for each in row)
        types = node.types if constant else (IntType(),)
        rows: list[Any] = (
            [tuple(each.value for each in row) for row in node.rows]  # type: ignore[attr-defined]
            if constant
            else [(0,)]
        )
        source: Any = CollectionSource(rows)
        source.carries_timestamps = False
        strategy = WatermarkStrategy.no_watermarks()
        begin = self._step(
            node,
            SourceSpec(source, strategy),
            [],
            name=f"Source: Values[{self._number}]",
            kind="source",
        )
        names = tuple(f"f{at}" for at in range(len(types)))
        columns = self._step(node, RowsToColumnsSpec(types, names), [begin], suffix="_columns")
        if constant:
            return columns
        spec = ExpandSpec(types, node.rows, self._settings.zone)
        return self._step(node, spec, [columns], suffix="_expand")

    def _exchange(self, node: PhysicalExchange, source: Transformation) -> Transformation:
        width = self._widths[id(node)]
        if width == self._widths[id(node.inputs[0])] and is_placed(node.inputs[0], node.columns):
            return source  # rows are there already
        partitioning = Hash(ColumnsKey(node.columns)) if node.columns else Global()
        return PartitionTransformation(
            "Exchange", [source], partitioning=partitioning, parallelism=width
        )

    def _operator(self, node: PhysicalOperator, inputs: list[Transformation]) -> Transformation:
        selectors = tuple(
            ColumnsKey(each.columns)
            if isinstance(each, PhysicalExchange) and each.columns
            else None
            for each in node.inputs
        )
        return self._step(
            node,
            node.spec,
            inputs,
            key_selectors=selectors if any(selectors) else (),
            state_description=describe_state(node, self._lineage),
        )

    def _sink(self, node: PhysicalTableSink, source: Transformation) -> Transformation:
        written = node.written
        if self._is_sent_by_key(node):
            source = self._by_key(node, source)
        if not written.columnar:
            names = tuple(field.name for field in node.schema)
            spec = ColumnsToRowsSpec(node.types, names, self._rowtime(node))
            source = self._step(
                node, spec, [source], name=f"ToRows[{self._number}]", suffix="_rows"
            )  # fmt: skip
        return self._step(
            node,
            SinkSpec(written.sink),
            [source],
            name=f"Sink: {node.table.path.name}[{self._number}]",
            kind="sink",
        )

    def _is_sent_by_key(self, node: PhysicalTableSink) -> bool:
        """Whether rows go to the sink by its primary key (`table.exec.sink.keyed-shuffle`)."""
        strategy = self._settings.configuration.get(options.KEYED_SHUFFLE)
        if strategy == "FORCE":
            return bool(node.table.primary_key)
        keyed = node.traits.changes.retracts or bool(node.table.primary_key)
        return strategy == "AUTO" and node.written.parallelism is not None and keyed

    def _by_key(self, node: PhysicalTableSink, source: Transformation) -> Transformation:
        """Keep the changes of a row in order where the sink's parallelism is another."""
        names = [field.name for field in node.schema]
        key = [names.index(name) for name in node.table.primary_key or () if name in names]
        columns = tuple(key or range(len(names)))
        return PartitionTransformation("Exchange", [source], partitioning=Hash(ColumnsKey(columns)))

    def _rowtime(self, node: PhysicalTableSink) -> int | None:
        if self._settings.configuration.get(options.ROWTIME_INSERTER) == "DISABLED":
            return None
        times = [at for at, field in enumerate(node.schema) if field.time == "rowtime"]
        return times[0] if len(times) == 1 else None
