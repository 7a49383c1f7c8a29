"""One JobMaster per job: runs its epochs, restarts it after failures, serves requests between epochs."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, Protocol

from penstock.checkpoint.handles import DamagedStateError
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointStorage
from penstock.common import clock
from penstock.common.connector import SourceAssignment
from penstock.common.job_status import JobStatus
from penstock.errors import FencedError, JobCancelledError, PenstockError, RestoreRefusedError
from penstock.graph import execution_graph as graphs
from penstock.graph.execution_graph import ExecutionGraph
from penstock.jobmanager.checkpoint_failures import CheckpointExpiredError, CheckpointFailures
from penstock.jobmanager.epoch_journal import EpochJournal
from penstock.jobmanager.epoch_runner import EpochFailedError, EpochRunner, StepHook
from penstock.jobmanager.execution_tracking import follow
from penstock.jobmanager.failures import explain_failure, root_cause
from penstock.jobmanager.job import Job
from penstock.jobmanager.pacing import Pacing, discover
from penstock.jobmanager.progress import EpochReport, Progress
from penstock.jobmanager.replanning import fitted_to, rescaled
from penstock.jobmanager.requests import Request, RequestQueue, RescaleRequest, SavepointRequest
from penstock.jobmanager.restart_strategies import GiveUp, create_restart_strategy
from penstock.jobmanager.restore_checks import check_restore
from penstock.jobmanager.restore_points import restore_points
from penstock.jobmanager.savepoints import SavepointService, savepoint_target
from penstock.jobmanager.scaling import JobScaling
from penstock.jobmanager.starting_point import dispose_of_claimed, find_start
from penstock.jobmanager.writer_states import check_writer_states
from penstock.runtime.deployment import LevelDeployment
from penstock.runtime.messages import TaskAck
from penstock.runtime.metrics import merge
from penstock.runtime.state.local_directory import remove_job
from penstock.savepoint.state_io import SnapshotStateIO

_log = logging.getLogger(__name__)


class Pipe(Protocol):
    """Where epochs run."""

    def run(
        self, job_id: str, name: str, levels: Sequence[LevelDeployment], slots: Sequence[int]
    ) -> list[TaskAck]:
        """Run one epoch and return its ACKs."""

    def map(
        self, job_id: str, name: str, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> list[Any]:
        """Call a function with each item, in any process."""

    def cancel(self, job_id: str) -> None:
        """Cancel what runs for a job."""


class JobMaster:
    """Drives one job from its first epoch to its last.

    `run` blocks; `cancel`, `request_savepoint` and `request_rescale` may be called from any thread.
    """

    step_hooks: ClassVar[list[StepHook]] = []

    def __init__(self, job: Job, progress: Progress, pipe: Pipe) -> None:
        self.job = job
        self._pipe = pipe
        self.status = JobStatus.CREATED
        self.started_ms = clock.now_ms()
        self.ended_ms: int | None = None
        self.restarts = 0
        # From each failure to the first checkpoint completed after it, in seconds.
        self.recovery_seconds: list[float] = []
        self._failed_at: float | None = None
        self._progress = progress
        self._wake = threading.Event()
        self._cancelled = False
        self._fenced = False  # another driver has the job: nothing of it may be touched
        base = CheckpointStorage(job.checkpoints.directory, sync=not job.checkpoints.temporary)
        self.store = ManifestStore(base, job.job_id)
        self._state_io = SnapshotStateIO(self.store.storage.base, job.checkpoints.inline_threshold)
        self._journal = EpochJournal(self.store)
        self._runner = self._create_runner()
        self._restart_strategy = create_restart_strategy(
            job.restart_strategy, checkpointing=job.checkpoints.interval_ms is not None
        )
        self._checkpoint_failures = CheckpointFailures(job.checkpoints.tolerable_failures)
        self.execution_graph: ExecutionGraph = graphs.generate(
            job.job_graph, job_id=job.job_id, now_ms=self.started_ms
        )
        # Totals over the completed epochs of this run, by operator id: an epoch that failed is not in them.
        self.metrics: dict[str, dict[str, Any]] = {}
        self._first_epoch = True
        self._deadline: float | None = None
        self._requests = RequestQueue()
        self._pacing = Pacing(job, self._wake, self._is_interrupted)
        self._scaling = JobScaling(job.autoscaler)
        # The savepoint whose epoch is to run next; it stays here over failures until it is taken.
        self._savepoint: SavepointRequest | None = None
        self.savepoints = SavepointService(
            self._state_io,
            lambda function, items: pipe.map(
                job.job_id, f"savepoint of {job.name}", function, items
            ),
        )

    def _create_runner(self) -> EpochRunner:
        return EpochRunner(self.job, self.store, self._run_pipe, self._on_step)

    @property
    def manifest(self) -> Manifest | None:
        """The last completed checkpoint."""
        return self._runner.manifest

    # Running

    def run(self) -> None:
        """Run the job until it finishes, fails for good or is cancelled."""
        try:
            if not self.job.checkpoints.temporary:
                self.store.acquire(self.job.name)
            while True:
                try:
                    if self.status is not JobStatus.RUNNING:
                        self._set_status(JobStatus.RUNNING)
                    self._restore()
                    self._run_epochs()
                except EpochFailedError as error:
                    self._leave_damaged_checkpoint(error)
                    self._after_failure(error)
                else:
                    break
            self._sweep_at_the_end()
            self._set_status(JobStatus.FINISHED)
        except JobCancelledError:
            self._set_status(JobStatus.CANCELED)
            raise
        except BaseException as error:
            self._fenced = isinstance(error, FencedError)
            self._set_status(JobStatus.FAILED)
            raise
        finally:
            self.ended_ms = clock.now_ms()
            self._refuse_requests()
            self._runner.close()
            self._progress.close(self.status)
            self.savepoints.wait()
            if not self._fenced:
                self._clean_up()
            self.store.release()

    def _restore(self) -> None:
        """Go back to the last checkpoint. What fails at the first start would fail again; later it may be storage."""
        try:
            start = find_start(self.store, self.job.checkpoints)
            if start is not None:
                self._adopt(fitted_to(self.job, start))
                start = check_restore(self.job, start)
            self._runner.restore(start)
        except EpochFailedError:
            raise
        except Exception as error:
            if self.restarts == 0:
                raise
            raise EpochFailedError("restoring failed", detail=str(error)) from error
        self._first_epoch = True
        self._pacing.start()

    def _adopt(self, job: Job) -> None:
        """Go on with another plan of the same program."""
        if job is self.job:
            return
        self._runner.close()
        self.job = self._pacing.job = job
        self._runner = self._create_runner()
        self.execution_graph = follow(
            graphs.generate(job.job_graph, job_id=job.job_id, now_ms=clock.now_ms()),
            self.status,
            clock.now_ms(),
        )

    def _run_epochs(self) -> None:
        while not self._runner.finished:
            self._check_cancelled()
            self._serve_requests()
            if self._savepoint is None and not self._pacing.wait_for_work(
                self._runner, first=self._first_epoch
            ):
                continue
            started = time.monotonic()
            self._scaling.before_epoch(self._runner.sources)
            self._run_epoch()
            self._pacing.ended(started)
            self._report(started, time.monotonic())
            if self._savepoint is not None and self._take_savepoint():
                return

    def _run_epoch(self) -> None:
        savepoint = self._savepoint
        if savepoint is not None:
            discover(self._runner.sources)
            self._deadline = clock.now()  # it is wanted now: no more than a batch of each split
        elif self._pacing.reads_all:
            self._deadline = None
        else:
            self._deadline = clock.now() + self._pacing.interval_s
        self._runner.run_epoch(
            flush=savepoint is not None, drain=savepoint is not None and savepoint.drains
        )
        self._first_epoch = False

    def _is_interrupted(self) -> bool:
        self._check_cancelled()
        return bool(self._requests)

    def _run_pipe(
        self,
        epoch: int,
        base: Manifest | None,
        assignments: dict[tuple[int, int], SourceAssignment],
    ) -> list[TaskAck]:
        job = self.job
        restore = restore_points(job.plan, base, anew=self._first_epoch)
        slots = [level.slots for level in job.plan.levels]
        levels = [
            LevelDeployment(
                settings=job.settings,
                level=level.index,
                epoch=epoch,
                attempt_number=self.restarts,
                vertices=tuple(job.deployments[index] for index in level.vertices),
                restore={key: point for key, point in restore.items() if key[0] in level.vertices},
                assignments=assignments if level.index == 0 else {},
                next_slots=slots[level.index + 1] if level.index + 1 < len(slots) else 0,
                deadline=self._deadline,
                longest_read_s=self._pacing.interval_s,
                state_io=self._state_io,
                staging=self.store.staging,
            )
            for level in job.plan.levels
        ]
        with CheckpointExpiredError.after(
            job.checkpoints.timeout_ms, lambda: self._pipe.cancel(job.job_id)
        ):
            return self._journal.run(
                job,
                base,
                levels,
                slots,
                lambda: self._pipe.run(job.job_id, job.name, levels, slots),
            )

    # Requests

    def request_savepoint(
        self, directory: str | None, *, stops: bool = False, drains: bool = False
    ) -> Future[str]:
        """Ask for a savepoint; with `stops` the job ends with it."""
        target = savepoint_target(directory, self.job.checkpoints.savepoint_directory)
        request = SavepointRequest(target, stops=stops, drains=drains)
        self._ask(request)
        return request.result

    def request_rescale(
        self, parallelism: int | Mapping[str, int], reason: str = "asked for"
    ) -> Future[dict[str, int]]:
        """Ask for another parallelism from the next epoch on; the result is the parallelism by vertex name."""
        request = RescaleRequest(parallelism, reason)
        self._ask(request)
        return request.result

    def _ask(self, request: Request) -> None:
        self._requests.add(request)
        self._wake.set()

    def _serve_requests(self) -> None:
        self._wake.clear()
        self.savepoints.release(self._runner.coordinator)
        while self._savepoint is None and (request := self._requests.take()) is not None:
            if isinstance(request, SavepointRequest):
                self._savepoint = request
            else:
                self._rescale(request)

    def _rescale(self, request: RescaleRequest) -> None:
        """Replace the plan between two epochs: the next one starts from the last checkpoint with other subtasks."""
        before = self._runner.manifest
        try:
            job = rescaled(self.job, request.parallelism)
            if before is not None:
                check_writer_states(job, before)
        except PenstockError as error:
            request.result.set_exception(error)
            return
        self._adopt(job)
        self._runner.restore(before)
        self._first_epoch = True
        parallelism = {vertex.name: vertex.parallelism for vertex in job.plan.vertices}
        _log.info("job '%s' is rescaled (%s): %s", job.name, request.reason, parallelism)
        request.result.set_result(parallelism)

    def _take_savepoint(self) -> bool:
        """Write the savepoint of the epoch that has just been completed; return whether the job ends with it."""
        request, self._savepoint = self._savepoint, None
        manifest = self._runner.manifest
        assert request is not None
        assert manifest is not None
        if not request.stops:
            self.savepoints.take_beside(request, manifest, self._runner.coordinator)
            return False
        self.savepoints.take(request, manifest)
        if request.result.exception() is not None and not self._runner.finished:
            _log.error("job '%s' goes on: its savepoint could not be written", self.job.name)
            return False
        return True

    def _refuse_requests(self) -> None:
        def error() -> Exception:
            return JobCancelledError(
                f"job '{self.job.name}' is over: it {self.status.name.lower()}"
            )

        self._requests.close(error)
        if self._savepoint is not None:
            self._savepoint.result.set_exception(error())

    # Failing and ending

    def _after_failure(self, error: EpochFailedError) -> None:
        self._check_cancelled()
        if self._failed_at is None:
            self._failed_at = time.monotonic()
        cause = root_cause(error)
        if isinstance(cause, RestoreRefusedError | FencedError):
            raise cause
        if self._checkpoint_failures.tolerates(cause):
            _log.warning("%s; it is tried again: %s", error.message, cause)
            self._pacing.sleep(self._pacing.interval_s)
            return
        self._set_status(JobStatus.FAILING)
        decision = self._restart_strategy.on_failure(int(time.monotonic() * 1000))
        if isinstance(decision, GiveUp):
            raise explain_failure(self.job, error, decision.reason) from cause
        self.restarts += 1
        self._scaling.reset()
        self._set_status(JobStatus.RESTARTING)
        self._progress.on_restart(
            self.restarts, decision.delay_ms, explain_failure(self.job, error)
        )
        self._pacing.sleep(decision.delay_ms / 1000)

    def _leave_damaged_checkpoint(self, error: EpochFailedError) -> None:
        """Go back one checkpoint further if the state of the last one cannot be read."""
        cause, last = root_cause(error), self._runner.manifest
        if (
            not isinstance(cause, DamagedStateError)
            or last is None
            or last.job_id != self.job.job_id
        ):
            return
        if self.store.set_aside(last.epoch):
            _log.warning(
                "checkpoint %d cannot be read: %s. The checkpoint before it is used; output that was committed "
                "since then is written again",
                last.epoch,
                cause.message,
            )

    def cancel(self, *, graceful: bool = False) -> None:
        """Stop the job: after the epoch under way if `graceful`, else at once."""
        self._cancelled = True
        self._wake.set()
        if not graceful:
            self._pipe.cancel(self.job.job_id)

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise JobCancelledError(f"job '{self.job.name}' was cancelled")

    def _sweep_at_the_end(self) -> None:
        """Delete what attempts left that Spark has repeated since the last restart."""
        try:
            self._runner.sweep()
        except Exception:  # noqa: BLE001 - the output is complete: surplus files are no reason to fail
            _log.warning("files of failed attempts could not be deleted", exc_info=True)

    def _clean_up(self) -> None:
        checkpoints = self.job.checkpoints
        keep = checkpoints.retain_on_cancel or self.status is JobStatus.FAILED
        if self.job.settings.rocksdb is not None:
            remove_job(self.job.settings.rocksdb.local_dirs, self.job.job_id)
        if checkpoints.temporary:
            shutil.rmtree(checkpoints.directory, ignore_errors=True)
        elif self.status is JobStatus.CANCELED and not keep:
            self.store.delete_all()
        elif self._runner.finished:
            self.store.delete_working_files()

    # Reporting

    def _set_status(self, status: JobStatus) -> None:
        self.status = status
        self.execution_graph = follow(self.execution_graph, status, clock.now_ms())

    def _on_step(self, step: str, epoch: int) -> None:
        for hook in self.step_hooks:
            hook(step, epoch)

    def _report(self, started: float, ended: float) -> None:
        manifest = self._runner.manifest
        assert manifest is not None
        self._checkpoint_failures.on_success()
        if self._failed_at is not None:
            self.recovery_seconds.append(time.monotonic() - self._failed_at)
            self._failed_at = None
        dispose_of_claimed(self.job.checkpoints, manifest)
        for ack in self._runner.last_acks:
            for operator, report in ack.metrics.items():
                self.metrics[operator] = merge(self.metrics.get(operator, {}), report)
        self._progress.on_epoch(
            EpochReport.of(self.job, manifest, self._runner.last_acks, ended - started)
        )
        decision = self._scaling.after_epoch(
            self.job,
            manifest.epoch,
            self._runner.sources,
            self._runner.last_acks,
            span_ms=(int(started * 1000), int(ended * 1000)),
            interval_ms=int(self._pacing.interval_s * 1000),
        )
        if decision is not None:
            self.request_rescale(decision.parallelism, str(decision))
