"""Spark as the cluster of jobs: pipes in epoch mode, stages in pipelined mode.

A pipe has levels as stages of one Spark job, exchanges between them, ACK rows at the end.

The rows travel as an RDD of (slot, row) pairs. Measured on two cores, a two-stage epoch without data takes 120 to 170 ms this
way and 500 ms as a DataFrame (mapInArrow, repartitionById) in the same process: there is no plan to optimise, no code
to generate, and workers need no pyarrow. Bytes go through 1.5 to 2 times as fast.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from penstock.dependencies.python_dependencies import PythonDependencies
from penstock.errors import JobCancelledError, PenstockError
from penstock.graph.deployment import LevelDeployment
from penstock.graph.stage import ClusterCapacity, SlotDemand, StageDeployment
from penstock.runtime.network.buffers import BufferedRow
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task.epochs.local_pipe import deliver
from penstock.spark.dependencies import WorkerEnvironment
from penstock.spark.descriptions import describe_epoch, describe_stage
from penstock.spark.logs import with_address
from penstock.spark.session import (
    active_context,
    cancel_jobs,
    count_cores,
    count_tasks,
    get_context,
    has_dynamic_allocation,
    in_job_group,
    registration_s,
)
from penstock.spark.stage import OnEnd, SparkStage, run_barrier_stage
from penstock.spark.stage_body import slot_of, stage_body
from penstock.spark.task_events import TaskStarted, count_active, started_tasks, watched

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

_log = logging.getLogger(__name__)

_OWN_THREADS = 4
# How long an epoch waits for stages of other jobs that are to start, and how often it looks.
_LET_START_S = 10.0
_LOOK_S = 0.05


def build_pipe(
    context: SparkContext, levels: Sequence[LevelDeployment]
) -> list[RDD[tuple[int, BufferedRow]]]:
    """Return one RDD per level; the rows of the last are the ACKs of the epoch.

    They run with the interpreter that the context has now.
    """
    slots = levels[0].slots
    stages = [
        context.parallelize(range(slots), slots).mapPartitionsWithIndex(stage_body(levels[0]))
    ]
    for level in levels[1:]:
        arriving = stages[-1].partitionBy(level.slots, slot_of)
        stages.append(arriving.mapPartitionsWithIndex(stage_body(level)))
    stages[-1]._jrdd  # noqa: B018, SLF001 - else PySpark makes it when it is collected
    return stages


def run_pipe(
    context: SparkContext,
    levels: Sequence[LevelDeployment],
    on_ack: Callable[[TaskAck], None],
    environment: WorkerEnvironment | None = None,
) -> None:
    """Run one epoch, then hand over its ACKs; raises TaskFailedError if a task's user code failed."""
    with contextlib.nullcontext() if environment is None else environment.applied(context):
        stages = build_pipe(context, levels)
    try:
        pairs = stages[-1].collect()
    finally:
        try:
            _delete_shuffle_files(context, stages[1:])
        except Exception as error:  # noqa: BLE001 - a stopped context raises various errors
            _log.warning("shuffle files were not deleted, Spark will delete them later: %s", error)
    deliver((row for _, row in pairs), on_ack)


def _delete_shuffle_files(
    context: SparkContext, stages: Sequence[RDD[tuple[int, BufferedRow]]]
) -> None:
    """Delete what the exchanges wrote to disk: Spark itself does that when its JVM next collects garbage, hours later."""
    cleaner = context._jsc.sc().cleaner()  # noqa: SLF001 - no public API
    if cleaner.isEmpty():
        return
    for stage in stages:
        java_rdd = stage._prev_jrdd.rdd()  # noqa: SLF001 - what the level reads
        shuffled = java_rdd.dependencies().head().rdd()
        cleaner.get().doCleanupShuffle(shuffled.dependencies().head().shuffleId(), False)


