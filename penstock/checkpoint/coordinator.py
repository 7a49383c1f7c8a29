"""The checkpoint coordinator: the protocol of checkpoints as a pure core.

`handle(event)` returns instructions; whoever calls it carries them out, in order, and reports back with events. There is
no I/O and no clock in here. The order that exactly-once rests on:

    all acks, each once, all of the same attempts -> manifest durable -> sinks commit -> retention -> completed

Checkpoints come about in one of two ways. In *epochs* each is a run of the pipe: one at a time, complete when the pipe has
finished, and whatever goes wrong fails the epoch. If the *tasks stay*, several may be under way. One is complete with its last ack,
which ends those before it that are not; and one that comes to nothing is aborted, while the job goes on. The number of an
aborted checkpoint is not used again before the next restore. What its tasks had handed over to be committed they hand over again
with the next one, and state that they had written for it may be part of what later ones refer to.

After a failure, whatever it was, the way on is a Restore event with the manifest that storage has: its commits are
done again first (they are idempotent), then the next checkpoint may begin.
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
    """Where the coordinator stands.

    IDLE -> RUNNING -> WRITING -> COMMITTING -> IDLE, RUNNING or FINISHED; any -> FAILED;
    any -> RESTORING -> IDLE or FINISHED
    """

    IDLE = "idle"  # the next checkpoint may begin
    RUNNING = "running"  # at least one was begun, acks come in; if tasks stay, the next may begin
    WRITING = "writing"  # a manifest is being written; others may be running
    COMMITTING = "committing"  # a manifest is durable, sinks commit; others may be running
    RESTORING = "restoring"  # a manifest was restored, its sinks commit again
    FAILED = "failed"  # only Restore helps
    FINISHED = "finished"  # the last checkpoint of the job is complete


_MAY_OVERLAP = frozenset({Phase.RUNNING, Phase.WRITING, Phase.COMMITTING})


class CheckpointCoordinator:
    """Decides what happens to the checkpoints of one job; keeps the last `retained` of them.

    `tasks_stay`: checkpoints are triggered in tasks that stay, and several may be under way.
    """

    def __init__(
        self, job_id: str, job_name: str, *, retained: int = 1, tasks_stay: bool = False
    ) -> None:
        if retained < 1:
            raise ArgumentError(
                f"{retained} checkpoints cannot be retained",
                hint="set execution.checkpointing.num-retained to 1 or more",
            )
        self.job_id = job_id
        self.job_name = job_name
        self._retained = retained
        self._tasks_stay = tasks_stay
        # The manifest in force: durable, and except in phases COMMITTING, RESTORING and FAILED all its commits are done.
        # None until the first checkpoint completes.
        self.base: Manifest | None = None
        # Checkpoints that were begun and wait for acks, or for their turn to be written; by number, which are all above the base's
        # and above that of the one being written if that is not in doubt. In epochs one at most.
        self._pending: dict[int, PendingCheckpoint] = {}
        # Built when the acks are complete; set exactly in phase WRITING. Nobody but storage knows whether it is durable.
        self._written: Manifest | None = None
        # What the sinks get once the manifest is durable; set exactly in phase WRITING.
        self._requests: dict[str, CommitRequest] = {}
        # Sinks whose commit is not reported yet; non-empty exactly in phases COMMITTING and RESTORING.
        self._uncommitted: set[str] = set()
        # What committers returned for the base's epoch, by sink; complete when _uncommitted is empty.
        self._returned: dict[str, Any] = {}
        self._restoring = False  # whether the commits under way are those of a restored manifest
        self._failed = False
        # The highest number that was begun since the last restore.
        self._last_begun = 0
        # Durable checkpoints in this job's directory, oldest first; the base is the last, unless another job wrote it.
        # Never names a checkpoint whose deletion was asked for.
        self._completed: list[CompletedCheckpoint] = []
        # Aborted checkpoints whose manifest may be there all the same. They go when a later one is complete: until then one of
        # them may be the last that storage has, and its files stay with it.
        self._in_doubt: set[int] = set()
        # Files of dropped checkpoints that were needed by pending ones when these were dropped.
        self._spared: frozenset[str] = frozenset()
        # Whether tasks may have left files that no ack has told of, since such files were last looked for.
        self._left_files = False
        # Epochs whose checkpoints are being read by somebody else, and how often: retention spares them.
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
        """Where it stands."""
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
        """The number of the checkpoint that may begin next."""
        return max(self._base_epoch, self._last_begun) + 1

    @property
    def pending_epochs(self) -> list[int]:
        """The checkpoints that were begun and are neither being written nor over, oldest first."""
        return sorted(self._pending)

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

    # Beginning and giving up

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
        # Acks, failures and ends of what was given up may still come in: they mean nothing.
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

    # Completing

    def _complete_next(self) -> list[Instruction]:
        """Go on with the oldest checkpoint that is acknowledged: one after another, each builds on what the last has committed."""
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
        except CheckpointError as error:  # something does not pickle
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
        subsumed = self._abort(sorted(older), f"checkpoint {manifest.epoch} was complete before it")
        for pending in self._pending.values():
            pending.share(manifest)
        return [*subsumed, *self._commit(requests)]

    def _manifest_failed(self, event: ManifestFailed) -> list[Instruction]:
        if self._written is None or event.epoch != self._written.epoch:
            return []
        reason = f"the manifest could not be written: {event.reason}"
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
        reason = f"sink '{event.operator}' could not commit: {event.reason}"
        return self._fail(event.epoch, reason, durable=True)

    def _commit(self, requests: dict[str, CommitRequest]) -> list[Instruction]:
        """Let the sinks of the base commit, now that it is durable."""
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

    # Failing and going back

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
        # Storage tells what there is. Files that attempts have left for checkpoints to come wait until there is one of those.
        self._in_doubt, self._spared, self._left_files = set(), frozenset(), self._tasks_stay
        self._last_begun = 0
        self._failed = False
        self._restoring = True
        return self._commit(requests)

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

    def _out_of_order(self, event: Event) -> CheckpointError:
        return CheckpointError(
            f"{type(event).__name__} does not belong here: the coordinator is {self.phase.value}, "
            f"the next epoch is {self.next_epoch}",
            detail="; ".join(self._story) or "nothing happened before",
            hint="this is an error in Penstock: please report it with the detail above",
        )
