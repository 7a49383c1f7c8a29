"""Carries out the checkpoint coordinator's instructions for one plan of a job: pipe, manifest, commits, clean-up."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.handles import StateChain
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.messages import (
    Ack,
    Channel,
    CommitFailed,
    CommitFinished,
    CommitSink,
    DeleteCheckpoint,
    DeleteFiles,
    EpochCompleted,
    Event,
    FailEpoch,
    Instruction,
    ManifestFailed,
    ManifestWritten,
    OperatorPlan,
    PipeFinished,
    Restore,
    Restored,
    RunPipe,
    StartEpoch,
    TaskFailed,
    WriteManifest,
)
from penstock.checkpoint.retention import orphaned
from penstock.common import clock
from penstock.connectors.sink import Committer
from penstock.connectors.source import SourceAssignment
from penstock.errors import CheckpointError, FencedError, PenstockError
from penstock.graph.task_id import TaskId
from penstock.jobmanager.job import Job
from penstock.jobmanager.running.driver import EpochFailedError, Listener
from penstock.jobmanager.running.epochs.pipe import EpochSettings, OnAck
from penstock.jobmanager.sources import SourceCoordinator
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.network.routing import connected_sources
from penstock.runtime.operators.redelivery import REDELIVERED

_log = logging.getLogger(__name__)

StepHook = Callable[[str, int], None]


class RunsEpochs(Protocol):
    """What runs the tasks of an epoch: an EpochPipe."""

    def run(
        self,
        epoch: int,
        base: Manifest | None,
        assignments: Mapping[TaskId, SourceAssignment],
        settings: EpochSettings,
        on_ack: OnAck,
    ) -> None:
        """Run an epoch; raises what it failed with."""


class EpochRunner:
    """Runs epochs one after another: events into the pure coordinator, its instructions into the world.

    `step_hooks` are called as `(step, epoch)` around every instruction (`before write_manifest`, `after write_manifest`, ...):
    tests interrupt the protocol there.
    """

    def __init__(
        self,
        job: Job,
        store: ManifestStore,
        pipe: RunsEpochs,
        listener: Listener | None = None,
        step_hooks: Sequence[StepHook] = (),
    ) -> None:
        self._job = job
        self._store = store
        self._pipe = pipe
        self._listener = listener
        self._step_hooks = step_hooks
        # By vertex: a source is the head of its chain.
        self._heads = {each.id: each.operators[0].operator_id for each in job.plan.vertices}
        self._committers: dict[str, Committer] = _create_committers(job)
        self._operators = _operator_plans(job, self._committers)
        self._channels = _expected_channels(job)
        self.coordinator = CheckpointCoordinator(
            job.job_id, job.name, retained=job.checkpoints.retained
        )
        self.sources = [
            SourceCoordinator(operator_id, vertex, source, parallelism)
            for vertex, operator_id, source, parallelism in job.sources()
        ]
        self._acks: list[TaskAck] = []
        self._cause: BaseException | None = None
        # What retention could not delete yet, in the order in which it may be deleted.
        self._undeleted: deque[DeleteCheckpoint | DeleteFiles] = deque()
        self._sweeps_later = False
        self._settings = EpochSettings()  # of the epoch under way
        self._drain = False  # whether the epoch under way is the one that drains the job
        self.finished = False

    @property
    def manifest(self) -> Manifest | None:
        """The last completed checkpoint."""
        return self.coordinator.base

    @property
    def last_acks(self) -> list[TaskAck]:
        """The ACKs of the last epoch that ran."""
        return self._acks

    def restore(self, manifest: Manifest | None) -> None:
        """Go back to a checkpoint: commit its output again, delete what failed attempts left, rewind sources."""
        self._undeleted.clear()
        retained = tuple(self._store.read_all())
        self._handle(Restore(manifest, retained))
        # What the driver before this one left may yet become its checkpoint: then it stays until there is one of this driver's.
        self._sweeps_later = self._store.contested
        if not self._sweeps_later:
            self.sweep()
        for source in self.sources:
            known = manifest.sources.get(source.operator_id) if manifest is not None else None
            foreign = manifest is not None and manifest.job_id != self._job.job_id
            source.restore(known, foreign=foreign)

    def sweep(self) -> None:
        """Delete what failed attempts left: state files, parts of checkpoints, and sinks' output that was never committed.

        Only between epochs: what a running attempt has written, no checkpoint names yet.
        """
        self._store.check_lease()
        retained = self._store.read_all()
        self._tidy(DeleteFiles(tuple(orphaned(self._store.list_state_files(), retained))))
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

    def next_wakeup(self) -> int | None:
        """Return when (epoch milliseconds) an epoch is due even if no record comes: for timers, idleness, sinks."""
        manifest = self.coordinator.base
        wakeups = [] if manifest is None else [manifest.next_wakeup]
        wakeups += [
            self._committer(operator).next_wakeup(pending)
            for operator, pending in self.coordinator.returned.items()
            if pending is not None
        ]
        return min((wakeup for wakeup in wakeups if wakeup is not None), default=None)

    def run_epoch(
        self, settings: EpochSettings | None = None, *, flush: bool = False, drain: bool = False
    ) -> None:
        """Run the next epoch to its end; raises EpochFailedError.

        With `flush` the sinks publish all they have. With `drain` the sources read nothing more and time goes to its end.
        """
        now = clock.now_ms()
        self._settings = settings or EpochSettings()
        self._drain = drain
        self._handle(
            StartEpoch(
                epoch=self.coordinator.next_epoch,
                operators=self._operators,
                expected=frozenset(self._channels),
                now_ms=now,
                sources={source.operator_id: source.plan() for source in self.sources},
                channels=self._channels,
                flush=flush,
            )
        )
        for ack in self._acks:
            for source in self.sources:
                if source.vertex == ack.task.vertex and ack.progress is not None:
                    counted = ack.metrics.get(source.operator_id, {})
                    _, redelivered = counted.get(REDELIVERED, ("counter", 0))
                    source.advance(ack.task.subtask, ack.progress, redelivered)
        self._sweep_if_due()

    def close(self) -> None:
        """Release enumerators and committers. One that fails to close does no harm to the others, nor to the job."""
        committers, self._committers = self._committers, {}
        users: list[SourceCoordinator | Committer] = [*self.sources, *committers.values()]
        for each in users:
            try:
                each.close()
            except Exception:  # noqa: BLE001 - users' code may raise anything
                _log.warning("%s could not be closed", type(each).__name__, exc_info=True)

    def _handle(self, event: Event) -> None:
        events: deque[Event] = deque([event])
        while events:
            for instruction in self.coordinator.handle(events.popleft()):
                events.extend(self._carry_out(instruction))

    def _carry_out(self, instruction: Instruction) -> list[Event]:
        match instruction:
            case RunPipe(epoch):
                return self._step("run_pipe", epoch, lambda: self._run_pipe(epoch))
            case WriteManifest(manifest):
                return self._step("write_manifest", manifest.epoch, lambda: self._write(manifest))
            case CommitSink(operator, request):
                return self._step(
                    "commit_sink", request.epoch, lambda: self._commit(operator, request)
                )
            case DeleteCheckpoint(epoch):
                return self._step("delete_checkpoint", epoch, lambda: self._tidy(instruction))
            case DeleteFiles():
                epoch = self.coordinator.next_epoch - 1
                return self._step("delete_files", epoch, lambda: self._tidy(instruction))
            case EpochCompleted(_, final) | Restored(_, final):
                self.finished = final
                return []
            case FailEpoch(epoch, reason, _):
                cause, self._cause = self._cause, None
                raise EpochFailedError(f"epoch {epoch} failed", detail=reason) from cause
            case _:
                raise CheckpointError(f"unknown instruction {type(instruction).__name__}")

    def _step(self, name: str, epoch: int, action: Callable[[], list[Event] | None]) -> list[Event]:
        try:
            for hook in self._step_hooks:
                hook(f"before {name}", epoch)
            events = action()
            for hook in self._step_hooks:
                hook(f"after {name}", epoch)
        except Exception as error:  # whatever it was, the restart strategy decides
            raise EpochFailedError(
                f"epoch {epoch} failed", detail=f"{name}: {type(error).__name__}: {error}"
            ) from error
        return events or []

    def _run_pipe(self, epoch: int) -> list[Event]:
        self._acks = []
        assignments: dict[TaskId, SourceAssignment] = {}
        for source in self.sources:
            assignments |= source.assignments(drain=self._drain)
        try:
            self._store.check_lease()  # an epoch of a driver that has lost its job is work for nothing
            if self._listener is not None:
                self._listener.on_trigger(epoch)
                self._listener.on_deploy()
            base = self.coordinator.base
            self._pipe.run(epoch, base, assignments, self._settings, self._on_ack)
        except Exception as error:  # noqa: BLE001 - whatever it was, the epoch has failed
            self._cause = error
            return [TaskFailed(epoch, str(error))]
        return [PipeFinished(epoch, clock.now_ms())]

    def _on_ack(self, ack: TaskAck) -> None:
        epoch = self.coordinator.next_epoch
        self._acks.append(ack)
        self._handle(self._to_event(epoch, ack))
        if self._listener is not None:
            self._listener.on_ack(epoch, ack)

    def _tidy(self, instruction: DeleteCheckpoint | DeleteFiles) -> None:
        """Delete what is needed no more. The epoch is complete: storage that cannot delete is no reason to repeat it."""
        self._undeleted.append(instruction)
        try:
            while self._undeleted:
                match self._undeleted[0]:
                    case DeleteCheckpoint(epoch):
                        self._store.delete(epoch)
                    case DeleteFiles(names):
                        self._store.delete_files(names)
                self._undeleted.popleft()
        except FencedError:
            raise
        except CheckpointError as error:
            _log.warning("%s; it is tried again after the next epoch", error.message)

    def _sweep_if_due(self) -> None:
        if not self._sweeps_later or self._store.contested:
            return
        self._sweeps_later = False
        try:
            self.sweep()
        except FencedError as error:
            raise EpochFailedError(error.message, detail=error.detail) from error
        except Exception:  # noqa: BLE001 - surplus files are no reason to fail
            _log.warning("files of failed attempts could not be deleted", exc_info=True)

    def _to_event(self, epoch: int, ack: TaskAck) -> Ack:
        states: dict[str, StateChain] = ack.keyed
        return Ack(
            epoch=epoch,
            task=ack.task,
            attempt=ack.attempt,
            upstream=tuple(Channel(task, token) for task, token in ack.upstream.items()),
            states=states,
            local=ack.local,
            in_flight=ack.in_flight,
            committables={name: tuple(items) for name, items in ack.committables.items()},
            splits={}
            if ack.progress is None
            else {self._heads[ack.task.vertex]: tuple(ack.progress)},
            watermark=ack.watermark,
            next_wakeup=ack.next_wakeup,
            finished=ack.finished,
        )

    def _write(self, manifest: Manifest) -> list[Event]:
        try:
            self._store.write(manifest)
        except PenstockError as error:
            self._cause = error
            return [ManifestFailed(manifest.epoch, str(error))]
        return [ManifestWritten(manifest.epoch)]

    def _commit(self, operator: str, request: Any) -> list[Event]:
        try:
            self._store.check_lease()
            pending = self._committer(operator).commit(request)
        except Exception as error:  # noqa: BLE001 - the user's committer may raise anything
            self._cause = error
            return [CommitFailed(operator, request.epoch, f"{type(error).__name__}: {error}")]
        return [CommitFinished(operator, request.epoch, pending)]

    def _committer(self, operator: str) -> Committer:
        committer = self._committers.get(operator)
        if committer is None:
            sink = self._job.sinks().get(operator)
            created = sink.create_committer() if sink is not None else None
            if created is None:
                raise CheckpointError(
                    f"the checkpoint has output of sink '{operator}' to commit, and the job has no such sink",
                    hint="give the sink the uid it had when the checkpoint was taken",
                )
            committer = self._committers[operator] = created
        return committer


def _create_committers(job: Job) -> dict[str, Committer]:
    created = {name: sink.create_committer() for name, sink in job.sinks().items()}
    return {name: committer for name, committer in created.items() if committer is not None}


def _operator_plans(job: Job, committers: Mapping[str, Committer]) -> tuple[OperatorPlan, ...]:
    return tuple(
        OperatorPlan(
            operator=operator.operator_id,
            name=operator.name,
            vertex=vertex.id,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            uid=operator.uid,
            committer=operator.operator_id in committers,
        )
        for vertex in job.plan.vertices
        for operator in vertex.operators
    )


def _expected_channels(job: Job) -> dict[TaskId, frozenset[TaskId]]:
    """Return, for every task of the plan, the tasks that it must hear from."""
    vertices = job.plan.vertices
    channels: dict[TaskId, frozenset[TaskId]] = {}
    for vertex in vertices:
        for subtask in range(vertex.parallelism):
            channels[TaskId(vertex.id, subtask)] = frozenset(
                TaskId(vertices[gate.source_vertex].id, source)
                for gate in vertex.inputs
                for source in connected_sources(
                    gate.partitioning.NAME, subtask, gate.source_parallelism, vertex.parallelism
                )
            )
    return channels