class SlotProvider(Protocol):
    """Who gives the jobs of this process their slots: the ResourceManager."""

    @property
    def in_use(self) -> bool:
        """Whether any job holds slots."""

    def share_at_once(self, demand: SlotDemand) -> bool:
        """Grant a job in epoch mode its share at once if no slots are allocated; return whether it was granted."""

    def acquire(
        self,
        demand: SlotDemand,
        capacity: Callable[[], int],
        interrupted: Callable[[], bool],
        *,
        arriving_s: float = 0.0,
    ) -> int:
        """Give a job its slots and return how many it holds."""

    def release(self, job_id: str) -> None:
        """Take back the slots of a job."""

    def is_full(self, capacity: int) -> bool:
        """Whether jobs hold all slots."""


class SparkPipe:
    """Runs the epochs and stages of jobs on the Spark context of this process."""

    def __init__(
        self,
        options: Mapping[str, str],
        slots: SlotProvider,
        environment: WorkerEnvironment | None = None,
    ) -> None:
        self._options = options
        self._environment = environment or WorkerEnvironment(PythonDependencies())
        self._slots = slots
        self._over: set[str] = (
            set()
        )  # jobs that were cancelled: what they are about to start comes too late

    @contextmanager
    def _under_way(
        self, run: _Run, name: str, description: str | None = None
    ) -> Iterator[SparkContext]:
        """Run Spark jobs so that `cancel` ends them at any moment, also while Spark itself is being started."""
        with _lock:
            _runs.append(run)
            run.cancelled |= run.works and run.job_id in self._over
        try:
            context = self._connect()
            if run.cancelled:
                raise JobCancelledError(f"'{name}' was cancelled before it was started")
            with in_job_group(context, run.group, description or name, run.job_id):
                yield context
        finally:
            with _lock:
                _runs.remove(run)

    def _connect(self) -> SparkContext:
        return get_context(self._options)

    def run(
        self,
        job_id: str,
        name: str,
        levels: Sequence[LevelDeployment],
        on_ack: Callable[[TaskAck], None],
    ) -> None:
        """Run one epoch. Its ACKs are known when the Spark job ends, all at once."""
        run = _Run.new(job_id)
        with self._under_way(run, name, describe_epoch(name, levels)) as context:
            _let_stages_start(context)
            slots = max((level.slots for level in levels), default=1)
            self._environment.prepare(context, slots, lambda: run.cancelled)
            configured = [
                replace(each, settings=with_address(context, each.settings)) for each in levels
            ]
            run_pipe(context, configured, on_ack, self._environment)

    def watching(
        self, job_id: str, on_started: Callable[[int, int, int], None]
    ) -> contextlib.AbstractContextManager[None]:
        """Tell of the tasks of a job's epoch that Spark has started: their level, their slot, and when."""

        def look() -> list[TaskStarted]:
            with _lock:
                groups = [run.group for run in _runs if run.job_id == job_id and run.is_epoch]
            context = active_context()  # only the job itself starts one, after a failure
            return started_tasks(context, groups[-1]) if groups and context is not None else []

        return watched(look, lambda each: on_started(each.stage, each.task, each.launched_ms))

    def map(
        self, job_id: str, name: str, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> list[Any]:
        """Call a function with each item, one task each; in threads of this process if stages hold all cores."""
        if self._is_full():
            with ThreadPoolExecutor(_OWN_THREADS, "penstock-map") as threads:
                return list(threads.map(function, items))
        run = _Run.new(job_id, is_epoch=False)
        with self._under_way(run, name) as context:
            self._environment.prepare(context, len(items), lambda: run.cancelled)
            with self._environment.applied(context):
                tasks = context.parallelize(list(items), max(len(items), 1)).map(_Guarded(function))
                tasks._jrdd  # noqa: B018, SLF001 - made with the interpreter of now
            results: list[Any] = tasks.collect()
        for result in results:
            if isinstance(result, _Refusal):
                raise result.error
        return results

    def cancel(self, job_id: str, *, epoch_only: bool = False) -> None:
        """Cancel what runs for a job: its epoch, and with it all else, unless `epoch_only`."""
        with _lock:
            if not epoch_only:
                self._over.add(job_id)
            runs = [run for run in _runs if run.job_id == job_id]
            runs = [run for run in runs if run.is_epoch or not epoch_only]
            for run in runs:
                run.cancelled = True
        for run in runs:
            cancel_jobs(run.group)

    # Pipelined mode

    def capacity(self, demand: SlotDemand, interrupted: Callable[[], bool]) -> ClusterCapacity:
        """Allocate slots to a job; waits for executors that are starting, and in the queue of requests."""
        if self._slots.share_at_once(demand):
            return ClusterCapacity(0)  # Spark need not be there yet
        context = self._connect()
        if has_dynamic_allocation(
            context
        ):  # nothing holds slots, and there are as many as it takes
            return ClusterCapacity(
                None, "Spark does not run barrier stages with dynamic allocation"
            )
        granted = self._slots.acquire(
            demand,
            lambda: count_tasks(context),
            interrupted,
            arriving_s=registration_s(context),
        )
        return ClusterCapacity(granted)

    def release(self, job_id: str) -> None:
        """Take back the slots of a job."""
        self._slots.release(job_id)

    def host(self) -> str:
        """Return the address at which executors reach this process."""
        return self._connect().getConf().get("spark.driver.host") or "127.0.0.1"

    def listens_at(self) -> str:
        """Return the address that Spark's own driver listens at."""
        return self._connect().getConf().get("spark.driver.bindAddress") or self.host()

    def start_stage(
        self, job_id: str, name: str, deployment: StageDeployment, on_end: OnEnd
    ) -> SparkStage:
        """Start a stage, in a thread and a job group of its own."""
        run = _Run.new(job_id, slots=deployment.slots)

        def work() -> None:
            with self._under_way(run, name, describe_stage(name, deployment)) as context:
                self._environment.prepare(context, deployment.slots, lambda: run.cancelled)
                settings = with_address(context, deployment.settings)
                configured = replace(deployment, settings=settings)
                run_barrier_stage(context, configured, environment=self._environment)

        def end() -> None:
            run.cancelled = True
            cancel_jobs(run.group)

        stage = SparkStage(f"penstock-stage-{deployment.stage}", work, end, on_end)
        stage.start()
        return stage

    def _is_full(self) -> bool:
        """Whether stages occupy all cores, so that nothing else could run."""
        return self._slots.in_use and self._slots.is_full(count_tasks(self._connect()))

    def cores(self) -> int | None:
        """Return how many tasks can run at once, or None if that is not known."""
        return count_cores()


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The error of a `map` call, returned as a value: Spark would convert an exception to text."""

    error: PenstockError


@dataclass(frozen=True, slots=True)
class _Guarded:
    """Calls a function, and returns its errors if they are ours: those would be raised again by another attempt."""

    function: Callable[[Any], Any]

    def __call__(self, item: object) -> object:
        try:
            return self.function(item)
        except PenstockError as error:
            return _Refusal(error)


@dataclass(slots=True, eq=False)
class _Run:
    """One call of `run` or `map`, or a stage, with a job group of its own."""

    job_id: str
    group: str
    is_epoch: bool
    starting: int = 0  # how many tasks it waits for to start all at once
    cancelled: bool = False

    @property
    def works(self) -> bool:
        """Whether tasks of the job run in it: not so in what is done around them, also after the job."""
        return self.is_epoch or self.starting > 0

    @classmethod
    def new(cls, job_id: str, *, is_epoch: bool = True, slots: int = 0) -> _Run:
        """Return a run that has not started."""
        return cls(job_id, f"{job_id}-{uuid.uuid4().hex[:8]}", is_epoch, slots)


_lock = threading.Lock()
_runs: list[
    _Run
] = []  # the current runs of all jobs of this process, which share its Spark application


def _let_stages_start(context: SparkContext) -> None:
    """Keep an epoch back while a stage that was given its slots waits for them: it needs all of them at one moment.

    Spark gives free cores to the first task that asks, one at a time, so tasks of epochs would always win. A stage that does not
    start even so is no longer waited for: its executors may be gone.
    """
    until = time.monotonic() + _LET_START_S
    while True:
        with _lock:
            waiting = [run for run in _runs if run.starting and not run.cancelled]
        for run in waiting:
            if count_active(context, run.group) >= run.starting or time.monotonic() >= until:
                run.starting = 0
        if not any(run.starting for run in waiting):
            return
        time.sleep(_LOOK_S)
