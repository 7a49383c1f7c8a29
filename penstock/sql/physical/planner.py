"""From logical plans to a physical plan."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock import options as program_options
from penstock.drawing.job_graph_drawing import draw_svg
from penstock.graph.compiler import Plans, compile_program, execution_plan_json
from penstock.graph.settings import GraphSettings
from penstock.options import table as options
from penstock.sql.logical import nodes as plan
from penstock.sql.physical import operators
from penstock.sql.physical.async_calls import set_async_options
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.nodes import PhysicalNode, inputs_first
from penstock.sql.physical.operators.final_table import final_table
from penstock.sql.physical.operators.result import PhysicalResult
from penstock.sql.physical.operators.sink_materializer import materialized
from penstock.sql.physical.settings import PlannerSettings
from penstock.sql.physical.update_before import prune_update_before
from penstock.sql.rules.optimizer import optimize
from penstock.sql.rules.unite_writes import unite_writes
from penstock.sql.udf.runners import AsyncCallSettings

# The modules of the nodes say what they implement (`@implements`), so all of them are loaded.
for _module in pkgutil.iter_modules(operators.__path__, f"{operators.__name__}."):
    importlib.import_module(_module.name)


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """A physical plan: `roots` are its sinks, `logical` the plans that it was made from, `optimized` the result of the rules."""

    roots: tuple[PhysicalNode, ...]
    logical: tuple[plan.LogicalNode, ...]
    optimized: tuple[plan.LogicalNode, ...]
    settings: PlannerSettings = field(default_factory=PlannerSettings)

    @property
    def nodes(self) -> list[PhysicalNode]:
        """All nodes, each after its inputs."""
        return inputs_first(self.roots)

    @property
    def result(self) -> PhysicalNode:
        """The end of a query whose rows are asked for: its schema, and the kinds of changes in its traits."""
        return self.roots[0]

    def explain(self, details: Sequence[str] = ()) -> str:
        """Return the plan as text: the AST, the optimized plan, the execution plan."""
        from penstock.sql.physical.explain import explain

        return explain(self, details)

    def json_execution_plan(self) -> str:
        """Return the job as JSON text, as Flink's plan visualizer reads it."""
        return execution_plan_json(self._compiled().stream_graph)

    def draw(self) -> str:
        """Return a picture (SVG) of the job."""
        return draw_svg(self._compiled().job_graph)

    def _compiled(self) -> Plans:
        from penstock.sql.physical.translate import translate

        configuration = self.settings.configuration
        settings = GraphSettings(
            job_name=configuration.get(program_options.JOB_NAME) or "table job",
            parallelism=max(configuration.get(program_options.PARALLELISM) or 1, 1),
            runtime_mode="BATCH" if self.settings.batch else "STREAMING",
        )
        return compile_program(translate(self), settings)


class PhysicalPlanner:
    """Makes physical plans. `Write` nodes end in their table; the rows of other nodes are asked for by the program."""

    def __init__(self, settings: PlannerSettings | None = None) -> None:
        self.settings = settings or PlannerSettings()

    def plan(
        self,
        roots: Sequence[plan.LogicalNode],
        *,
        update_before: bool = True,
        primary_key: tuple[int, ...] | None = None,
    ) -> PhysicalPlan:
        """Return how logical plans are run, all in one job.

        `update_before`: the program wants -U rows, too. `primary_key`: the columns that the program knows rows by.
        """
        reuse = self.settings.configuration.get(options.REUSE_SUB_PLANS)
        split = self.settings.configuration.get(options.DISTINCT_SPLIT)
        buckets = self.settings.configuration.get(options.DISTINCT_BUCKETS) if split else 0
        called = set_async_options(unite_writes(roots), self._async_calls())
        optimized = optimize(called, zone=self.settings.zone, reuse=reuse, buckets=buckets)
        context = PhysicalPlanContext(self.settings)
        ends = [
            self._end(context.implement(each), update_before, primary_key) for each in optimized
        ]
        return PhysicalPlan(
            tuple(prune_update_before(ends)), tuple(roots), tuple(optimized), self.settings
        )

    def _async_calls(self) -> AsyncCallSettings:
        get = self.settings.configuration.get
        retries = get(options.ASYNC_SCALAR_RETRIES) == "FIXED_DELAY"
        return AsyncCallSettings(
            capacity=get(options.ASYNC_SCALAR_CAPACITY),
            timeout_s=self.settings.millis(options.ASYNC_SCALAR_TIMEOUT) / 1000,
            retries=get(options.ASYNC_SCALAR_ATTEMPTS) if retries else 0,
            delay_s=self.settings.millis(options.ASYNC_SCALAR_DELAY) / 1000,
        )

    def _end(
        self, node: PhysicalNode, update_before: bool, primary_key: tuple[int, ...] | None
    ) -> PhysicalNode:
        if node.is_sink:
            return node
        if self.settings.batch:
            node = final_table(node)
        if primary_key is not None:
            node = materialized(node, primary_key, self.settings)
        return PhysicalResult(
            schema=node.schema, traits=node.traits, inputs=(node,), before=update_before
        )
