"""The checkpoint coordinator: the epoch protocol as a pure core.

`handle(event)` returns instructions; whoever calls it carries them out, in order, and reports back with events. There is
no I/O and no clock in here. The order that exactly-once rests on:

    pipe -> all acks, each once, all of the same attempts -> manifest durable -> sinks commit -> retention

After a failure, whatever it was, the way on is a Restore event with the manifest that storage has: its commits are
done again first (they are idempotent), then the next epoch may start.
"""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.messages import (
    Ack,
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
    PipeFinished,
    Restore,
    Restored,
    RunPipe,
    StartEpoch,
    TaskFailed,
    WriteManifest,
)
from penstock.checkpoint.pending_checkpoint import MAX_PROBLEMS, PendingCheckpoint
from penstock.checkpoint.retention import CompletedCheckpoint, retain
from penstock.connectors.sink import CommitRequest
from penstock.errors import ArgumentError, CheckpointError
from penstock.files.paths import is_absolute


class Phase(enum.Enum):
    """Where the coordinator stands.

    IDLE -> RUNNING -> WRITING -> COMMITTING -> IDLE or FINISHED; any -> FAILED; any -> RESTORING -> IDLE or FINISHED
    """

    IDLE = "idle"  # the next epoch may start
    RUNNING = "running"  # the pipe runs, acks come in
    WRITING = "writing"  # the manifest is being written
    COMMITTING = "committing"  # the manifest is durable, sinks commit
    RESTORING = "restoring"  # a manifest was restored, its sinks commit again
    FAILED = "failed"  # only Restore helps
    FINISHED = "finished"  # the last epoch of the job is complete


