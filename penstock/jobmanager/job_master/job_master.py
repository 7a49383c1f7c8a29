"""One JobMaster per job: carries out the decisions of its core, and gives other threads access to the job."""

from __future__ import annotations

import logging
import shutil
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.common.job_status import JobStatus
from penstock.errors import JobCancelledError, JobRequestError, JobSuspendedError
from penstock.graph.settings import check_parallelism
from penstock.graph.stage import SlotDemand
from penstock.graph.task_id import TaskId
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointStatistics
from penstock.jobmanager.checkpointing.savepoints import SavepointService, savepoint_target
from penstock.jobmanager.execution import execution_graph as graphs
from penstock.jobmanager.execution.execution_graph import ExecutionGraph
from penstock.jobmanager.failover.restart_strategies import create_restart_strategy
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_master import execution_tracking as tracking
from penstock.jobmanager.job_master.failures import explain_failure, is_permanent, root_cause
from penstock.jobmanager.job_master.job_core import JobCore
from penstock.jobmanager.job_master.job_messages import (
    Acquire,
    Acquired,
    Advance,
    AnnounceRestart,
    AnswerRescaled,
    Cancelled,
    CheckpointCompleted,
    CheckTarget,
    Delay,
    DelayElapsed,
    End,
    ExecutionFailed,
    Interrupted,
    JobMasterEvent,
    JobMasterInstruction,
    JobRestored,
    QuarantineCheckpoint,
    RefuseRequest,
    RequestTaken,
    RescaleJob,
    RescaleRefused,
    ResetLoadStatistics,
    RestoreJob,
    SavepointWritten,
    SetStatus,
    Start,
    Suspended,
    TakeRequest,
    TargetChecked,
    TolerateFailedCheckpoint,
    WriteSavepoint,
)
from penstock.jobmanager.job_master.mailbox import Mailbox
from penstock.jobmanager.job_master.reporting import JobReporting
from penstock.jobmanager.metrics.dropped_record_counts import DroppedRecords
from penstock.jobmanager.metrics.live_metrics import LiveMetrics
from penstock.jobmanager.metrics.progress import Progress
from penstock.jobmanager.metrics.progress_lines import ProgressRecorder
from penstock.jobmanager.metrics.suspicious_record_counts import SuspiciousRecords
from penstock.jobmanager.modes import (
    AUTO,
    InsufficientSlotsError,
    check_capacity,
    prefers_pipelined,
)
from penstock.jobmanager.requests import RescaleRequest, SavepointRequest
from penstock.jobmanager.rescaling.replanning import fitted_to, rescaled
from penstock.jobmanager.resources.demand import shared_demand, slot_demand
from penstock.jobmanager.restoring.restore_checks import check_restore
from penstock.jobmanager.restoring.starting_point import find_start, quarantine, refused_fallback
from penstock.jobmanager.restoring.writer_states import check_writer_states
from penstock.jobmanager.running.checkpoint_plan import warn_of_hidden_output
from penstock.jobmanager.running.checkpoints import StepHook
from penstock.jobmanager.running.cluster import Cluster
from penstock.jobmanager.running.driver import CheckpointSpan, Driver, ExecutionFailedError
from penstock.jobmanager.running.epochs.driver import EpochDriver
from penstock.jobmanager.running.pipelined.driver import PipelinedDriver
from penstock.runtime.inspection.requests import InspectionRequest, SlotId, SlotInfo, SplitTime
from penstock.runtime.network.messages import TaskAck, TaskFailedError, TaskFailure
from penstock.runtime.state.backends import remove_local_state
from penstock.runtime.task.pipelined.slot_messages import SlotReport
from penstock.savepoint.state_io import SnapshotStateIO
from penstock.time import clock

_log = logging.getLogger(__name__)

DriverKind = type[EpochDriver] | type[PipelinedDriver]


