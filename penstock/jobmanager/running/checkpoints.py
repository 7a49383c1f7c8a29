"""The checkpoints of one plan of a job: passes events to the pure coordinator and carries out its instructions.

Both modes use it: in epoch mode a checkpoint is a run of the pipe, in pipelined mode it is triggered in running tasks.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.handles import StateChain
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import CheckpointExistsError, ManifestStore
from penstock.checkpoint.messages import (
    AbortCheckpoint,
    Ack,
    Channel,
    CheckpointRestored,
    CommitFailed,
    CommitFinished,
    CommitSink,
    CoordinatorEvent,
    CoordinatorInstruction,
    DeleteCheckpoint,
    DeleteFiles,
    DeleteOrphans,
    FailExecution,
    ManifestFailed,
    ManifestWritten,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    PipeFinished,
    RestoreCheckpoint,
    RunPipe,
    TaskFailed,
    TriggerCheckpoint,
    TriggerSources,
    WriteManifest,
)
from penstock.checkpoint.retention import orphaned
from penstock.connectors.base.sink import CommitRequest, Committer
from penstock.connectors.base.source import SplitProgress
from penstock.errors import CheckpointError, FencedError, PenstockError
from penstock.graph.task_id import TaskId
from penstock.jobmanager.checkpointing.checkpoint_failures import CheckpointFailures
from penstock.jobmanager.checkpointing.checkpoint_statistics import CheckpointStatistics
from penstock.jobmanager.job import Job
from penstock.jobmanager.running.checkpoint_cleaner import CheckpointCleaner
from penstock.jobmanager.running.checkpoint_plan import (
    create_committer,
    create_committers,
    expected_channels,
    operator_plans,
)
from penstock.jobmanager.running.driver import ExecutionFailedError, Listener
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.operators.connectors.redelivery import REDELIVERED
from penstock.time import clock

_log = logging.getLogger(__name__)

StepHook = Callable[[str, int], None]
Outcome = NotifyCheckpointComplete | NotifyCheckpointAborted


class Checkpoints:
    """Takes checkpoints of one plan, completes them, and restores the last.

    `begin(number)` starts a checkpoint in the tasks. In epoch mode it runs the pipe to its end and calls `on_ack` meanwhile. In pipelined
    mode it sends the trigger to the sources, and `on_ack` is called as acknowledgements arrive. Each method returns the outcomes that it
    caused, so that the driver can notify the tasks. After an ExecutionFailedError `restore` must be called.

    `step_hooks` are called as `(step, number)` around every instruction (`before write_manifest`, `after write_manifest`, ...):
    tests interrupt the protocol there.
    """

    def __init__(
        self,
        job: Job,
        store: ManifestStore,
        begin: Callable[[int], None],
        listener: Listener | None = None,
        step_hooks: Sequence[StepHook] = (),
        *,
        pipelined: bool = False,
    ) -> None:
        self._job = job
        self._store = store
        self._begin = begin
        self._listener = listener
        self._statistics = CheckpointStatistics() if listener is None else listener.statistics
        self._step_hooks = step_hooks
        self._pipelined = pipelined
        self._what = "checkpoint" if pipelined else "epoch"  # in messages
        #: The first operator of each vertex; of a vertex with a source, that source
        self._heads = {each.id: each.operators[0].operator_id for each in job.plan.vertices}
        #: By operator id: exactly the sinks that commit
        self._committers: dict[str, Committer] = create_committers(job, pipelined=pipelined)
        self._operators = operator_plans(job, self._committers)
        #: By subtask: its keys are all subtasks of the plan, each of which acknowledges every checkpoint
        self._channels = expected_channels(job)
        #: Subtasks by vertex, for statistics
        self._parallelism = Counter(task.vertex for task in self._channels)
        self.coordinator = CheckpointCoordinator(
            job.job_id, job.name, retained=job.checkpoints.retained, pipelined=pipelined
        )
        #: One for each source of the plan, in the order of its vertices
        self.sources = [
            SourceCoordinator(operator_id, vertex, source, parallelism)
            for vertex, operator_id, source, parallelism in job.sources()
        ]
        #: The acknowledgements of the last completed checkpoint; empty until one completes
        self.acks: list[TaskAck] = []
        #: The acknowledgements of pending checkpoints, by number; those of others are ignored
        self._collected: dict[int, list[TaskAck]] = {}
        #: Outcomes that were not returned to the caller yet; empty between two calls
        self._outcomes: list[Outcome] = []
        #: What made the last instruction fail, until the coordinator has aborted the checkpoint for it
        self._cause: BaseException | None = None
        self._failures = CheckpointFailures(job.checkpoints.tolerable_failures)
        self._tidying = CheckpointCleaner(store)
        #: Whether the search for orphaned files waits because another driver may still write
        self._sweeps_later = False
        #: Whether the last completed checkpoint is the last of the job
        self.finished = False

    @property
    def manifest(self) -> Manifest | None:
        """The last completed checkpoint."""
        return self.coordinator.base

    @property
    def next_number(self) -> int:
        """The number of the next checkpoint."""
        return self.coordinator.next_checkpoint_id

    @property
    def pending(self) -> list[int]:
        """The numbers of the pending checkpoints, oldest first."""
        return self.coordinator.pending_checkpoint_ids

    @property
    def expected(self) -> frozenset[TaskId]:
        """The tasks that must acknowledge each checkpoint."""
        return frozenset(self._channels)

    # For the driver

    def restore(self, manifest: Manifest | None) -> None:
        """Restore a checkpoint: commit its output again, delete files of failed attempts, reset sources."""
        self._tidying.forget()
        self._collected.clear()
        retained = tuple(self._store.read_all())
        restored = None if manifest is None else manifest.checkpoint_id
        self._statistics.on_restore(restored, self._path_of(manifest), clock.now_ms())
        self._handle(RestoreCheckpoint(manifest, retained))
        # Files of the previous driver may still become part of its checkpoint, so they are kept until this driver completes one.
        self._sweeps_later = self._store.contested
        if not self._sweeps_later:
            self.sweep()
        for source in self.sources:
            self.restore_source(source, manifest)

    def restore_source(self, source: SourceCoordinator, manifest: Manifest | None) -> None:
        """Restore one source, whose tasks are restored too."""
        known = manifest.sources.get(source.operator_id) if manifest is not None else None
        foreign = manifest is not None and manifest.job_id != self._job.job_id
        source.restore(known, foreign=foreign)

    def trigger(self, *, flush: bool = False) -> list[Outcome]:
        """Trigger the next checkpoint; with `flush` the sinks commit all their output.

        The plan of the sources is fixed here: splits that are assigned later belong to the next checkpoint.
        """
        number = self.next_number
        self._collected[number] = []
        return self._handle(
            TriggerCheckpoint(
                checkpoint_id=number,
                operators=self._operators,
                expected=self.expected,
                now_ms=clock.now_ms(),
                sources={source.operator_id: source.plan() for source in self.sources},
                channels=self._channels,
                flush=flush,
            )
        )

    def on_ack(self, number: int, ack: TaskAck) -> list[Outcome]:
        """Process an acknowledgement; ignored if the checkpoint is not pending."""
        if number in self._collected:
            self._collected[number].append(ack)
            self._statistics.on_ack(number, ack, clock.now_ms())
            if self._listener is not None:
                self._listener.on_ack(number, ack)
        return self._handle(self._to_event(number, ack))

    def abort(
        self, number: int, why: str | CheckpointError, *, failed: bool = True
    ) -> list[Outcome]:
        """Abort a checkpoint in pipelined mode; no effect if it is not pending.

        If it has `failed` (it was declined, or it expired), and more in a row than the job tolerates, the job fails: ExecutionFailedError.
        """
        self._cause = why if isinstance(why, CheckpointError) else None
        return self._handle(AbortCheckpoint(number, str(why), failed=failed))

    def abort_all(self, reason: str) -> list[Outcome]:
        """Abort all pending checkpoints: some tasks are restored from the last completed one."""
        return [
            outcome
            for number in self.pending
            for outcome in self.abort(number, reason, failed=False)
        ]

    def sweep(self) -> None:
        """Delete files of failed attempts: state files, partial checkpoints, and uncommitted output of sinks.

        Only while no task runs: no checkpoint refers yet to the files of a running attempt.
        """
        self._store.check_lease()
        retained = self._store.read_all()
        self._tidying.delete(DeleteFiles(tuple(orphaned(self._store.list_state_files(), retained))))
        self._store.sweep_checkpoints()
        for plan in self._operators:
            if plan.committer:
                requests = [
                    manifest.load_commit(plan.operator)
                    for manifest in retained
                    if plan.operator in manifest.commits
                ]
                self._store.check_lease()
                self._committer(plan.operator).clean_up(requests, self._job.job_id)

    def abandon(self, tasks: Collection[TaskId]) -> None:
        """Abort the output of sinks in some tasks since the last checkpoint: only these tasks are restored from it."""
        for plan in self._operators:
            subtasks = {task.subtask for task in tasks if task.vertex == plan.vertex}
            if plan.committer and subtasks:
                self._committer(plan.operator).abandon(subtasks, self._job.job_id)

    def commit_wakeup(self) -> int | None:
        """Return when (epoch milliseconds) a checkpoint is due because sinks have output to commit."""
        wakeups = [
            self._committer(operator).next_wakeup(pending)
            for operator, pending in self.coordinator.returned.items()
            if pending is not None
        ]
        return min((wakeup for wakeup in wakeups if wakeup is not None), default=None)

    def close(self) -> None:
        """Close enumerators and committers. A failure to close one affects neither the others nor the job."""
        committers, self._committers = self._committers, {}
        users: list[SourceCoordinator | Committer] = [*self.sources, *committers.values()]
        for each in users:
            try:
                each.close()
            except Exception:  # noqa: BLE001 - users' code may raise anything
                _log.warning("closing %s failed", type(each).__name__, exc_info=True)

    # Events in, instructions out

    def _handle(self, event: CoordinatorEvent) -> list[Outcome]:
        events: deque[CoordinatorEvent] = deque([event])
        while events:
            for instruction in self.coordinator.handle(events.popleft()):
                events.extend(self._carry_out(instruction))
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _carry_out(self, instruction: CoordinatorInstruction) -> list[CoordinatorEvent]:
        match instruction:
            case RunPipe(checkpoint_id):
                return self._step("run_pipe", checkpoint_id, lambda: self._run_pipe(checkpoint_id))
            case TriggerSources(checkpoint_id):
                return self._step("trigger", checkpoint_id, lambda: self._start(checkpoint_id))
            case WriteManifest(manifest):
                return self._step(
                    "write_manifest", manifest.checkpoint_id, lambda: self._write(manifest)
                )
            case CommitSink(operator, request):
                return self._step(
                    "commit_sink", request.checkpoint_id, lambda: self._commit(operator, request)
                )
            case DeleteCheckpoint(checkpoint_id):
                return self._step(
                    "delete_checkpoint", checkpoint_id, lambda: self._tidying.delete(instruction)
                )
            case DeleteFiles() | DeleteOrphans():
                assert self.manifest is not None
                return self._step(
                    "delete_files",
                    self.manifest.checkpoint_id,
                    lambda: self._tidying.delete(instruction),
                )
            case NotifyCheckpointComplete():
                self._completed(instruction)
            case NotifyCheckpointAborted():
                self._aborted(instruction)
            case CheckpointRestored(_, final):
                self.finished = final
            case FailExecution(checkpoint_id, reason, _):
                cause, self._cause = self._cause, None
                self._statistics.on_fail(checkpoint_id, reason, clock.now_ms())
                raise ExecutionFailedError(
                    f"{self._what} {checkpoint_id} failed", detail=reason
                ) from cause
            case _:
                raise CheckpointError(f"unknown instruction {type(instruction).__name__}")
        return []

    def _step(
        self, name: str, checkpoint_id: int, action: Callable[[], list[CoordinatorEvent] | None]
    ) -> list[CoordinatorEvent]:
        try:
            for hook in self._step_hooks:
                hook(f"before {name}", checkpoint_id)
            events = action()
            for hook in self._step_hooks:
                hook(f"after {name}", checkpoint_id)
        except Exception as error:  # the restart strategy decides about any error
            raise ExecutionFailedError(
                f"{self._what} {checkpoint_id} failed",
                detail=f"{name}: {type(error).__name__}: {error}",
            ) from error
        return events or []

    def _run_pipe(self, checkpoint_id: int) -> list[CoordinatorEvent]:
        return self._start(checkpoint_id) or [PipeFinished(checkpoint_id, clock.now_ms())]

    def _start(self, checkpoint_id: int) -> list[CoordinatorEvent]:
        try:
            self._store.check_lease()  # a fenced driver must not start a checkpoint
            self._statistics.on_trigger(checkpoint_id, self._parallelism, clock.now_ms())
            if self._listener is not None:
                self._listener.on_trigger(checkpoint_id)
            self._begin(checkpoint_id)
        except Exception as error:  # noqa: BLE001 - any error fails the checkpoint
            self._cause = error
            return [TaskFailed(checkpoint_id, str(error))]
        return []

    def _write(self, manifest: Manifest) -> list[CoordinatorEvent]:
        try:
            self._store.write(manifest)
        except PenstockError as error:
            self._cause = error
            fatal = isinstance(error, FencedError | CheckpointExistsError)
            return [ManifestFailed(manifest.checkpoint_id, str(error), fatal=fatal)]
        return [ManifestWritten(manifest.checkpoint_id)]

    def _commit(self, operator: str, request: CommitRequest) -> list[CoordinatorEvent]:
        try:
            self._store.check_lease()
            pending = self._committer(operator).commit(request)
        except Exception as error:  # noqa: BLE001 - the user's committer may raise anything
            self._cause = error
            return [
                CommitFailed(operator, request.checkpoint_id, f"{type(error).__name__}: {error}")
            ]
        return [CommitFinished(operator, request.checkpoint_id, pending)]

    def _completed(self, outcome: NotifyCheckpointComplete) -> None:
        self.finished = outcome.final
        self._failures.on_success()
        self._statistics.on_complete(
            outcome.checkpoint_id, self._path_of(self.manifest), clock.now_ms()
        )
        self.acks = self._collected.pop(outcome.checkpoint_id, [])
        for source in self.sources:
            self._advance(source)
        self._sweep_if_due()
        self._outcomes.append(outcome)

    def _advance(self, source: SourceCoordinator) -> None:
        durable: list[SplitProgress] = []
        for ack in self.acks:
            if source.vertex == ack.task.vertex and ack.progress is not None:
                counted = ack.metrics.get(source.operator_id, {})
                _, redelivered = counted.get(REDELIVERED, ("counter", 0))
                source.advance(ack.task.subtask, ack.progress, redelivered)
                durable += ack.progress
        source.on_checkpoint(durable)

    def _aborted(self, outcome: NotifyCheckpointAborted) -> None:
        self._collected.pop(outcome.checkpoint_id, None)
        self._statistics.on_fail(outcome.checkpoint_id, outcome.reason, clock.now_ms())
        self._outcomes.append(outcome)
        cause, self._cause = self._cause, None
        if not outcome.failed:
            return
        failure = CheckpointError(
            f"checkpoint {outcome.checkpoint_id} failed", detail=outcome.reason
        )
        failure.__cause__ = cause
        if self._failures.tolerates(failure):
            _log.warning(
                "checkpoint %d failed, the job continues: %s", outcome.checkpoint_id, outcome.reason
            )
            return
        raise ExecutionFailedError(failure.message, detail=outcome.reason) from (cause or failure)

    def _sweep_if_due(self) -> None:
        # In pipelined mode tasks run now, and no checkpoint refers yet to their files. They are deleted at the end of the job.
        if self._pipelined or not self._sweeps_later or self._store.contested:
            return
        self._sweeps_later = False
        try:
            self.sweep()
        except FencedError as error:
            raise ExecutionFailedError(error.message, detail=error.detail) from error
        except Exception:  # noqa: BLE001 - leftover files are harmless
            _log.warning("files of failed attempts could not be deleted", exc_info=True)

    def _to_event(self, number: int, ack: TaskAck) -> Ack:
        states: dict[str, StateChain] = ack.keyed
        return Ack(
            checkpoint_id=number,
            task=ack.task,
            attempt=ack.attempt,
            upstream=tuple(Channel(task, token) for task, token in ack.upstream.items()),
            states=states,
            local=ack.local,
            in_flight=ack.in_flight,
            committables={name: tuple(items) for name, items in ack.committables.items()},
            carried={
                checkpoint_id: {name: tuple(items) for name, items in by_name.items()}
                for checkpoint_id, by_name in ack.carried.items()
            },
            splits={}
            if ack.progress is None
            else {self._heads[ack.task.vertex]: tuple(ack.progress)},
            watermark=ack.watermark,
            next_wakeup=ack.next_wakeup,
            finished=ack.finished,
            sink_times=ack.sink_times,
            now_ms=clock.now_ms(),
        )

    def _path_of(self, manifest: Manifest | None) -> str | None:
        if manifest is None or self._job.checkpoints.temporary:
            return None
        return self._store.storage.path(f"chk-{manifest.checkpoint_id}")

    def _committer(self, operator: str) -> Committer:
        committer = self._committers.get(operator)
        if committer is None:
            created = create_committer(self._job, operator, pipelined=self._pipelined)
            if created is None:
                raise CheckpointError(
                    f"the checkpoint has uncommitted output of sink '{operator}', but the job has no such sink",
                    hint="give the sink the uid that it had when the checkpoint was taken",
                )
            committer = self._committers[operator] = created
        return committer
