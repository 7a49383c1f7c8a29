"""The checkpoint coordinator: the checkpoint protocol as a pure state machine.

`handle(event)` returns instructions; the caller carries them out in order and reports back with events. There is no I/O
and no
clock in here. Exactly-once depends on this order:

    all acks, each once, all from the same attempts -> manifest durable -> sinks commit -> retention -> completed

There are two modes. In *epoch mode* each checkpoint is one run of the pipe: one at a time, complete when the pipe has
finished, and any error fails the epoch. In *pipelined mode* several checkpoints may be pending. One is complete with its last
ack, which subsumes older pending ones; one that fails is aborted while the job continues running. The id of an aborted
checkpoint is not reused before the next restore. Its tasks hand over its committables again with the next checkpoint, and
later checkpoints may refer to state that was written for it.

After any failure, recovery is a RestoreCheckpoint event with the manifest found on storage: its commits are repeated first (they are
idempotent), then the next checkpoint may begin.
"""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.messages import (
    AbortCheckpoint,
    Ack,
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
from penstock.checkpoint.pending_checkpoint import MAX_PROBLEMS, PendingCheckpoint
from penstock.checkpoint.retention import CompletedCheckpoint, retain
from penstock.connectors.base.sink import CommitRequest
from penstock.errors import ArgumentError, CheckpointError
from penstock.files.paths import is_absolute


class CoordinatorPhase(enum.Enum):
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
    FAILED = "failed"  # only RestoreCheckpoint is accepted
    FINISHED = "finished"  # the last checkpoint of the job is complete


_MAY_OVERLAP = frozenset(
    {CoordinatorPhase.RUNNING, CoordinatorPhase.WRITING, CoordinatorPhase.COMMITTING}
)


class CheckpointCoordinator:
    """Decides what happens to the checkpoints of one job; retains the last `retained` of them.

    `pipelined`: pipelined mode, in which checkpoints are triggered in running tasks and several may be pending.
    """

    def __init__(
        self, job_id: str, job_name: str, *, retained: int = 1, pipelined: bool = False
    ) -> None:
        if retained < 1:
            raise ArgumentError(
                f"cannot retain {retained} checkpoints",
                hint="set execution.checkpointing.num-retained to 1 or more",
            )
        self.job_id = job_id
        self.job_name = job_name
        self._retained = retained
        self._pipelined = pipelined
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
        self._handlers: dict[
            type[CoordinatorEvent], Callable[[Any], list[CoordinatorInstruction]]
        ] = {
            TriggerCheckpoint: self._trigger_checkpoint,
            Ack: self._ack,
            AbortCheckpoint: self._abort_checkpoint,
            TaskFailed: self._task_failed,
            PipeFinished: self._pipe_finished,
            ManifestWritten: self._manifest_written,
            ManifestFailed: self._manifest_failed,
            CommitFinished: self._commit_finished,
            CommitFailed: self._commit_failed,
            RestoreCheckpoint: self._restore,
        }

    @property
    def phase(self) -> CoordinatorPhase:
        """The current phase."""
        if self._failed:
            return CoordinatorPhase.FAILED
        if self._uncommitted:
            return CoordinatorPhase.RESTORING if self._restoring else CoordinatorPhase.COMMITTING
        if self._written is not None:
            return CoordinatorPhase.WRITING
        if self.base is not None and self.base.final:
            return CoordinatorPhase.FINISHED
        return CoordinatorPhase.RUNNING if self._pending else CoordinatorPhase.IDLE

    @property
    def next_checkpoint_id(self) -> int:
        """The id of the checkpoint that may begin next."""
        return max(self._base_checkpoint_id, self._last_begun) + 1

    @property
    def pending_checkpoint_ids(self) -> list[int]:
        """The pending checkpoints whose manifest is not being written, oldest first."""
        return sorted(self._pending)

    @property
    def returned(self) -> dict[str, Any]:
        """Values that committers keep for a later checkpoint, by sink."""
        return dict(self._returned)

    @property
    def completed_checkpoint_ids(self) -> list[int]:
        """The ids of the retained checkpoints in this job's directory, oldest first."""
        return [checkpoint.checkpoint_id for checkpoint in self._completed]

    def pin(self, checkpoint_id: int) -> None:
        """Keep a checkpoint until it is unpinned, regardless of retention."""
        self._pinned[checkpoint_id] += 1

    def unpin(self, checkpoint_id: int) -> None:
        """Undo one `pin`; the next retention may delete the checkpoint."""
        self._pinned[checkpoint_id] -= 1
        if not self._pinned[checkpoint_id]:
            del self._pinned[checkpoint_id]

    def handle(self, event: CoordinatorEvent) -> list[CoordinatorInstruction]:
        """Handle an event and return the instructions, in order."""
        handler = self._handlers.get(type(event))
        if handler is None:
            raise ArgumentError(
                f"unknown event {type(event).__name__} for the checkpoint coordinator"
            )
        before = self.phase
        instructions = handler(event)
        checkpoint_id = getattr(event, "checkpoint_id", None)
        label = type(event).__name__ + ("" if checkpoint_id is None else f"({checkpoint_id})")
        self._story.append(f"{label}: {before.value} -> {self.phase.value}")
        return instructions

    @property
    def _base_checkpoint_id(self) -> int:
        return 0 if self.base is None else self.base.checkpoint_id

    # Triggering and aborting.

    def _trigger_checkpoint(self, event: TriggerCheckpoint) -> list[CoordinatorInstruction]:
        may_begin = self.phase is CoordinatorPhase.IDLE or (
            self._pipelined and self.phase in _MAY_OVERLAP
        )
        if not may_begin or event.checkpoint_id != self.next_checkpoint_id:
            raise self._out_of_order(event)
        self._pending[event.checkpoint_id] = PendingCheckpoint(
            event, self.base, self._returned, pipelined=self._pipelined
        )
        self._last_begun = event.checkpoint_id
        return [
            TriggerSources(event.checkpoint_id) if self._pipelined else RunPipe(event.checkpoint_id)
        ]

    def _ack(self, event: Ack) -> list[CoordinatorInstruction]:
        # Acks, failures and ends of aborted checkpoints may still arrive: they are ignored.
        pending = self._pending.get(event.checkpoint_id)
        if pending is None:
            return []
        pending.add(event)
        return self._complete_next() if self._pipelined else []

    def _abort_checkpoint(self, event: AbortCheckpoint) -> list[CoordinatorInstruction]:
        if not self._pipelined:
            raise self._out_of_order(event)
        return self._abort([event.checkpoint_id], event.reason, failed=event.failed)

    def _abort(
        self, checkpoint_ids: list[int], reason: str, *, failed: bool = False
    ) -> list[CoordinatorInstruction]:
        known = [
            checkpoint_id
            for checkpoint_id in checkpoint_ids
            if self._pending.pop(checkpoint_id, None) is not None
        ]
        self._left_files = self._left_files or bool(known)
        return [NotifyCheckpointAborted(checkpoint_id, reason, failed) for checkpoint_id in known]

    def _task_failed(self, event: TaskFailed) -> list[CoordinatorInstruction]:
        if event.checkpoint_id not in self._pending:
            return []
        where = "" if event.task is None else f"{event.task}: "
        return self._fail(event.checkpoint_id, where + event.reason)

    def _pipe_finished(self, event: PipeFinished) -> list[CoordinatorInstruction]:
        if event.checkpoint_id not in self._pending:
            return []
        return self._complete(event.checkpoint_id, event.now_ms)

    # Completing.

    def _complete_next(self) -> list[CoordinatorInstruction]:
        """Complete the oldest acknowledged checkpoint: in order, because each builds on the commits of the last."""
        if self.phase is not CoordinatorPhase.RUNNING:
            return []
        ready = [
            checkpoint_id for checkpoint_id, each in self._pending.items() if each.is_acknowledged
        ]
        if not ready:
            return []
        checkpoint_id = min(ready)
        return self._complete(checkpoint_id, self._pending[checkpoint_id].acknowledged_ms)

    def _complete(self, checkpoint_id: int, now_ms: int) -> list[CoordinatorInstruction]:
        pending = self._pending.pop(checkpoint_id)
        pending.rebase(self.base, self._returned)
        problems = pending.problems()
        if problems:
            more = len(problems) - MAX_PROBLEMS
            shown = problems[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
            return self._fail(checkpoint_id, "; ".join(shown))
        requests = pending.commit_requests(now_ms)
        try:
            manifest = pending.to_manifest(self.job_id, self.job_name, now_ms, requests)
        except CheckpointError as error:  # a value does not pickle
            return self._fail(checkpoint_id, str(error))
        self._requests = requests
        self._written = manifest
        return [WriteManifest(manifest)]

    def _manifest_written(self, event: ManifestWritten) -> list[CoordinatorInstruction]:
        if self._failed:
            return []
        manifest, requests = self._written, self._requests
        if manifest is None or event.checkpoint_id != manifest.checkpoint_id:
            raise self._out_of_order(event)
        self._written, self._requests = None, {}
        self.base = manifest
        self._completed.append(CompletedCheckpoint.of(manifest))
        older = [
            checkpoint_id
            for checkpoint_id in self._pending
            if checkpoint_id < manifest.checkpoint_id
        ]
        subsumed = self._abort(
            sorted(older), f"checkpoint {manifest.checkpoint_id} completed first"
        )
        for pending in self._pending.values():
            pending.share(manifest)
        return [*subsumed, *self._commit(requests)]

    def _manifest_failed(self, event: ManifestFailed) -> list[CoordinatorInstruction]:
        if self._written is None or event.checkpoint_id != self._written.checkpoint_id:
            return []
        reason = f"could not write the manifest: {event.reason}"
        if event.fatal or not self._pipelined:
            return self._fail(event.checkpoint_id, reason)
        self._written, self._requests = None, {}
        self._in_doubt.add(event.checkpoint_id)
        self._left_files = True
        return [
            NotifyCheckpointAborted(event.checkpoint_id, reason, failed=True),
            *self._complete_next(),
        ]

    def _commit_finished(self, event: CommitFinished) -> list[CoordinatorInstruction]:
        if self._failed:
            return []
        if (
            event.operator not in self._uncommitted
            or event.checkpoint_id != self._base_checkpoint_id
        ):
            raise self._out_of_order(event)
        self._returned[event.operator] = event.pending
        self._uncommitted.discard(event.operator)
        return [] if self._uncommitted else self._commits_done()

    def _commit_failed(self, event: CommitFailed) -> list[CoordinatorInstruction]:
        if (
            event.operator not in self._uncommitted
            or event.checkpoint_id != self._base_checkpoint_id
        ):
            return []
        reason = f"commit of sink '{event.operator}' failed: {event.reason}"
        return self._fail(event.checkpoint_id, reason, durable=True)

    def _commit(self, requests: dict[str, CommitRequest]) -> list[CoordinatorInstruction]:
        """Return the commit instructions of the base, now that it is durable."""
        self._returned = {}
        self._uncommitted = set(requests)
        if not requests:
            return self._commits_done()
        return [CommitSink(operator, requests[operator]) for operator in requests]

    def _commits_done(self) -> list[CoordinatorInstruction]:
        final = self.base is not None and self.base.final
        outcome: CoordinatorInstruction = NotifyCheckpointComplete(self._base_checkpoint_id, final)
        if self._restoring:
            outcome = CheckpointRestored(self._base_checkpoint_id, final)
        done = [*self._retention(), outcome]
        self._restoring = False
        if final:
            return [*done, *self._abort(self.pending_checkpoint_ids, "the job has finished")]
        return [*done, *self._complete_next()]

    def _retention(self) -> list[CoordinatorInstruction]:
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
        instructions: list[CoordinatorInstruction] = [
            DeleteCheckpoint(checkpoint_id) for checkpoint_id in dropped
        ]
        if decision.files:
            instructions.append(DeleteFiles(decision.files))
        if self._left_files and not self._restoring:
            kept = frozenset(name for checkpoint in decision.kept for name in checkpoint.files)
            instructions.append(DeleteOrphans(self._base_checkpoint_id, kept | in_use))
            self._left_files = False
        self._in_doubt = set()
        return instructions

    # Failing and restoring.

    def _fail(
        self, checkpoint_id: int, reason: str, *, durable: bool = False
    ) -> list[CoordinatorInstruction]:
        self._give_up()
        self._failed = True
        return [FailExecution(checkpoint_id, reason, durable=durable)]

    def _give_up(self) -> None:
        self._pending = {}
        self._written, self._requests = None, {}
        self._uncommitted = set()
        self._restoring = False

    def _restore(self, event: RestoreCheckpoint) -> list[CoordinatorInstruction]:
        manifest = event.manifest
        own = {checkpoint.checkpoint_id: checkpoint for checkpoint in event.retained}
        if manifest is not None and manifest.job_id == self.job_id:
            own.setdefault(manifest.checkpoint_id, manifest)
        self._check_restore(manifest, own)
        requests = (
            {} if manifest is None else {n: manifest.load_commit(n) for n in manifest.commits}
        )
        self._give_up()
        self.base = manifest
        self._completed = [
            CompletedCheckpoint.of(own[checkpoint_id]) for checkpoint_id in sorted(own)
        ]
        # Storage knows what exists. Files that attempts left for future checkpoints are deleted once there is one.
        self._in_doubt, self._spared, self._left_files = set(), frozenset(), self._pipelined
        self._last_begun = 0
        self._failed = False
        self._restoring = True
        return self._commit(requests)

    def _check_restore(self, manifest: Manifest | None, own: dict[int, Manifest]) -> None:
        newest = max(own, default=0)
        if newest > (0 if manifest is None else manifest.checkpoint_id):
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

    def _out_of_order(self, event: CoordinatorEvent) -> CheckpointError:
        return CheckpointError(
            f"{type(event).__name__} is not allowed in phase {self.phase.value}, "
            f"the next checkpoint is {self.next_checkpoint_id}",
            detail="; ".join(self._story) or "no earlier events",
            hint="this is a bug in Penstock: please report it with the detail above",
        )
