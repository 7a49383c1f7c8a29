"""The functions that Spark's Python workers run. Imports as little as it can: a worker starts with it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.graph.deployment import JobSettings, LevelDeployment
from penstock.graph.stage import StageDeployment
from penstock.spark.addresses import own_address

if TYPE_CHECKING:
    from pyspark import TaskContext

RunSlot = Callable[[StageDeployment, int, str], None]  # deployment, slot number, host
Body = Callable[[int, Iterable[Any]], Iterator[Any]]


def stage_body(level: LevelDeployment) -> Body:
    """Return the body of a level's tasks, for `RDD.mapPartitionsWithIndex`.

    Rows come and go as (slot, row) pairs. A row that only passes through the next level may have a target beyond that
    level's slots.
    """
    next_slots = max(level.next_slots, 1)

    def body(slot: int, pairs: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        from penstock.runtime.task.epochs.epoch_slot import run_slot

        _prepare(level.settings, TaskContext.get())
        attempt = f"{TaskContext.get().taskAttemptId()}{uuid.uuid4().hex[:8]}"
        rows = () if level.level == 0 else (row for _, row in pairs)
        for row in run_slot(level, slot, attempt, rows):
            yield row[0] % next_slots, row

    return body


def barrier_body(
    deployment: StageDeployment, run: RunSlot | None = None
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return the body of the tasks of a pipelined stage, for `RDDBarrier.mapPartitions`.

    A task that Spark has started again is refused: its stage has failed, and only the driver starts another. Slots find each other
    through the driver: `BarrierTaskContext.allGather` takes a second, in which Spark sleeps. `run` takes the place of the slot's own
    work in tests.
    """

    def body(_: Iterable[Any]) -> Iterator[Any]:
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        if context.attemptNumber() > 0:
            raise PenstockError(
                "Spark has retried a task of a stage; only the driver restarts stages"
            )
        _require_network()
        _prepare(deployment.settings, context)
        slot = context.partitionId()
        seen = context.getTaskInfos()[slot].address.rpartition(":")[0].strip("[]")
        _run_slot(run)(deployment, slot, own_address(seen, deployment.driver))
        return iter(())

    return body


def _run_slot(run: RunSlot | None) -> RunSlot:
    if run is not None:
        return run
    from penstock.runtime.task.pipelined.pipelined_slot import run_stage_slot

    return run_stage_slot


def _require_network() -> None:
    """Refuse to run where the library is missing that carries records between slots."""
    try:
        import zmq  # noqa: F401 - checks that it is installed
    except ImportError as error:
        raise PenstockError(
            "pyzmq is not installed in the Python of Spark's executors; slots need it to exchange records",
            detail=str(error),
            hint="install pyzmq there, or set penstock.execution.mode to epochs",
        ) from error


def _prepare(settings: JobSettings, context: TaskContext) -> None:
    """Make a worker ready for the user's modules: names of pyflink, logging."""
    from penstock.logs.scope import LogScope
    from penstock.logs.setup import log_in_task

    if settings.pyflink_names:
        from penstock import pyflink_compat

        pyflink_compat.install()
    about = {"stage": context.stageId(), "task": context.taskAttemptId()}
    log_in_task(settings.logs, LogScope(settings.job_id, settings.job_name), about)


def slot_of(target: int) -> int:
    """Return the partition of a row: its slot, as it is."""
    return target
