"""From logical plans to a physical plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.common import options as program_options
from penstock.common.options import table as options
from penstock.graph.compiler import Plans, compile_program, execution_plan_json
from penstock.graph.drawing import draw_svg
from penstock.graph.settings import GraphSettings
from penstock.table.function_runners import AsyncCallSettings
from penstock.table.physical.changes import inputs_first, settle
from penstock.table.physical.implement import (
    aggregates,
    calcs,
    joins,
    patterns,
    ranks,
    scans,
    writes,
)
from penstock.table.physical.implement.context import Context, Implement
from penstock.table.physical.implement.materialize import materialized
from penstock.table.physical.make import final_table
from penstock.table.physical.nodes import Physical, Result, TableSink
from penstock.table.physical.settings import PlannerSettings
from penstock.table.plan import nodes as plan
from penstock.table.rules.async_calls import set_async_options
from penstock.table.rules.nodes import Expand, Rank
from penstock.table.rules.optimizer import optimize
from penstock.table.rules.united_writes import unite_writes

IMPLEMENTATIONS: dict[type[plan.Node], Implement] = {
    plan.Scan: scans.implement_scan,
    plan.StreamScan: scans.implement_stream_scan,
    plan.Values: scans.implement_values,
    plan.AssignWatermark: scans.implement_watermark,
    plan.Project: calcs.implement_project,
    plan.Filter: calcs.implement_filter,
    plan.WindowTableFunction: calcs.implement_window_table,
    plan.Correlate: calcs.implement_correlate,
    plan.SetOperation: calcs.implement_union,
    Expand: calcs.implement_expand,
    plan.Aggregate: aggregates.implement_aggregate,
    plan.Over: aggregates.implement_over,
    plan.Join: joins.implement_join,
    Rank: ranks.implement_rank,
    plan.Sort: ranks.implement_sort,
    plan.MatchRecognize: patterns.implement_match,
    plan.Write: writes.implement_write,
}


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """A physical plan: `roots` are its sinks, `logical` the plans that it was made from, `optimized` the result of the rules."""

    roots: tuple[Physical, ...]
    logical: tuple[plan.Node, ...]
    optimized: tuple[plan.Node, ...]
    settings: PlannerSettings = field(default_factory=PlannerSettings)

    @property
    def nodes(self) -> list[Physical]:
        """All nodes, each after its inputs."""
        return inputs_first(self.roots)

    @property
    def result(self) -> Physical:
        """The end of a query whose rows are asked for: its schema, and the kinds of changes in its traits."""
        return self.roots[0]

    def explain(self, details: Sequence[str] = ()) -> str:
        """Return the plan as text: the AST, the optimized plan, the execution plan."""
        from penstock.table.physical.explain import explain

        return explain(self, details)

    def json_execution_plan(self) -> str:
        """Return the job as JSON text, as Flink's plan visualizer reads it."""
        return execution_plan_json(self._compiled().stream_graph)

    def draw(self) -> str:
        """Return a picture (SVG) of the job."""
        return draw_svg(self._compiled().job_graph)

    def _compiled(self) -> Plans:
        from penstock.table.physical.translate import translate

        configuration = self.settings.configuration
        settings = GraphSettings(
            job_name=configuration.get(program_options.JOB_NAME) or "table job",
            parallelism=max(configuration.get(program_options.PARALLELISM) or 1, 1),
            runtime_mode="BATCH" if self.settings.batch else "STREAMING",
        )
        return compile_program(translate(self), settings)


class Planner:
    """Makes physical plans. `Write` nodes end in their table; the rows of other nodes are asked for by the program."""

    def __init__(self, settings: PlannerSettings | None = None) -> None:
        self.settings = settings or PlannerSettings()

    def plan(
        self,
        roots: Sequence[plan.Node],
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
        context = Context(self.settings, IMPLEMENTATIONS)
        ends = [
            self._end(context.implement(each), update_before, primary_key) for each in optimized
        ]
        return PhysicalPlan(tuple(settle(ends)), tuple(roots), tuple(optimized), self.settings)

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
        self, node: Physical, update_before: bool, primary_key: tuple[int, ...] | None
    ) -> Physical:
        if isinstance(node, TableSink):
            return node
        if self.settings.batch:
            node = final_table(node)
        if primary_key is not None:
            node = materialized(node, primary_key, self.settings)
        return Result(schema=node.schema, traits=node.traits, inputs=(node,), before=update_before)
