"""Translation of a physical plan to transformations, from which the JobGraph is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.graph.operator_specs import OperatorSpec
from penstock.graph.state_description import StateDescription
from penstock.graph.transformations import OperatorTransformation, Transformation
from penstock.options import table as options
from penstock.runtime.columnar.keys import ColumnsKey
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import Columns, PhysicalNode, inputs_first
from penstock.sql.physical.settings import PlannerSettings

if TYPE_CHECKING:
    from penstock.sql.physical.planner import PhysicalPlan


def translate(plan: PhysicalPlan) -> list[Transformation]:
    """Return the ends of a plan as transformations: sinks, or the last step that gives the columns of a result."""
    nodes = inputs_first(plan.roots)
    job = Translation(plan.settings, nodes)
    made: dict[int, Transformation] = {}
    for node in nodes:
        job.begin(node)
        made[id(node)] = node.translate(job, [made[id(each)] for each in node.inputs])
    return [made[id(root)] for root in plan.roots]


class Translation:
    """Makes the transformations of nodes, inputs first.

    Nodes are numbered in that order, so the same statement has the same names and uids each time.
    """

    def __init__(self, settings: PlannerSettings, nodes: Sequence[PhysicalNode]) -> None:
        self.configuration = settings.configuration
        self.zone = settings.zone
        self.lineage = Lineage()
        for node in nodes:
            self.lineage.columns(
                node
            )  # all tables are known before the first operator is described
        default = self.configuration.get(options.DEFAULT_PARALLELISM)
        self._default = default if default > 0 else None
        self._uids = self.configuration.get(options.UID_GENERATION) == "ALWAYS"
        self._number = 0
        self._parallelism: dict[int, int | None] = {}

    def begin(self, node: PhysicalNode) -> None:
        """Give a node its number and its parallelism."""
        self._number += 1
        of_inputs = [self._parallelism[id(each)] for each in node.inputs]
        self._parallelism[id(node)] = node.parallelism(of_inputs)

    def parallelism(self, node: PhysicalNode) -> int | None:
        """Return a parallelism of its own that a node has; None: that of the job."""
        return self._parallelism[id(node)]

    def operator(
        self,
        node: PhysicalNode,
        spec: OperatorSpec,
        inputs: Sequence[Transformation],
        *,
        keys: Sequence[Columns] = (),
        title: str | None = None,
        suffix: str = "",
        state_description: StateDescription | None = None,
    ) -> OperatorTransformation:
        """Return an operator of a node; `keys`: the columns that each input is keyed by."""
        selectors = tuple(ColumnsKey(columns) if columns else None for columns in keys)
        return self._step(
            node,
            spec,
            inputs,
            title or node.name,
            kind="operator",
            key_selectors=selectors if any(selectors) else (),
            suffix=suffix,
            state_description=state_description,
        )

    def source(
        self,
        node: PhysicalNode,
        spec: OperatorSpec,
        title: str,
        state_description: StateDescription | None = None,
    ) -> OperatorTransformation:
        """Return the source of a node."""
        return self._step(
            node,
            spec,
            [],
            f"Source: {title}",
            kind="source",
            state_description=state_description,
        )

    def sink(
        self, node: PhysicalNode, spec: OperatorSpec, source: Transformation, title: str
    ) -> OperatorTransformation:
        """Return the sink of a node."""
        return self._step(node, spec, [source], f"Sink: {title}", kind="sink")

    def _step(
        self,
        node: PhysicalNode,
        spec: OperatorSpec,
        inputs: Sequence[Transformation],
        title: str,
        *,
        kind: str,
        key_selectors: tuple[ColumnsKey | None, ...] = (),
        suffix: str = "",
        state_description: StateDescription | None = None,
    ) -> OperatorTransformation:
        width = self.parallelism(node)
        return OperatorTransformation(
            f"{title}[{self._number}]",
            list(inputs),
            spec=spec,
            kind=kind,
            parallelism=width or self._default,
            parallelism_fixed=width == 1,
            key_selectors=key_selectors,
            description=node.line,
            uid=f"{self._number}_{node.name.lower()}{suffix}" if self._uids else None,
            state_description=state_description,
        )
