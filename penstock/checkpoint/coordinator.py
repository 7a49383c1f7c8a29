"""The checkpoint coordinator: the checkpoint protocol as a pure state machine.

`handle(event)` returns instructions; the caller carries them out in order and reports back with events. There is no I/O
and no
clock in here. Exactly-once depends on this order:

    all acks, each once, all from the same attempts -> manifest durable -> sinks commit -> retention -> completed

There are two modes. In *epoch mode* each checkpoint is one run of the pipe: one at a time, complete when the pipe has
finished,
and any error fails the epoch. In *pipelined mode* several checkpoints may be pending. One is complete with its last ack,
which
subsumes older pending ones; one that fails is aborted while the job continues running. The id of an aborted checkpoint is
not
reused before the next restore. Its tasks hand over its committables again with the next checkpoint, and later checkpoints
may
refer to state that was written for it.

After any failure, recovery is a Restore event with the manifest found on storage: its commits are repeated first (they are
idempotent), then the next checkpoint may begin.
"""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.messages import (
    AbortEpoch,
    Ack,
    CommitFailed,
    CommitFinished,
    CommitSink,
    DeleteCheckpoint,
    DeleteFiles,
    DeleteOrphans,
    EpochAborted,
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
    TriggerSources,
    WriteManifest,
)
from penstock.checkpoint.pending_checkpoint import MAX_PROBLEMS, PendingCheckpoint
from penstock.checkpoint.retention import CompletedCheckpoint, retain
from penstock.connectors.sink import CommitRequest
from penstock.errors import ArgumentError, CheckpointError
from penstock.files.paths import is_absolute


class Phase(enum.Enum):
    """The state of the coordinator.

    IDLE -> RUNNING -> WRITING -> COMMITTING -> IDLE, RUNNING or FINISHED; any -> FAILED;
    any -> RESTORING -> IDLE or FINISHED
    """

    IDLE = "idle"  # the next checkpoint may begin
    RUNNING = (
        "running"  # at least one is pending, acks arrive; in pipelined mode the next may begin
    )
    WRITING = "writing"  # a manifest is being written; others may be pending
    COMMITTING = "committing"  # a manifest is durable, sinks commit; others may be pending
    RESTORING = "restoring"  # a manifest was restored, its sinks commit again
    FAILED = "failed"  # only Restore is accepted
    FINISHED = "finished"  # the last checkpoint of the job is complete


_MAY_OVERLAP = frozenset({Phase.RUNNING, Phase.WRITING, Phase.COMMITTING})


