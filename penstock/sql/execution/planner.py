"""From statements to jobs: validation, rules, physical plan, transformations, execution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock.catalogs.manager import CatalogManager
from penstock.catalogs.tables import ResolvedTable, TablePath
from penstock.common.job_client import JobClient
from penstock.connectors.base.collect_buffer import CloseableIterator, CollectBuffer
from penstock.connectors.base.sink import Sink
from penstock.connectors.base.source import Boundedness, Source
from penstock.connectors.base.staged_sinks import CollectSink
from penstock.errors import InvalidProgramError
from penstock.graph.operator_specs import SinkSpec
from penstock.graph.operator_specs.columnar.stateless import ColumnsToRowsSpec
from penstock.graph.partitioning import Global
from penstock.graph.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    Transformation,
)
from penstock.options.configuration import Configuration
from penstock.sql.execution.table_config import TableConfig
from penstock.sql.logical.nodes import LogicalNode, LogicalSink
from penstock.sql.parse import statements as sql

if TYPE_CHECKING:
    import polars as pl

    from penstock.sql.expr.nodes import Rex
    from penstock.sql.logical.context import PlanSettings
    from penstock.sql.logical.nodes import Schema
    from penstock.sql.logical.planner import LogicalPlanner
    from penstock.sql.physical.planner import PhysicalPlan
    from penstock.sql.physical.settings import PlannerSettings


class Executor(Protocol):
    """Runs transformations as a job."""

    def execute_async(
        self, transformations: Sequence[Transformation], options: Configuration, job_name: str
    ) -> JobClient:
        """Start a job; `options` override those of the program."""


class Planner:
    """Makes plans of statements, and jobs of plans: the stages of planning in their order."""

    def __init__(self, catalogs: CatalogManager, config: TableConfig, executor: Executor) -> None:
        self._catalogs = catalogs
        self._config = config
        self._executor = executor

    # Plans

    def query(self, statement: sql.QueryStatement, text: str | None = None) -> LogicalNode:
        """Return the logical plan of a query; `text` is the statement around it, if there is one."""
        return self._logical_planner().query(
            statement.tree, text or statement.source or statement.text
        )

    def insert(self, statement: sql.InsertStatement) -> LogicalSink:
        """Return the logical plan of an INSERT."""
        return self._logical_planner().insert(statement)

    def write(self, node: LogicalNode, statement: sql.InsertStatement) -> LogicalSink:
        """Return the logical plan that writes the rows of another one, as INSERT would."""
        return self._logical_planner().write(node, statement)

    def expression(self, tree: Any, schema: Schema, text: str) -> Rex:
        """Return an expression over columns."""
        return self._logical_planner().expression(tree, schema, text)

    def read(self, path: TablePath) -> LogicalNode:
        """Return the logical plan that reads a table or view."""
        return self.query(parse_query(f"SELECT * FROM {path}"))  # noqa: S608 - a name

    def check_table(self, table: ResolvedTable) -> None:
        """Reject a table whose computed columns or watermark mean nothing."""
        self.read_table(table)

    def read_table(self, table: ResolvedTable) -> LogicalNode:
        """Return the logical plan that reads a table which need not be in a catalog."""
        from penstock.sql.logical.context import LogicalPlanContext
        from penstock.sql.logical.tables import read_table

        return read_table(
            LogicalPlanContext(self._catalogs.reader(), self._plan_settings()), None, table, {}
        )

    def _logical_planner(self) -> LogicalPlanner:
        from penstock.sql.logical.planner import LogicalPlanner

        return LogicalPlanner(self._catalogs.reader(), self._plan_settings())

    def _plan_settings(self) -> PlanSettings:
        from penstock.sql.logical.context import PlanSettings

        return PlanSettings(self._config.zone, self._config.is_batch)

    def plan(
        self,
        roots: Sequence[LogicalNode],
        *,
        update_before: bool = True,
        primary_key: tuple[int, ...] | None = None,
    ) -> PhysicalPlan:
        """Return the physical plan of logical ones."""
        from penstock.sql.physical.planner import PhysicalPlanner

        return PhysicalPlanner(self._settings()).plan(
            list(roots), update_before=update_before, primary_key=primary_key
        )

    def _settings(self) -> PlannerSettings:
        from penstock.sql.connector.registry import CONNECTORS
        from penstock.sql.physical.settings import PlannerSettings

        return PlannerSettings(
            CONNECTORS,
            self._config.effective(),
            self._config.zone,
            self._config.is_batch,
        )

    def translate(self, roots: Sequence[LogicalNode]) -> list[Transformation]:
        """Return the last steps of a job: of queries, those that give their rows as columns."""
        return self.translate_plan(self.plan(roots))

    @staticmethod
    def translate_plan(plan: PhysicalPlan) -> list[Transformation]:
        """Return the last steps of a job for a physical plan."""
        from penstock.sql.physical.translate import translate

        return translate(plan)

    # Jobs

    def run_inserts(self, writes: Sequence[LogicalSink], job_name: str) -> JobClient:
        """Start a job that writes tables."""
        return self._start(self.translate(writes), job_name)

    def run_query(
        self, node: LogicalNode, job_name: str = "collect"
    ) -> tuple[CloseableIterator, JobClient]:
        """Start a job that hands the rows of a query to this process."""
        (last,) = self.translate([node])
        buffer = CollectBuffer()
        sink = _collecting(as_rows(node, last), CollectSink(buffer))
        client = self._start([sink], job_name)
        return CloseableIterator(buffer, client), client

    def run_columns(
        self, node: LogicalNode, *, to_the_end: str | None = None, job_name: str = "collect"
    ) -> tuple[Iterator[pl.DataFrame], JobClient]:
        """Start a job that hands the rows of a query to this process in columns: frames with the columns c0, c1, ... and their kinds.

        `to_the_end` is the method that waits for all of them, which is refused if there is no end.
        """
        from penstock.connectors.base.frames import FrameCollectSink

        (last,) = self.translate([node])
        if to_the_end is not None:
            _check_bounded(last, to_the_end, _BATCHES)
        buffer = CollectBuffer()
        client = self._start([_collecting(last, FrameCollectSink(buffer))], job_name)
        return CollectedFrames(CloseableIterator(buffer, client)), client

    def run_into(
        self, plan: PhysicalPlan, sink: Sink, job_name: str, *, to_the_end: str | None = None
    ) -> JobClient:
        """Start a job that writes the rows of a query, in columns, to a sink in as many subtasks as there are.

        `to_the_end` is the method that waits for all of them, which is refused if there is no end.
        """
        (last,) = self.translate_plan(plan)
        if to_the_end is not None:
            _check_bounded(last, to_the_end, _CHECKPOINTS)
        write = OperatorTransformation(
            job_name,
            inputs=(last,),
            spec=SinkSpec(sink),
            kind="sink",
            parallelism=last.parallelism,
            parallelism_fixed=last.parallelism == 1,
        )
        return self._start([write], job_name)

    def _start(self, transformations: Sequence[Transformation], job_name: str) -> JobClient:
        """Start a separate job: the transformations of a DataStream program are not touched."""
        options = self._config.get_configuration()
        return self._executor.execute_async(
            transformations, options, self._config.get("pipeline.name", job_name)
        )


class CollectedFrames(Iterator["pl.DataFrame"]):
    """The frames that a job hands over; closing them cancels the job."""

    def __init__(self, packed: CloseableIterator) -> None:
        self._packed = packed

    def __next__(self) -> pl.DataFrame:
        from penstock.connectors.base.frames import unpack_frame

        return unpack_frame(next(self._packed))

    def close(self) -> None:
        """Stop reading."""
        self._packed.close()


def _collecting(last: Transformation, sink: CollectSink) -> OperatorTransformation:
    """Return the step that hands what another one emits to this process."""
    together = PartitionTransformation("Global", inputs=(last,), partitioning=Global())
    return OperatorTransformation(
        "Collect table sink",
        inputs=(together,),
        spec=SinkSpec(sink),
        kind="sink",
        parallelism=1,
        parallelism_fixed=True,
    )


# What to use where there is no end
_BATCHES = "{method}_batches(), which returns the changes as they come"
_CHECKPOINTS = "foreach_checkpoint(function), which gets the rows of each checkpoint"


def _check_bounded(last: Transformation, method: str, instead: str) -> None:
    """Refuse to wait for the end of an unbounded query."""
    steps, seen = [last], set()
    while steps:
        step = steps.pop()
        if step.id in seen:
            continue
        seen.add(step.id)
        steps.extend(step.inputs)
        source = step.spec.reads_from if isinstance(step, OperatorTransformation) else None
        if isinstance(source, Source) and source.get_boundedness() is not Boundedness.BOUNDED:
            raise InvalidProgramError(
                f"{method}() would never end: the source '{step.name}' is unbounded",
                hint=f"use {instead.format(method=method)}, or bound the source",
            )


def parse_query(text: str) -> sql.QueryStatement:
    """Return a query that this package wrote itself."""
    from penstock.sql.parse.parser import parse

    (statement,) = parse(text)
    assert isinstance(statement, sql.QueryStatement)
    return statement


def as_rows(
    node: LogicalNode,
    columns: Transformation,
    *,
    timestamp: int | None = None,
    output_type: object = None,
) -> OperatorTransformation:
    """Return the step that makes Rows of the columns of a plan."""
    spec = ColumnsToRowsSpec(
        types=tuple(each.type for each in node.schema),
        names=tuple(each.name for each in node.schema),
        timestamp=timestamp,
    )
    return OperatorTransformation(
        "TableToDataStream",
        inputs=(columns,),
        spec=spec,
        parallelism=columns.parallelism,
        output_type=output_type,
    )
