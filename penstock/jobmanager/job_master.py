"""One JobMaster per job: runs its epochs, restarts it after failures, reports on it."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from penstock.checkpoint.handles import DamagedStateError, StateChain
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore, resolve_restore_path
from penstock.checkpoint.state_io import CheckpointStateIO
from penstock.checkpoint.storage import CheckpointStorage
from penstock.common.connector import SourceAssignment
from penstock.common.job_status import JobStatus
from penstock.common.key_groups import key_group_range
from penstock.errors import JobCancelledError
from penstock.graph import execution_graph as graphs
from penstock.graph.execution_graph import ExecutionGraph
from penstock.graph.stage_plan import StageVertex
from penstock.jobmanager.epoch_runner import EpochFailedError, EpochRunner, StepHook
from penstock.jobmanager.execution_tracking import follow
from penstock.jobmanager.failures import explain_failure, root_cause
from penstock.jobmanager.job import Job
from penstock.jobmanager.progress import EpochReport, Progress
from penstock.jobmanager.restart_strategies import GiveUp, create_restart_strategy
from penstock.runtime.deployment import LevelDeployment, SubtaskRestore
from penstock.runtime.messages import TaskAck
from penstock.runtime.metrics import merge
from penstock.runtime.state.local_directory import remove_job

_POLL_S = 0.05

_log = logging.getLogger(__name__)


class Pipe(Protocol):
    """Where epochs run."""

    def run(
        self, job_id: str, name: str, levels: Sequence[LevelDeployment], slots: Sequence[int]
    ) -> list[TaskAck]:
        """Run one epoch and return its ACKs."""

    def cancel(self, job_id: str) -> None:
        """Cancel what runs for a job."""


class JobMaster:
    """Drives one job from its first epoch to its last.

    `run` blocks; `cancel` may be called from any thread. With `graceful` the epoch under way is completed first.
    """

    step_hooks: ClassVar[list[StepHook]] = []

    def __init__(self, job: Job, progress: Progress, pipe: Pipe) -> None:
        self.job = job
        self._pipe = pipe
        self.status = JobStatus.CREATED
        self.restarts = 0
        self._progress = progress
        self._wake = threading.Event()
        self._cancelled = False
        base = CheckpointStorage(job.checkpoints.directory, sync=not job.checkpoints.temporary)
        self.store = ManifestStore(base, job.job_id)
        self._state_io = CheckpointStateIO(
            self.store.storage.base, job.checkpoints.inline_threshold
        )
        self._runner = EpochRunner(job, self.store, self._run_pipe, self._on_step)
        self._restart_strategy = create_restart_strategy(
            job.restart_strategy, checkpointing=job.checkpoints.interval_ms is not None
        )
        self.execution_graph: ExecutionGraph = graphs.generate(
            job.job_graph, job_id=job.job_id, now_ms=_now_ms()
        )
        # Totals over the completed epochs of this run, by operator id: an epoch that failed is not in them.
        self.metrics: dict[str, dict[str, Any]] = {}
        self._first_epoch = True
        self._deadline: float | None = None

    # Running

    def run(self) -> None:
        """Run the job until it finishes, fails for good or is cancelled."""
        try:
            while True:
                try:
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
        except BaseException:
            self._set_status(JobStatus.FAILED)
            raise
        finally:
            self._runner.close()
            self._progress.close(self.status)
            self._clean_up()

    def _starting_point(self) -> Manifest | None:
        """Find where to start: this job's own latest checkpoint, else the one asked for, else nothing."""
        return self.store.latest() or self._foreign_start()

    def _foreign_start(self) -> Manifest | None:
        path = self.job.checkpoints.restore_path
        return None if path is None else resolve_restore_path(path).manifest

    def _restore(self) -> None:
        """Go back to the last checkpoint. What fails at the first start would fail again; later it may be storage."""
        try:
            self._runner.restore(self._starting_point())
        except EpochFailedError:
            raise
        except Exception as error:
            if self.restarts == 0:
                raise
            raise EpochFailedError("restoring failed", detail=str(error)) from error

    def _run_epochs(self) -> None:
        runner = self._runner
        self._first_epoch = True
        next_trigger = 0.0
        while not runner.finished:
            self._check_cancelled()
            self._wait_for(next_trigger)
            if not self._work_is_due():
                self._wake.wait(_POLL_S)
                continue
            started = time.time()
            next_trigger = started + self._interval_s() if self._interval_s() else 0.0
            self._deadline = None if self._runs_in_one_epoch() else started + self._interval_s()
            runner.run_epoch()
            self._first_epoch = False
            self._report(started)

    def _interval_s(self) -> float:
        interval = self.job.checkpoints.interval_ms
        return (self.job.epoch_interval_ms if interval is None else interval) / 1000

    def _runs_in_one_epoch(self) -> bool:
        """A bounded job reads all there is in one epoch unless it was asked to checkpoint."""
        return self.job.settings.batch_mode or (
            self.job.bounded and self.job.checkpoints.interval_ms is None
        )

    def _wait_for(self, trigger: float) -> None:
        """Wait for the next trigger; a bounded job that has more to read does not wait."""
        while (left := trigger - time.time()) > 0:
            if self.job.bounded and any(source.has_data() for source in self._runner.sources):
                return
            self._wake.wait(min(left, _POLL_S))
            self._check_cancelled()

    def _work_is_due(self) -> bool:
        for source in self._runner.sources:
            try:
                source.discover()
            except Exception as error:
                raise EpochFailedError("finding splits failed", detail=str(error)) from error
        if self._first_epoch or any(source.has_data() for source in self._runner.sources):
            return True
        wakeup = self._runner.next_wakeup()
        if wakeup is not None and wakeup <= time.time() * 1000:
            return True
        # All splits are read, and what is left is to tell the operators so.
        return all(source.no_more_splits for source in self._runner.sources)

    def _run_pipe(
        self,
        epoch: int,
        base: Manifest | None,
        assignments: dict[tuple[int, int], SourceAssignment],
    ) -> list[TaskAck]:
        job = self.job
        restore = self._restore_points(base)
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
                state_io=self._state_io,
                staging=self.store.staging,
            )
            for level in job.plan.levels
        ]
        return self._pipe.run(job.job_id, job.name, levels, slots)

    def _restore_points(self, base: Manifest | None) -> dict[tuple[int, int], SubtaskRestore]:
        """Return where each subtask starts from."""
        if base is None:
            return {}
        points = {}
        for vertex in self.job.plan.vertices:
            before = base.vertices.get(vertex.id)
            former = _former_subtasks(vertex, base)
            for subtask in range(vertex.parallelism):
                keyed: dict[str, tuple[Any, ...]] = {}
                owned = None
                for operator in vertex.operators:
                    snapshot = base.operators.get(operator.operator_id)
                    if snapshot is not None and snapshot.is_stateful:
                        chains: tuple[StateChain, ...] = snapshot.subtasks
                        if snapshot.parallelism == vertex.parallelism:
                            chains = (snapshot.subtasks[subtask],)
                        else:
                            owned = key_group_range(
                                subtask, vertex.parallelism, vertex.max_parallelism
                            )
                        keyed[operator.operator_id] = tuple(chain for chain in chains if chain)
                own = None
                if before is not None and before.parallelism == vertex.parallelism:
                    own = before.subtasks[subtask] if len(former) == 1 else None
                points[vertex.index, subtask] = SubtaskRestore(
                    # After a start, subtasks that an earlier run left in a worker may be another program's.
                    snapshot=own.attempt if own is not None and not self._first_epoch else None,
                    keyed=keyed,
                    owned=owned,
                    local=own.local if own is not None else None,
                    former=former,
                    anew=self._first_epoch,
                )
        return points

    # Failing and ending

    def _after_failure(self, error: EpochFailedError) -> None:
        self._check_cancelled()
        self._set_status(JobStatus.FAILING)
        decision = self._restart_strategy.on_failure(_now_ms())
        if isinstance(decision, GiveUp):
            raise explain_failure(self.job, error, decision.reason) from root_cause(error)
        self.restarts += 1
        self._set_status(JobStatus.RESTARTING)
        self._progress.on_restart(
            self.restarts, decision.delay_ms, explain_failure(self.job, error)
        )
        self._wait_until(time.time() + decision.delay_ms / 1000)

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

    def _wait_until(self, moment: float) -> None:
        while (left := moment - time.time()) > 0:
            self._wake.wait(min(left, _POLL_S))
            self._check_cancelled()

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
        elif self.status is JobStatus.FINISHED:
            self.store.delete_working_files()

    # Reporting

    def _set_status(self, status: JobStatus) -> None:
        self.status = status
        self.execution_graph = follow(self.execution_graph, status, _now_ms())

    def _on_step(self, step: str, epoch: int) -> None:
        for hook in self.step_hooks:
            hook(step, epoch)

    def _report(self, started: float) -> None:
        manifest = self._runner.manifest
        assert manifest is not None
        for ack in self._runner.last_acks:
            for operator, report in ack.metrics.items():
                self.metrics[operator] = merge(self.metrics.get(operator, {}), report)
        self._progress.on_epoch(
            EpochReport.of(self.job, manifest, self._runner.last_acks, time.time() - started)
        )


def _former_subtasks(vertex: StageVertex, base: Manifest) -> dict[str, tuple[bytes, ...]]:
    """Return the state besides keyed state of all subtasks that ran the vertex's operators, by vertex id.

    An operator may have been in another chain, so in another vertex.
    """
    ids = [operator.operator_id for operator in vertex.operators]
    homes = [vertex.id, *(base.operators[name].vertex for name in ids if name in base.operators)]
    return {
        home: tuple(s.local for s in base.vertices[home].subtasks if s.local is not None)
        for home in dict.fromkeys(homes)
        if home in base.vertices
    }


def _now_ms() -> int:
    return int(time.time() * 1000)