class CheckpointCoordinator:
    """Decides what happens to the checkpoints of one job; retains the last `retained` of them.

    `tasks_stay`: pipelined mode, in which checkpoints are triggered in running tasks and several may be pending.
    """

    def __init__(
        self, job_id: str, job_name: str, *, retained: int = 1, tasks_stay: bool = False
    ) -> None:
        if retained < 1:
            raise ArgumentError(
                f"cannot retain {retained} checkpoints",
                hint="set execution.checkpointing.num-retained to 1 or more",
            )
        self.job_id = job_id
        self.job_name = job_name
        self._retained = retained
        self._tasks_stay = tasks_stay
        # The current base: durable, and all its commits are done except in phases COMMITTING, RESTORING and FAILED.
        # None until the first checkpoint completes.
        self.base: Manifest | None = None
        # Checkpoints that wait for acks, or for their manifest to be written, by id. All ids are above the base's and
        # above that of the one being written, unless its outcome is unknown. In epoch mode at most one.
        self._pending: dict[int, PendingCheckpoint] = {}
        # Built when the acks are complete; set exactly in phase WRITING. Only storage knows whether it is durable.
        self._written: Manifest | None = None
        # Commit requests for the sinks, sent once the manifest is durable; set exactly in phase WRITING.
        self._requests: dict[str, CommitRequest] = {}
        # Sinks whose commit was not reported yet; non-empty exactly in phases COMMITTING and RESTORING.
        self._uncommitted: set[str] = set()
        # Return values of the base's committers, by sink; complete when _uncommitted is empty.
        self._returned: dict[str, Any] = {}
        self._restoring = False  # whether the current commits are those of a restored manifest
        self._failed = False
        # The highest checkpoint id used since the last restore.
        self._last_begun = 0
        # Durable checkpoints in this job's directory, oldest first; the base is the last, unless it belongs to another job.
        # Never contains a checkpoint whose deletion was requested.
        self._completed: list[CompletedCheckpoint] = []
        # Aborted checkpoints whose manifest may exist all the same. They are deleted when a later one is complete: until
        # then one of them may be the last on storage, and its files stay with it.
        self._in_doubt: set[int] = set()
        # Files of dropped checkpoints that pending checkpoints still needed at that time.
        self._spared: frozenset[str] = frozenset()
        # Whether tasks may have left files that no ack reported since the last search for orphans.
        self._left_files = False
        # Checkpoints that are being read, with a reference count: retention keeps them.
        self._pinned: Counter[int] = Counter()
        # The last events and phases, for errors.
        self._story: deque[str] = deque(maxlen=20)
        self._handlers: dict[type[Event], Callable[[Any], list[Instruction]]] = {
            StartEpoch: self._start_epoch,
            Ack: self._ack,
            AbortEpoch: self._abort_epoch,
            TaskFailed: self._task_failed,
            PipeFinished: self._pipe_finished,
            ManifestWritten: self._manifest_written,
            ManifestFailed: self._manifest_failed,
            CommitFinished: self._commit_finished,
            CommitFailed: self._commit_failed,
            Restore: self._restore,
        }

    @property
    def phase(self) -> Phase:
        """The current phase."""
        if self._failed:
            return Phase.FAILED
        if self._uncommitted:
            return Phase.RESTORING if self._restoring else Phase.COMMITTING
        if self._written is not None:
            return Phase.WRITING
        if self.base is not None and self.base.final:
            return Phase.FINISHED
        return Phase.RUNNING if self._pending else Phase.IDLE

    @property
    def next_epoch(self) -> int:
        """The id of the checkpoint that may begin next."""
        return max(self._base_epoch, self._last_begun) + 1

    @property
    def pending_epochs(self) -> list[int]:
        """The pending checkpoints whose manifest is not being written, oldest first."""
        return sorted(self._pending)

    @property
    def returned(self) -> dict[str, Any]:
        """Values that committers keep for a later checkpoint, by sink."""
        return dict(self._returned)

    @property
    def completed_epochs(self) -> list[int]:
        """The ids of the retained checkpoints in this job's directory, oldest first."""
        return [checkpoint.epoch for checkpoint in self._completed]

    def pin(self, epoch: int) -> None:
        """Keep a checkpoint until it is unpinned, regardless of retention."""
        self._pinned[epoch] += 1

    def unpin(self, epoch: int) -> None:
        """Undo one `pin`; the next retention may delete the checkpoint."""
        self._pinned[epoch] -= 1
        if not self._pinned[epoch]:
            del self._pinned[epoch]

    def handle(self, event: Event) -> list[Instruction]:
        """Handle an event and return the instructions, in order."""
        handler = self._handlers.get(type(event))
        if handler is None:
            raise ArgumentError(
                f"unknown event {type(event).__name__} for the checkpoint coordinator"
            )
        before = self.phase
        instructions = handler(event)
        epoch = getattr(event, "epoch", None)
        label = type(event).__name__ + ("" if epoch is None else f"({epoch})")
        self._story.append(f"{label}: {before.value} -> {self.phase.value}")
        return instructions

    @property
    def _base_epoch(self) -> int:
        return 0 if self.base is None else self.base.epoch

    # Triggering and aborting.

    def _start_epoch(self, event: StartEpoch) -> list[Instruction]:
        may_begin = self.phase is Phase.IDLE or (self._tasks_stay and self.phase in _MAY_OVERLAP)
        if not may_begin or event.epoch != self.next_epoch:
            raise self._out_of_order(event)
        self._pending[event.epoch] = PendingCheckpoint(
            event, self.base, self._returned, tasks_stay=self._tasks_stay
        )
        self._last_begun = event.epoch
        return [TriggerSources(event.epoch) if self._tasks_stay else RunPipe(event.epoch)]

    def _ack(self, event: Ack) -> list[Instruction]:
        # Acks, failures and ends of aborted checkpoints may still arrive: they are ignored.
        pending = self._pending.get(event.epoch)
        if pending is None:
            return []
        pending.add(event)
        return self._complete_next() if self._tasks_stay else []

    def _abort_epoch(self, event: AbortEpoch) -> list[Instruction]:
        if not self._tasks_stay:
            raise self._out_of_order(event)
        return self._abort([event.epoch], event.reason, failed=event.failed)

    def _abort(self, epochs: list[int], reason: str, *, failed: bool = False) -> list[Instruction]:
        known = [epoch for epoch in epochs if self._pending.pop(epoch, None) is not None]
        self._left_files = self._left_files or bool(known)
        return [EpochAborted(epoch, reason, failed) for epoch in known]

    def _task_failed(self, event: TaskFailed) -> list[Instruction]:
        if event.epoch not in self._pending:
            return []
        where = "" if event.task is None else f"{event.task}: "
        return self._fail(event.epoch, where + event.reason)

    def _pipe_finished(self, event: PipeFinished) -> list[Instruction]:
        if event.epoch not in self._pending:
            return []
        return self._complete(event.epoch, event.now_ms)

    # Completing.

    def _complete_next(self) -> list[Instruction]:
        """Complete the oldest acknowledged checkpoint: in order, because each builds on the commits of the last."""
        if self.phase is not Phase.RUNNING:
            return []
        ready = [epoch for epoch, each in self._pending.items() if each.is_acknowledged]
        if not ready:
            return []
        epoch = min(ready)
        return self._complete(epoch, self._pending[epoch].acknowledged_ms)

    def _complete(self, epoch: int, now_ms: int) -> list[Instruction]:
        pending = self._pending.pop(epoch)
        pending.rebase(self.base, self._returned)
        problems = pending.problems()
        if problems:
            more = len(problems) - MAX_PROBLEMS
            shown = problems[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
            return self._fail(epoch, "; ".join(shown))
        requests = pending.commit_requests(now_ms)
        try:
            manifest = pending.to_manifest(self.job_id, self.job_name, now_ms, requests)
        except CheckpointError as error:  # a value does not pickle
            return self._fail(epoch, str(error))
        self._requests = requests
        self._written = manifest
        return [WriteManifest(manifest)]

    def _manifest_written(self, event: ManifestWritten) -> list[Instruction]:
        if self._failed:
            return []
        manifest, requests = self._written, self._requests
        if manifest is None or event.epoch != manifest.epoch:
            raise self._out_of_order(event)
        self._written, self._requests = None, {}
        self.base = manifest
        self._completed.append(CompletedCheckpoint.of(manifest))
        older = [epoch for epoch in self._pending if epoch < manifest.epoch]
        subsumed = self._abort(sorted(older), f"checkpoint {manifest.epoch} completed first")
        for pending in self._pending.values():
            pending.share(manifest)
        return [*subsumed, *self._commit(requests)]

    def _manifest_failed(self, event: ManifestFailed) -> list[Instruction]:
        if self._written is None or event.epoch != self._written.epoch:
            return []
        reason = f"could not write the manifest: {event.reason}"
        if event.fatal or not self._tasks_stay:
            return self._fail(event.epoch, reason)
        self._written, self._requests = None, {}
        self._in_doubt.add(event.epoch)
        self._left_files = True
        return [EpochAborted(event.epoch, reason, failed=True), *self._complete_next()]

    def _commit_finished(self, event: CommitFinished) -> list[Instruction]:
        if self._failed:
            return []
        if event.operator not in self._uncommitted or event.epoch != self._base_epoch:
            raise self._out_of_order(event)
        self._returned[event.operator] = event.pending
        self._uncommitted.discard(event.operator)
        return [] if self._uncommitted else self._commits_done()

    def _commit_failed(self, event: CommitFailed) -> list[Instruction]:
        if event.operator not in self._uncommitted or event.epoch != self._base_epoch:
            return []
        reason = f"commit of sink '{event.operator}' failed: {event.reason}"
        return self._fail(event.epoch, reason, durable=True)

    def _commit(self, requests: dict[str, CommitRequest]) -> list[Instruction]:
        """Return the commit instructions of the base, now that it is durable."""
        self._returned = {}
        self._uncommitted = set(requests)
        if not requests:
            return self._commits_done()
        return [CommitSink(operator, requests[operator]) for operator in requests]

    def _commits_done(self) -> list[Instruction]:
        final = self.base is not None and self.base.final
        outcome: Instruction = EpochCompleted(self._base_epoch, final)
        if self._restoring:
            outcome = Restored(self._base_epoch, final)
        done = [*self._retention(), outcome]
        self._restoring = False
        if final:
            return [*done, *self._abort(self.pending_epochs, "the job has finished")]
        return [*done, *self._complete_next()]

    def _retention(self) -> list[Instruction]:
        in_use = frozenset(name for each in self._pending.values() for name in each.files())
        decision = retain(
            self._completed,
            self._retained,
            set(self._pinned),
            in_use=in_use,
            spared=self._spared,
        )
        self._completed, self._spared = list(decision.kept), decision.spared
        dropped = sorted({*decision.dropped, *self._in_doubt})
        instructions: list[Instruction] = [DeleteCheckpoint(epoch) for epoch in dropped]
        if decision.files:
            instructions.append(DeleteFiles(decision.files))
        if self._left_files and not self._restoring:
            kept = frozenset(name for checkpoint in decision.kept for name in checkpoint.files)
            instructions.append(DeleteOrphans(self._base_epoch, kept | in_use))
            self._left_files = False
        self._in_doubt = set()
        return instructions

    # Failing and restoring.

    def _fail(self, epoch: int, reason: str, *, durable: bool = False) -> list[Instruction]:
        self._give_up()
        self._failed = True
        return [FailEpoch(epoch, reason, durable=durable)]

    def _give_up(self) -> None:
        self._pending = {}
        self._written, self._requests = None, {}
        self._uncommitted = set()
        self._restoring = False

    def _restore(self, event: Restore) -> list[Instruction]:
        manifest = event.manifest
        own = {checkpoint.epoch: checkpoint for checkpoint in event.retained}
        if manifest is not None and manifest.job_id == self.job_id:
            own.setdefault(manifest.epoch, manifest)
        self._check_restore(manifest, own)
        requests = (
            {} if manifest is None else {n: manifest.load_commit(n) for n in manifest.commits}
        )
        self._give_up()
        self.base = manifest
        self._completed = [CompletedCheckpoint.of(own[epoch]) for epoch in sorted(own)]
        # Storage knows what exists. Files that attempts left for future checkpoints are deleted once there is one.
        self._in_doubt, self._spared, self._left_files = set(), frozenset(), self._tasks_stay
        self._last_begun = 0
        self._failed = False
        self._restoring = True
        return self._commit(requests)

    def _check_restore(self, manifest: Manifest | None, own: dict[int, Manifest]) -> None:
        newest = max(own, default=0)
        if newest > (0 if manifest is None else manifest.epoch):
            raise CheckpointError(
                f"job {self.job_id} already has checkpoint {newest} and cannot be restored from an older one",
                hint="start from the older checkpoint under a new job id",
            )
        if manifest is not None and manifest.job_id != self.job_id:
            names = [name for name in manifest.files() if not is_absolute(name)]
            if names:
                raise ArgumentError(
                    f"the manifest of job {manifest.job_id} refers to '{names[0]}' without its directory",
                    hint="restore Manifest.relocated(directory)",
                )

    def _out_of_order(self, event: Event) -> CheckpointError:
        return CheckpointError(
            f"{type(event).__name__} is not allowed in phase {self.phase.value}, "
            f"the next checkpoint is {self.next_epoch}",
            detail="; ".join(self._story) or "no earlier events",
            hint="this is a bug in Penstock: please report it with the detail above",
        )