class JobMaster:
    """Runs one job from start to end: passes events to the pure core and carries out its instructions.

    `run` blocks; `cancel`, `request_savepoint` and `request_rescale` may be called from any thread, and all public
    attributes may be read by any.
    """

    def __init__(
        self,
        job: Job,
        progress: Progress,
        cluster: Cluster,
        step_hooks: Sequence[StepHook] = (),
        *,
        recorder: ProgressRecorder | None = None,
    ) -> None:
        self.job = job
        #: The lines that `progress` says, if clients elsewhere print them
        self.recorder = recorder
        self.started_ms = clock.now_ms()
        #: None until the job has ended
        self.ended_ms: int | None = None
        base = CheckpointFileSystem(job.checkpoints.directory, sync=not job.checkpoints.temporary)
        self.store = ManifestStore(base, job.job_id, job.checkpoints.signer)
        #: Immutable, and replaced by the thread of `run` only: readers in other threads need no lock
        self.execution_graph: ExecutionGraph = graphs.generate(
            job.job_graph, job_id=job.job_id, now_ms=self.started_ms
        )
        self.statistics = CheckpointStatistics(job.checkpoints.history)
        self._cluster = cluster
        self._step_hooks = step_hooks
        #: What other threads ask for: the only state that they change
        self._mailbox = Mailbox()
        self._state_io = SnapshotStateIO(
            self.store.storage.base,
            job.checkpoints.inline_threshold,
            signed=job.checkpoints.signer is not None,
        )
        #: Another one if a new plan runs in another execution mode
        self._driver = self._create_driver(
            PipelinedDriver
            if prefers_pipelined(job.mode, batch=job.settings.batch_mode, bounded=job.bounded)
            else EpochDriver
        )
        #: The failure of a part of the job, until that part is restarted
        self._failed_part: ExecutionFailedError | None = None
        checkpointing = job.checkpoints.interval_ms is not None
        self._core = JobCore(
            create_restart_strategy(job.restart_strategy, checkpointing=checkpointing),
            tolerable_failures=job.checkpoints.tolerable_failures,
            interval_s=self._driver.interval_s,
            elected=job.leader is not None,
        )
        self._reporting = JobReporting(job, progress, cluster.cores)
        self.savepoints = SavepointService(self._state_io, self._run_all, job.checkpoints.signer)

    def _create_driver(self, kind: DriverKind) -> Driver:
        return kind(
            self.job,
            self.store,
            self._state_io,
            self._cluster,
            self,
            self._mailbox,
            self._step_hooks,
        )

    def _run_all(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return self._cluster.map(self.job.job_id, f"savepoint of {self.job.name}", function, items)

    # For other threads

    @property
    def manifest(self) -> Manifest | None:
        """The last completed checkpoint."""
        return self._driver.manifest

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """Totals over the completed checkpoints of this run, by operator id."""
        return self._reporting.metrics

    def dropped(self) -> list[DroppedRecords]:
        """Return the dropped records by operator and reason."""
        return self._reporting.dropped()

    def suspicious(self) -> list[SuspiciousRecords]:
        """Return the suspicious records by operator."""
        return self._reporting.suspicious()

    @property
    def live(self) -> LiveMetrics:
        """The last reports of subtasks; in epoch mode those of the last completed epoch."""
        return self._reporting.live

    @property
    def restarts(self) -> int:
        """The number of restarts after a failure."""
        return self._core.restarts

    @property
    def recovery_seconds(self) -> list[float]:
        """From each failure to the first checkpoint completed after it, in seconds."""
        return self._core.recovery_seconds

    @property
    def status(self) -> JobStatus:
        """The job's status; terminal only after all its work has stopped."""
        status = self.execution_graph.status
        cancelled = self._mailbox.cancelled and not self._mailbox.suspended
        if cancelled and not status.is_terminal_state():
            return JobStatus.CANCELLING
        return status

    def cancel(self, *, graceful: bool = False) -> None:
        """Stop the job: after the current checkpoint interval if `graceful`, else at once."""
        self._mailbox.cancel(graceful=graceful)
        if not graceful:
            self._cluster.cancel(self.job.job_id)

    def warm_up(self) -> None:
        """Start Spark and its Python workers before the job."""
        # Under its own name, so that cancelling the job does not cancel this.
        self._cluster.map(f"standby-{self.job.job_id}", f"standby of {self.job.name}", abs, [0])

    def suspend(self) -> None:
        """Suspend the job: stop it and keep its checkpoints, so that another driver resumes it; no effect if it is cancelled already."""
        self._mailbox.suspend()
        self._cluster.cancel(self.job.job_id)

    def request_savepoint(
        self, directory: str | None, *, stops: bool = False, drains: bool = False
    ) -> Future[str]:
        """Request a savepoint; with `stops` the job ends with it."""
        target = savepoint_target(directory, self.job.checkpoints.savepoint_directory)
        request = SavepointRequest(target, stops=stops, drains=drains)
        self._mailbox.add(request)
        return request.result

    def request_rescale(
        self,
        parallelism: int | Mapping[str, int],
        vertices: Mapping[str, int] | None = None,
    ) -> Future[dict[str, int]]:
        """Request a new parallelism; it takes effect after the next checkpoint. The result is the parallelism by vertex name.

        `vertices` overrides the parallelism of single vertices. The request is applied as a whole or not at all.
        """
        steps = (parallelism,) if vertices is None else (parallelism, vertices)
        for step in steps:
            for wanted in step.values() if isinstance(step, Mapping) else (step,):
                check_parallelism(wanted, "the parallelism")
        request = RescaleRequest(steps)
        self._mailbox.add(request)
        return request.result

    def inspect(self, target: TaskId | SlotId, request: InspectionRequest) -> Future[Any]:
        """Send an inspection request to a running task or slot."""
        if self.execution_graph.status.is_terminal_state():
            over: Future[Any] = Future()
            over.set_exception(JobRequestError(f"job '{self.job.name}' has ended"))
            return over
        return self._driver.inspect(target, request)

    def slots(self) -> list[SlotInfo]:
        """Return the running slots that can be inspected."""
        return self._driver.slots()

    def split_times(self) -> dict[TaskId, tuple[SplitTime, ...]]:
        """Return the watermarks of the splits of sources at the last checkpoint, by task."""
        found: dict[TaskId, tuple[SplitTime, ...]] = {}
        for source in self._driver.sources:
            found |= source.split_times()
        return found

    def backlogs(self) -> dict[str, tuple[int, str]]:
        """Return the known backlogs of unbounded sources, by vertex, with their units; only in pipelined mode."""
        found = {}
        for source in self._driver.sources if self._driver.slots() else ():
            if source.bounded:
                continue
            try:
                backlog = source.backlog()
                if backlog is not None:
                    found[source.vertex] = (backlog, source.backlog_unit)
            except Exception as error:  # noqa: BLE001 - the source is being restored, or its system is unavailable: unknown then
                _log.debug("the backlog of '%s' is unknown: %s", source.operator_id, error)
        return found

    # Events in, instructions out

    def run(self) -> None:
        """Run the job until it is finished, failed, cancelled or suspended."""
        self._reporting.on_start()
        events: deque[JobMasterEvent] = deque([Start()])
        try:
            while events:
                event = events.popleft()
                if self._mailbox.suspended:
                    self._core.handle(Suspended())
                elif self._mailbox.cancelled:
                    self._core.handle(Cancelled())
                for instruction in self._core.handle(event):
                    events.extend(self._carry_out(instruction))
        except BaseException:
            for instruction in self._core.abandon():
                self._carry_out(instruction)
            raise

    def _carry_out(self, instruction: JobMasterInstruction) -> list[JobMasterEvent]:
        if isinstance(instruction, End):
            end = self._settled(instruction)
            self._end(end)
            self._raise(end)
            return []
        try:
            return self._do(instruction)
        except ExecutionFailedError as error:
            return [self._failed(error)]
        except Exception as error:  # noqa: BLE001 - the core decides about any error
            at_start = isinstance(instruction, Acquire | RestoreJob)
            what = "restoring failed" if at_start else "the job failed between two checkpoints"
            detail = str(error) if at_start else f"{type(error).__name__}: {error}"
            failure = ExecutionFailedError(what, detail=detail)
            failure.__cause__ = error
            return [self._failed(failure, at_start=at_start)]

    def _failed(self, error: ExecutionFailedError, *, at_start: bool = False) -> ExecutionFailed:
        cause = root_cause(error)
        last = self._driver.coordinator.base
        refusal = refused_fallback(self.store, last, cause, self.job.checkpoints)
        if refusal is not None:
            error.__cause__ = cause = refusal
        counted = self._driver.tolerates_failures
        permanent = is_permanent(error)
        return ExecutionFailed(error, cause, time.monotonic(), at_start, counted, permanent)

    def _do(self, instruction: JobMasterInstruction) -> list[JobMasterEvent]:
        match instruction:
            case SetStatus(status, error):
                self._set_status(status, error)
            case Acquire():
                if not self.job.checkpoints.temporary:
                    self.store.acquire(self.job.name, leader=self.job.leader)
                self._switch_driver(self._choose_mode(self.job))
                if isinstance(self._driver, PipelinedDriver):
                    warn_of_hidden_output(self.job)
                return [Acquired()]
            case RestoreJob():
                return self._restore()
            case TakeRequest():
                return [RequestTaken(self._mailbox.take())]
            case CheckTarget(request):
                return [TargetChecked(self.savepoints.check_target(request))]
            case RescaleJob(request):
                return self._rescale(request)
            case Advance(savepoint):
                return self._advance(savepoint)
            case WriteSavepoint(request, in_background):
                return self._write_savepoint(request, in_background=in_background)
            case AnswerRescaled(request):
                self._answer_rescaled(request)
            case RefuseRequest(request, error):
                request.result.set_exception(error)
            case QuarantineCheckpoint(cause):
                quarantine(self.store, self._driver.coordinator.base, cause)
            case ResetLoadStatistics():
                self._reporting.forget_load()
            case TolerateFailedCheckpoint(error, cause):
                _log.warning("%s; will retry: %s", error.message, cause)
            case AnnounceRestart(restarts, delay_ms, error):
                explanation = explain_failure(self.job, error)
                self._reporting.progress.on_restart(restarts, delay_ms, explanation)
            case Delay(seconds):
                self._mailbox.sleep(seconds)
                return [DelayElapsed()]
            case _:
                raise TypeError(f"unknown instruction {type(instruction).__name__}")
        return []

    # Carrying out

    def _switch_driver(self, driver_kind: DriverKind) -> None:
        """Switch to the driver of another mode, if the job does not use it already; its progress is in the last checkpoint."""
        if not isinstance(self._driver, driver_kind):
            self._driver.close()
            self._driver = self._create_driver(driver_kind)

    def _choose_mode(self, job: Job, *, waits: bool = True) -> DriverKind:
        """Return the mode in which to run a plan: pipelined, if the job prefers it and there are enough slots.

        If there are not, a job that may use epoch mode does, with a warning. Other jobs wait for slots, unless they run already.
        """
        if prefers_pipelined(job.mode, batch=job.settings.batch_mode, bounded=job.bounded):
            try:
                self._reserve_slots(slot_demand(job, waits=waits))
            except InsufficientSlotsError as error:
                if job.mode != AUTO:
                    raise
                _log.warning("job '%s' runs in epoch mode: %s", job.name, error.message)
            else:
                return PipelinedDriver
        self._reserve_slots(shared_demand(job))
        return EpochDriver

    def _reserve_slots(self, demand: SlotDemand) -> None:
        check_capacity(
            demand.slots, self._cluster.capacity(demand, lambda: self._mailbox.cancelled)
        )

    def _restore(self) -> list[JobMasterEvent]:
        start = find_start(self.store, self.job.checkpoints)
        if start is not None:
            self._adopt(fitted_to(self.job, start))
            start = check_restore(self.job, start)
        self._driver.restore(start, attempt=self._core.restarts, at_once=True)
        return [JobRestored(self._driver.finished)]

    def _adopt(self, job: Job) -> None:
        """Switch to another plan of the same program."""
        if job is self.job:
            return
        self._driver.replan(job)
        self.job = job
        self._reporting.on_plan(job)
        self.savepoints.pin_again(self._driver.coordinator)
        self.execution_graph = tracking.replanned(
            self.execution_graph, job.job_graph, clock.now_ms()
        )

    def _rescale(self, request: RescaleRequest) -> list[JobMasterEvent]:
        """Replace the plan between two checkpoints: the new plan starts from the last checkpoint with other subtasks."""
        before, job = self._driver.manifest, self.job
        try:
            request.check(job.program.settings.parallelism)
            for step in request.steps:
                job = rescaled(job, step)
            if before is not None:
                check_writer_states(job, before)
            driver_kind = self._choose_mode(job, waits=False)
        except Exception as error:  # noqa: BLE001 - reported to the request; the job is not affected
            _log.warning("job '%s' was not rescaled (%s): %s", self.job.name, request.reason, error)
            return [RescaleRefused(error)]
        self._driver.settle()
        before = self._driver.manifest
        self._reporting.scaling.on_change(self.job, job)
        self._switch_driver(driver_kind)
        self._adopt(job)
        self._driver.restore(before, attempt=self._core.restarts, at_once=False)
        return [JobRestored(self._driver.finished)]

    def _answer_rescaled(self, request: RescaleRequest) -> None:
        parallelism = {vertex.name: vertex.parallelism for vertex in self.job.plan.vertices}
        _log.info("job '%s' was rescaled (%s): %s", self.job.name, request.reason, parallelism)
        request.result.set_result(parallelism)

    def _advance(self, savepoint: SavepointRequest | None) -> list[JobMasterEvent]:
        self.savepoints.release(self._driver.coordinator)
        if not self._driver.advance(savepoint):
            return [Interrupted()]
        return [CheckpointCompleted(time.monotonic(), self._driver.finished)]

    def _write_savepoint(
        self, request: SavepointRequest, *, in_background: bool
    ) -> list[JobMasterEvent]:
        manifest = self._driver.manifest
        assert manifest is not None
        if in_background:
            self.savepoints.take_in_background(request, manifest, self._driver.coordinator)
            return []
        error = self.savepoints.take(request, manifest, self._driver.coordinator.returned)
        if error is not None and not self._driver.finished:
            _log.error("job '%s' continues: its savepoint could not be written", self.job.name)
        return [SavepointWritten(error)]

    def _set_status(self, status: JobStatus, error: ExecutionFailedError | None) -> None:
        self.execution_graph = tracking.follow(self.execution_graph, status, clock.now_ms(), error)
        if error is not None and error.tasks is not None:
            self._failed_part = error
        elif status is JobStatus.RESTARTING and self._failed_part is not None:
            failed, self._failed_part = self._failed_part, None
            cause = failed.__cause__
            failure = cause.failure if isinstance(cause, TaskFailedError) else None
            assert failed.tasks is not None
            self.on_restart(failed.tasks, failure)

    # Callbacks of the driver

    def on_deploy(self, tasks: Collection[TaskId] | None = None) -> None:
        """Record that subtasks are deployed; None: all, for one epoch."""
        if tasks is not None:
            self._reporting.live.forget(tasks)
        self.execution_graph = tracking.deployed(self.execution_graph, clock.now_ms(), tasks)

    def on_running(self, tasks: Collection[TaskId], at_ms: int | None = None) -> None:
        """Record that subtasks run, since a time; None: now."""
        when = clock.now_ms() if at_ms is None else at_ms
        self.execution_graph = tracking.running(self.execution_graph, tasks, when)

    def on_restart(self, tasks: Collection[TaskId], failure: TaskFailure | None) -> None:
        """Record that a part of the job is restarted."""
        self._reporting.live.forget(tasks)
        self.execution_graph = tracking.restarted(
            self.execution_graph, tasks, failure, clock.now_ms()
        )

    def on_report(self, report: SlotReport) -> None:
        """Record the metrics of the subtasks of a slot."""
        self._reporting.on_report(report)

    def on_trigger(self, checkpoint_id: int) -> None:
        """Record that a checkpoint was triggered."""
        self._reporting.on_trigger(self._driver)

    def on_ack(self, checkpoint_id: int, ack: TaskAck) -> None:
        """Record that a subtask has acknowledged a checkpoint."""
        self.execution_graph = tracking.acknowledged(
            self.execution_graph, checkpoint_id, ack, clock.now_ms()
        )

    def on_completed(self, span: CheckpointSpan) -> None:
        """Record that a checkpoint was completed."""
        self.execution_graph = tracking.completed(
            self.execution_graph, self._driver.acks, clock.now_ms()
        )
        wanted = self._reporting.on_completed(self.job, self._driver, span)
        if wanted is not None:
            self._mailbox.add(wanted)

    # The end

    def _settled(self, end: End) -> End:
        """Return how the job ends: one that reported CANCELLING does not finish, even if nothing was left to do."""
        cancelled = self._mailbox.settle()
        if cancelled and end.status is JobStatus.FINISHED:
            return replace(end, status=JobStatus.CANCELED)
        return end

    def _end(self, end: End) -> None:
        """Release all resources before publishing the terminal status: another driver may resume the job then."""
        status = end.status

        def over() -> Exception:
            return JobCancelledError(f"job '{self.job.name}' has ended: {status.name.lower()}")

        self._mailbox.close(over)
        for request in end.unanswered:
            request.result.set_exception(over())
        steps: list[Callable[[], object]] = [
            self._driver.close,
            self._reporting.on_end,
            lambda: self._reporting.close(status),
            self.savepoints.wait,
        ]
        if status is JobStatus.FINISHED:
            self._sweep()
        if not end.fenced:
            steps.append(lambda: self._clean_up(status))
        for step in [*steps, lambda: self._cluster.release(self.job.job_id), self.store.release]:
            try:
                step()
            except Exception:  # noqa: BLE001 - it does not change the result of the job
                _log.warning("cleaning up job '%s' failed", self.job.name, exc_info=True)
        self.ended_ms = clock.now_ms()
        self._set_status(status, end.error)

    def _sweep(self) -> None:
        """Delete files of failed attempts."""
        try:
            self._driver.sweep()
        except Exception:  # noqa: BLE001 - the output is complete; leftover files are harmless
            _log.warning("files of failed attempts could not be deleted", exc_info=True)

    def _raise(self, end: End) -> None:
        if end.status is JobStatus.CANCELED:
            raise JobCancelledError(f"job '{self.job.name}' was cancelled")
        if end.status is JobStatus.SUSPENDED:
            raise JobSuspendedError(
                f"job '{self.job.name}' was suspended: this JobManager lost leadership"
            )
        if end.error is None:
            return
        cause = root_cause(end.error)
        if end.verdict is None:
            raise cause
        raise explain_failure(self.job, end.error, end.verdict) from cause

    def _clean_up(self, status: JobStatus) -> None:
        checkpoints = self.job.checkpoints
        remove_local_state(self.job.settings.state_backend, self.job.job_id)
        if checkpoints.temporary:
            shutil.rmtree(checkpoints.directory, ignore_errors=True)
        elif status is JobStatus.CANCELED and not checkpoints.retain_on_cancel:
            self.store.delete_all()
        elif self._driver.finished:
            self.store.delete_working_files()
