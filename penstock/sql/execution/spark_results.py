"""Queries whose rows become Spark DataFrames: all of a bounded one at once, or checkpoint by checkpoint."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.common.job_client import JobClient
from penstock.connectors.spark.records import ROW_KIND, ColumnRecords
from penstock.connectors.spark.results import ResultFiles, ResultSink
from penstock.connectors.spark.sink import SparkSink, check_function
from penstock.files.paths import is_local, join_path, local_path
from penstock.options import CHECKPOINT_DIR
from penstock.processes.temporary import create_directory, this_process
from penstock.spark.frame_files import frame_files, remove_directory
from penstock.spark.staged_frames import check_session, rows_left, staged_frame
from penstock.sql.errors import UnsupportedQueryError
from penstock.sql.logical.nodes import LogicalNode
from penstock.sql.results import table_result
from penstock.sql.results.table_result import TableResult

if TYPE_CHECKING:
    from penstock.sql.execution.context import StatementContext

_TO_SPARK, _FOREACH = "to_spark", "foreach_checkpoint"


def to_spark(context: StatementContext, node: LogicalNode, session: Any) -> Any:
    """Run a bounded query to its end and return the rows that it leaves as a DataFrame."""
    check_session(session)
    plan = context.planner.plan([node])
    changes = plan.result.traits.changes.retracts
    records = _records(node, row_kinds=changes)
    frame_files.remove_unused()
    directory, result = _directory(context), ResultFiles()
    try:
        sink = ResultSink(records, directory, result)
        client = context.planner.run_into(plan, sink, _TO_SPARK, to_the_end=_TO_SPARK)
        context.jobs.add(_TO_SPARK, client)
        _wait(client)
        frame = staged_frame(result.paths, records.types, session, owned=directory)
    except BaseException:
        remove_directory(directory)
        raise
    return rows_left(frame, ROW_KIND) if changes else frame


def foreach_checkpoint(
    context: StatementContext,
    node: LogicalNode,
    function: Callable[[Any, int], Any],
    *,
    row_kinds: bool,
) -> TableResult:
    """Start a job that calls a function with the rows of each checkpoint."""
    check_function(function, _FOREACH)
    plan = context.planner.plan([node])
    if plan.result.traits.changes.retracts and not row_kinds:
        raise UnsupportedQueryError(
            f"the query changes rows, and {_FOREACH} would not say which",
            detail=f"it emits {plan.result.traits.changes}",
            hint=f"pass row_kinds=True: the DataFrame has the kind of each change in column {ROW_KIND}",
        )
    sink = SparkSink.of_columns(function, _records(node, row_kinds=row_kinds))
    client = context.planner.run_into(plan, sink, _FOREACH)
    context.jobs.add(_FOREACH, client)
    return table_result.of_inserts([_FOREACH], client)


def _wait(client: JobClient) -> None:
    """Wait for the end of a job, which is cancelled if the program does not wait any more."""
    try:
        client.get_job_execution_result().result()
    except KeyboardInterrupt:
        client.cancel().result()
        raise


def _records(node: LogicalNode, *, row_kinds: bool) -> ColumnRecords:
    names = [each.name for each in node.schema]
    return ColumnRecords(names, [each.type for each in node.schema], row_kinds=row_kinds)


def _directory(context: StatementContext) -> str:
    """Return a new directory that tasks can write to: beside the checkpoints, if the job has a place for them."""
    root = context.config.effective().get(CHECKPOINT_DIR)
    if root is None:
        return create_directory("results")
    if not is_local(root):
        return join_path(root, f"results-{this_process()}-{uuid.uuid4().hex[:8]}")
    path = local_path(root)
    Path(path).mkdir(parents=True, exist_ok=True)
    return create_directory("results", path)
