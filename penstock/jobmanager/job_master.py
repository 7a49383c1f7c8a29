"""One JobMaster per job: runs its epochs, restarts it after failures, serves requests between epochs."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from penstock.checkpoint.handles import DamagedStateError
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointStorage
from penstock.common import clock
from penstock.common.job_status import JobStatus
from penstock.connectors.source import SourceAssignment
from penstock.errors import CheckpointError, FencedError, JobCancelledError, RestoreRefusedError
from penstock.graph import execution_graph as graphs
from penstock.graph.deployment import LevelDeployment
from penstock.graph.execution_graph import ExecutionGraph
from penstock.graph.levels import deploy_levels
from penstock.graph.settings import check_parallelism
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
from penstock.runtime.metrics import merge
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.state.backends import remove_local_state
from penstock.savepoint.state_io import SnapshotStateIO

_log = logging.getLogger(__name__)


class Pipe(Protocol):
    """Where epochs run."""

    def run(
        self,
        job_id: str,
        name: str,
        levels: Sequence[LevelDeployment],
        on_ack: Callable[[TaskAck], None],
    ) -> None:
        """Run one epoch to its end; hand over each ACK as it becomes known. Raises what a task failed with."""

    def map(
        self, job_id: str, name: str, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> list[Any]:
        """Call a function with each item, in any process."""

    def cancel(self, job_id: str, *, epoch_only: bool = False) -> None:
        """Cancel what runs for a job: its epoch, and with it all else, unless `epoch_only`."""

    def cores(self) -> int | None:
        """Return how many tasks can run at once, or None if that is not known."""


class JobMaster:
    """Drives one job from its first epoch to its last.

    `run` blocks; `cancel`, `request_savepoint` and `request_rescale` may be called from any thread.
    """

    def __init__(
        self, job: Job, progress: Progress, pipe: Pipe, step_hooks: Sequence[StepHook] = ()
    ) -> None:
        self.job = job
        self._step_hooks = tuple(step_hooks)
        self._pipe = pipe
        self._status = JobStatus.CREATED
        self.started_ms = clock.now_ms()
        self.ended_ms: int | None = None
        self.restarts = 0
        # From each failure to the first checkpoint completed after it, in seconds.
        self.recovery_seconds: list[float] = []
        self._failed_at: float | None = None
        self._progress = progress
        self._wake = threading.Event()
        self._cancelled = False
        self._started = False  # whether it has been restored once: what fails later may be storage
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
        self._handed_over: Manifest | None = None  # of the runner before this one
        self._deadline: float | None = None
        self._requests = RequestQueue()
        self._pacing = Pacing(job, self._wake, self._is_interrupted)
        self._scaling = JobScaling(job.autoscaler)
        # The savepoint whose epoch is to run next; it stays here over failures until it is taken.
        self._savepoint: SavepointRequest | None = None
        # The rescaling whose plan was adopted; it is answered as soon as the job goes on with it.
        self._rescaling: RescaleRequest | None = None
        self._claimed = job.checkpoints.claimed  # whether a claimed savepoint may still be there
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
        return self._runner.manifest or self._handed_over

    @property
    def status(self) -> JobStatus:
        """The job's status: a terminal one when nothing of the job is under way any more."""
        status = self._status
        if self._cancelled and not status.is_terminal_state():
            return JobStatus.CANCELLING
        return status

    # Running

    def run(self) -> None:
        """Run the job until it finishes, fails for good or is cancelled."""
        status, fenced = JobStatus.FAILED, False
        try:
            if not self.job.checkpoints.temporary:
                self.store.acquire(self.job.name)
            self._run_with_restarts()
            self._sweep_at_the_end()
            status = JobStatus.FINISHED
        except JobCancelledError:
            status = JobStatus.CANCELED
            raise
        except FencedError:  # another driver has the job: nothing of it may be touched
            fenced = True
            raise
        finally:
            self._end(status, fenced=fenced)

    def _run_with_restarts(self) -> None:
        while True:
            try:
                if self._status is not JobStatus.RUNNING:
                    self._set_status(JobStatus.RUNNING)
                self._restore()
                self._run_epochs()
            except EpochFailedError as error:
                self._leave_damaged_checkpoint(error)
                self._after_failure(error)
            else:
                return

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
            if not self._started:
                raise
            raise EpochFailedError("restoring failed", detail=str(error)) from error
        self._started = True
        self._pacing.start()
        self._go_on()

    def _go_on(self) -> None:
        """Take note that the plan in force has been restored."""
        self._first_epoch = True
        request, self._rescaling = self._rescaling, None
        if request is not None:
            parallelism = {vertex.name: vertex.parallelism for vertex in self.job.plan.vertices}
            _log.info("job '%s' is rescaled (%s): %s", self.job.name, request.reason, parallelism)
            request.result.set_result(parallelism)

    def _adopt(self, job: Job) -> None:
        """Go on with another plan of the same program."""
        if job is self.job:
            return
        self._runner.close()
        self._handed_over = self.manifest
        self.job = self._pacing.job = job
        self._runner = self._create_runner()
        self.savepoints.pin_again(self._runner.coordinator)
        self.execution_graph = follow(
            graphs.generate(job.job_graph, job_id=job.job_id, now_ms=clock.now_ms()),
            self._status,
            clock.now_ms(),
        )

    def _run_epochs(self) -> None:
        """Run epochs until the job ends; whatever goes wrong, the restart strategy decides."""
        try:
            self._run_epochs_to_the_end()
        except (EpochFailedError, JobCancelledError, FencedError):
            raise
        except Exception as error:
            raise EpochFailedError(
                "the job failed between two epochs", detail=f"{type(error).__name__}: {error}"
            ) from error

    def _run_epochs_to_the_end(self) -> None:
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
            self._pacing.ended(started, self._runner.sources)
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
        on_ack: Callable[[TaskAck], None],
    ) -> None:
        job = self.job
        levels = deploy_levels(
            job.deployments,
            job.settings,
            epoch=epoch,
            attempt_number=self.restarts,
            restore=restore_points(job.plan, base, anew=self._first_epoch),
            assignments=assignments,
            deadline=self._deadline,
            longest_read_s=self._pacing.interval_s,
            state_io=self._state_io,
            staging=self.store.staging,
        )
        with CheckpointExpiredError.after(
            job.checkpoints.timeout_ms, lambda: self._pipe.cancel(job.job_id, epoch_only=True)
        ):
            self._journal.run(
                job,
                base,
                levels,
                lambda note: self._pipe.run(job.job_id, job.name, levels, note),
                on_ack,
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
        self,
        parallelism: int | Mapping[str, int],
        vertices: Mapping[str, int] | None = None,
    ) -> Future[dict[str, int]]:
        """Ask for another parallelism from the next epoch on; the result is the parallelism by vertex name.

        `vertices` are rescaled after a number for the others: all of it happens, or nothing.
        """
        steps = (parallelism,) if vertices is None else (parallelism, vertices)
        for step in steps:
            for wanted in step.values() if isinstance(step, Mapping) else (step,):
                check_parallelism(wanted, "the parallelism")
        request = RescaleRequest(steps)
        self._ask(request)
        return request.result

    def _ask(self, request: Request) -> None:
        self._requests.add(request)
        self._wake.set()

    def _serve_requests(self) -> None:
        self._wake.clear()
        self.savepoints.release(self._runner.coordinator)
        while self._savepoint is None and (request := self._requests.take()) is not None:
            if isinstance(request, RescaleRequest):
                self._rescale(request)
            # Draining cannot be undone: it must not turn out afterwards that there is no place for the savepoint.
            elif not request.drains or self.savepoints.can_write(request):
                self._savepoint = request

    def _rescale(self, request: RescaleRequest) -> None:
        """Replace the plan between two epochs: the next one starts from the last checkpoint with other subtasks."""
        before, job = self._runner.manifest, self.job
        try:
            request.check(job.program.settings.parallelism)
            for step in request.steps:
                job = rescaled(job, step)
            if before is not None:
                check_writer_states(job, before)
        except Exception as error:  # noqa: BLE001 - whoever asked is told; the job is not concerned
            _log.warning("job '%s' is not rescaled (%s): %s", self.job.name, request.reason, error)
            request.result.set_exception(error)
            return
        self._rescaling = request
        self._scaling.on_change(self.job, job)
        self._adopt(job)
        self._runner.restore(before)
        self._go_on()

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

    def _refuse_requests(self, status: JobStatus) -> None:
        def error() -> Exception:
            return JobCancelledError(f"job '{self.job.name}' is over: it {status.name.lower()}")

        self._requests.close(error)
        for request in (self._savepoint, self._rescaling):
            if request is not None:
                request.result.set_exception(error())

    # Failing and ending

    def _after_failure(self, error: EpochFailedError) -> None:
        self._check_cancelled()
        if self._failed_at is None:
            self._failed_at = time.monotonic()
        cause = root_cause(error)
        if isinstance(cause, RestoreRefusedError | FencedError):
            raise cause
        self._scaling.reset()
        if self._checkpoint_failures.tolerates(cause):
            _log.warning("%s; it is tried again: %s", error.message, cause)
            self._pacing.sleep(self._pacing.interval_s)
            return
        self._set_status(JobStatus.FAILING)
        decision = self._restart_strategy.on_failure(int(time.monotonic() * 1000))
        if isinstance(decision, GiveUp):
            raise explain_failure(self.job, error, decision.reason) from cause
        self.restarts += 1
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
        try:
            was_set_aside = self.store.set_aside(last.epoch)
        except CheckpointError as failure:  # storage fails: the restart strategy decides
            _log.warning("checkpoint %d cannot be set aside: %s", last.epoch, failure)
            return
        if was_set_aside:
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

    def _end(self, status: JobStatus, *, fenced: bool) -> None:
        """Let go of everything, and only then tell that the job has ended: another driver may go on with it."""
        self._refuse_requests(status)
        steps: list[Callable[[], object]] = [
            self._runner.close,
            lambda: self._progress.close(status),
            self.savepoints.wait,
        ]
        if not fenced:
            steps.append(lambda: self._clean_up(status))
        for step in [*steps, self.store.release]:
            try:
                step()
            except Exception:  # noqa: BLE001 - how the job ended is known: this changes nothing
                _log.warning("something of job '%s' is left", self.job.name, exc_info=True)
        self.ended_ms = clock.now_ms()
        self._set_status(status)

    def _clean_up(self, status: JobStatus) -> None:
        checkpoints = self.job.checkpoints
        remove_local_state(self.job.settings.state_backend, self.job.job_id)
        if checkpoints.temporary:
            shutil.rmtree(checkpoints.directory, ignore_errors=True)
        elif status is JobStatus.CANCELED and not checkpoints.retain_on_cancel:
            self.store.delete_all()
        elif self._runner.finished:
            self.store.delete_working_files()

    # Reporting

    def _set_status(self, status: JobStatus) -> None:
        self._status = status
        self.execution_graph = follow(self.execution_graph, status, clock.now_ms())

    def _on_step(self, step: str, epoch: int) -> None:
        for hook in self._step_hooks:
            hook(step, epoch)

    def _report(self, started: float, ended: float) -> None:
        manifest = self._runner.manifest
        assert manifest is not None
        self._checkpoint_failures.on_success()
        if self._failed_at is not None:
            self.recovery_seconds.append(time.monotonic() - self._failed_at)
            self._failed_at = None
        self._dispose_of_claimed(manifest)
        metrics = dict(self.metrics)  # others read the one that is there
        for ack in self._runner.last_acks:
            for operator, report in ack.metrics.items():
                metrics[operator] = merge(metrics.get(operator, {}), report)
        self.metrics = metrics
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
            cores=self._pipe.cores,
        )
        if decision is not None:
            self._ask(
                RescaleRequest((decision.parallelism,), str(decision), former=decision.former)
            )

    def _dispose_of_claimed(self, manifest: Manifest) -> None:
        if not self._claimed:
            return
        try:
            self._claimed = not dispose_of_claimed(self.job.checkpoints, manifest)
        except CheckpointError as error:  # it is tried again after the next epoch
            _log.warning("the claimed savepoint cannot be deleted: %s", error)