class CheckpointCoordinator:
    """Decides what happens to the checkpoints of one job; keeps the last `retained` of them."""

    def __init__(self, job_id: str, job_name: str, *, retained: int = 1) -> None:
        if retained < 1:
            raise ArgumentError(
                f"{retained} checkpoints cannot be retained",
                hint="set execution.checkpointing.num-retained to 1 or more",
            )
        self.job_id = job_id
        self.job_name = job_name
        self._retained = retained
        self.phase = Phase.IDLE
        # The manifest in force: durable, and in phases IDLE, RUNNING, WRITING and FINISHED all its commits are done.
        # None until the first epoch completes.
        self.base: Manifest | None = None
        # Set exactly in phases RUNNING and WRITING; its epoch is that of the base + 1.
        self._pending: PendingCheckpoint | None = None
        # Built when the acks are complete; set exactly in phase WRITING. Nobody but storage knows whether it is durable.
        self._written: Manifest | None = None
        # What the sinks get once the manifest is durable; set exactly in phase WRITING.
        self._requests: dict[str, CommitRequest] = {}
        # Sinks whose commit is not reported yet; non-empty exactly in phases COMMITTING and RESTORING.
        self._uncommitted: set[str] = set()
        # What committers returned for the base's epoch, by sink; complete when _uncommitted is empty.
        self._returned: dict[str, Any] = {}
        # Durable checkpoints in this job's directory, oldest first; the base is the last, unless another job wrote it.
        # Never names a checkpoint whose deletion was asked for.
        self._completed: list[CompletedCheckpoint] = []
        # Epochs whose checkpoints are being read by somebody else, and how often: retention spares them.
        self._pinned: Counter[int] = Counter()
        # The last events and phases, for errors.
        self._story: deque[str] = deque(maxlen=20)
        self._handlers: dict[type[Event], Callable[[Any], list[Instruction]]] = {
            StartEpoch: self._start_epoch,
            Ack: self._ack,
            TaskFailed: self._task_failed,
            PipeFinished: self._pipe_finished,
            ManifestWritten: self._manifest_written,
            ManifestFailed: self._manifest_failed,
            CommitFinished: self._commit_finished,
            CommitFailed: self._commit_failed,
            Restore: self._restore,
        }

    @property
    def next_epoch(self) -> int:
        """The number of the epoch that may start next, or is running."""
        return self._base_epoch + 1

    @property
    def returned(self) -> dict[str, Any]:
        """What committers keep back for a later epoch, by sink."""
        return dict(self._returned)

    @property
    def completed_epochs(self) -> list[int]:
        """The epochs in this job's directory that are retained, oldest first."""
        return [checkpoint.epoch for checkpoint in self._completed]

    def pin(self, epoch: int) -> None:
        """Keep a checkpoint until it is unpinned, whatever else is retained."""
        self._pinned[epoch] += 1

    def unpin(self, epoch: int) -> None:
        """Undo one `pin`; the next retention may delete the checkpoint."""
        self._pinned[epoch] -= 1
        if not self._pinned[epoch]:
            del self._pinned[epoch]

    def handle(self, event: Event) -> list[Instruction]:
        """Take an event and return what is to be done, in order."""
        handler = self._handlers.get(type(event))
        if handler is None:
            raise ArgumentError(f"the checkpoint coordinator knows no event {type(event).__name__}")
        before = self.phase
        instructions = handler(event)
        epoch = getattr(event, "epoch", None)
        label = type(event).__name__ + ("" if epoch is None else f"({epoch})")
        self._story.append(f"{label}: {before.value} -> {self.phase.value}")
        return instructions

    @property
    def _base_epoch(self) -> int:
        return 0 if self.base is None else self.base.epoch

    def _start_epoch(self, event: StartEpoch) -> list[Instruction]:
        if self.phase is not Phase.IDLE or event.epoch != self.next_epoch:
            raise self._out_of_order(event)
        self._pending = PendingCheckpoint(event, self.base, self._returned)
        self.phase = Phase.RUNNING
        return [RunPipe(event.epoch)]

    def _ack(self, event: Ack) -> list[Instruction]:
        # Acks, failures and ends of a pipe that was given up may still come in: they mean nothing.
        if self._is_running(event.epoch):
            assert self._pending is not None
            self._pending.add(event)
        return []

    def _task_failed(self, event: TaskFailed) -> list[Instruction]:
        if not self._is_running(event.epoch):
            return []
        where = "" if event.task is None else f"{event.task}: "
        return self._fail(event.epoch, where + event.reason)

    def _pipe_finished(self, event: PipeFinished) -> list[Instruction]:
        if not self._is_running(event.epoch):
            return []
        assert self._pending is not None
        problems = self._pending.problems()
        if problems:
            more = len(problems) - MAX_PROBLEMS
            shown = problems[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
            return self._fail(event.epoch, "; ".join(shown))
        requests = self._pending.commit_requests(event.now_ms)
        try:
            manifest = self._pending.to_manifest(self.job_id, self.job_name, event.now_ms, requests)
        except CheckpointError as error:  # something does not pickle
            return self._fail(event.epoch, str(error))
        self._requests = requests
        self._written = manifest
        self.phase = Phase.WRITING
        return [WriteManifest(manifest)]

    def _manifest_written(self, event: ManifestWritten) -> list[Instruction]:
        if self.phase is Phase.FAILED:
            return []
        if self.phase is not Phase.WRITING or event.epoch != self.next_epoch:
            raise self._out_of_order(event)
        manifest, requests = self._written, self._requests
        assert manifest is not None
        self._leave_epoch()
        self.base = manifest
        self._completed.append(CompletedCheckpoint.of(manifest))
        return self._commit(requests, Phase.COMMITTING)

    def _manifest_failed(self, event: ManifestFailed) -> list[Instruction]:
        if self.phase is not Phase.WRITING or event.epoch != self.next_epoch:
            return []
        return self._fail(event.epoch, f"the manifest could not be written: {event.reason}")

    def _commit_finished(self, event: CommitFinished) -> list[Instruction]:
        if self.phase is Phase.FAILED:
            return []
        if event.operator not in self._uncommitted or event.epoch != self._base_epoch:
            raise self._out_of_order(event)
        self._returned[event.operator] = event.pending
        self._uncommitted.discard(event.operator)
        return [] if self._uncommitted else self._commits_done()

    def _commit_failed(self, event: CommitFailed) -> list[Instruction]:
        if event.operator not in self._uncommitted or event.epoch != self._base_epoch:
            return []
        reason = f"sink '{event.operator}' could not commit: {event.reason}"
        return self._fail(event.epoch, reason, durable=True)

    def _restore(self, event: Restore) -> list[Instruction]:
        manifest = event.manifest
        own = {checkpoint.epoch: checkpoint for checkpoint in event.retained}
        if manifest is not None and manifest.job_id == self.job_id:
            own.setdefault(manifest.epoch, manifest)
        self._check_restore(manifest, own)
        requests = (
            {} if manifest is None else {n: manifest.load_commit(n) for n in manifest.commits}
        )
        self._leave_epoch()
        self.base = manifest
        self._completed = [CompletedCheckpoint.of(own[epoch]) for epoch in sorted(own)]
        return self._commit(requests, Phase.RESTORING)

    def _check_restore(self, manifest: Manifest | None, own: dict[int, Manifest]) -> None:
        newest = max(own, default=0)
        if newest > (0 if manifest is None else manifest.epoch):
            raise CheckpointError(
                f"job {self.job_id} has checkpoint {newest} and cannot go back before it",
                hint="start from the older checkpoint under a new job id",
            )
        if manifest is not None and manifest.job_id != self.job_id:
            names = [name for name in manifest.files() if not is_absolute(name)]
            if names:
                raise ArgumentError(
                    f"the manifest of job {manifest.job_id} names '{names[0]}' without its directory",
                    hint="restore Manifest.relocated(directory)",
                )

    def _commit(self, requests: dict[str, CommitRequest], phase: Phase) -> list[Instruction]:
        """Let the sinks of the base commit, now that it is durable."""
        self.phase = phase
        self._returned = {}
        self._uncommitted = set(requests)
        if not requests:
            return self._commits_done()
        return [CommitSink(operator, requests[operator]) for operator in requests]

    def _commits_done(self) -> list[Instruction]:
        final = self.base is not None and self.base.final
        outcome: Instruction = EpochCompleted(self._base_epoch, final)
        if self.phase is Phase.RESTORING:
            outcome = Restored(self._base_epoch, final)
        self.phase = Phase.FINISHED if final else Phase.IDLE
        return [*self._retention(), outcome]

    def _retention(self) -> list[Instruction]:
        decision = retain(self._completed, self._retained, set(self._pinned))
        self._completed = list(decision.kept)
        instructions: list[Instruction] = [DeleteCheckpoint(epoch) for epoch in decision.dropped]
        if decision.files:
            instructions.append(DeleteFiles(decision.files))
        return instructions

    def _fail(self, epoch: int, reason: str, *, durable: bool = False) -> list[Instruction]:
        self._leave_epoch()
        self._uncommitted = set()
        self.phase = Phase.FAILED
        return [FailEpoch(epoch, reason, durable=durable)]

    def _leave_epoch(self) -> None:
        self._pending = None
        self._written = None
        self._requests = {}

    def _is_running(self, epoch: int) -> bool:
        return self.phase is Phase.RUNNING and epoch == self.next_epoch

    def _out_of_order(self, event: Event) -> CheckpointError:
        return CheckpointError(
            f"{type(event).__name__} does not belong here: the coordinator is {self.phase.value}, "
            f"the next epoch is {self.next_epoch}",
            detail="; ".join(self._story) or "nothing happened before",
            hint="this is an error in Penstock: please report it with the detail above",
        )
