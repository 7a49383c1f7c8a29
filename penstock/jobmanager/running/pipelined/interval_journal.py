"""The journal in pipelined mode: collects the traces of subtasks, and writes a record for each interval between two checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from penstock.checkpoint.manifest import Manifest
from penstock.connectors.base.source import SourceAssignment
from penstock.graph.task_id import TaskId
from penstock.jobmanager.job import Job
from penstock.jobmanager.restoring.restore_points import restore_points
from penstock.jobmanager.running.journal import IntervalRecord, IntervalStart, Journal
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task.pipelined.recorded_subtask import NO_SLOT
from penstock.runtime.time.decisions import PackedRuns, SlotTrace, SubtaskTrace


class IntervalJournal:
    """Observes the checkpoints of one plan. Used by the thread that drives the job.

    An interval begins with a completed checkpoint and ends with the next one; barriers of aborted checkpoints lie in between.
    """

    def __init__(self, journal: Journal, job: Job, state_io: Any) -> None:
        self._journal = journal
        self._job = job
        self._state_io = state_io
        self._record: IntervalRecord | None = None
        self._base = 0  # the number of the checkpoint at the start of the interval
        self._attempt = 0
        # By task and by the checkpoint that ended it.
        self._parts: dict[tuple[TaskId, int], SubtaskTrace] = {}

    def begin(
        self,
        base: Manifest | None,
        assignments: Mapping[TaskId, Any],
        *,
        attempt: int,
        just_restored: bool = True,
    ) -> None:
        """Start an interval from a checkpoint (None: without state); `just_restored` if all subtasks are restored from it."""
        if not self._job.settings.journal:
            return
        self._parts.clear()
        self._base = 0 if base is None else base.checkpoint_id
        self._attempt = attempt
        beginning = IntervalStart(
            checkpoint_id=self._base + 1,
            attempt=attempt,
            restore=restore_points(self._job.plan, base, just_restored=just_restored),
            assignments=assignments,
            state_io=self._state_io,
            pipelined=True,
        )
        self._record = self._journal.begin(self._job, base, beginning)

    def on_ack(self, ack: TaskAck) -> None:
        """Take the trace of a subtask up to a barrier, including those of earlier aborted checkpoints."""
        for part in ack.trace or ():
            if part.checkpoint is not None and part.checkpoint > self._base:
                self._parts[part.task, part.checkpoint] = part

    def on_completed(self, manifest: Manifest, sources: Sequence[SourceCoordinator]) -> None:
        """End the interval with a completed checkpoint, and start the next one unless the job has finished."""
        if not self._job.settings.journal:
            return
        number = manifest.checkpoint_id
        within = [
            part for (_, checkpoint), part in sorted(self._parts.items()) if checkpoint <= number
        ]
        self._journal.completed(self._record, [_slot_trace(within)], checkpoint_id=number)
        if manifest.final:
            self._record = None
            return
        later = {key: part for key, part in self._parts.items() if key[1] > number}
        self.begin(
            manifest, assigned_at(manifest, sources), attempt=self._attempt, just_restored=False
        )
        self._parts |= later

    def on_failed(self, error: Exception, traces: Iterable[SlotTrace | None] = ()) -> None:
        """Record the failure of the interval; `traces` are those of the slots that did not fail."""
        reported = [part for slot in traces if slot is not None for part in slot.subtasks]
        self._journal.failed(self._record, error, [_slot_trace(reported)])

    def forget(self, tasks: Collection[TaskId]) -> None:
        """Discard the traces of subtasks that are restored from the last completed checkpoint, while others continue."""
        self._parts = {key: part for key, part in self._parts.items() if key[0] not in tasks}


def assigned_at(
    manifest: Manifest, sources: Sequence[SourceCoordinator]
) -> dict[TaskId, SourceAssignment]:
    """Return what source subtasks had been assigned at the barriers of a checkpoint: later assignments are in their traces.

    What the coordinator would assign now may be ahead of it. Whether a subtask was idle is in its state.
    """
    assignments: dict[TaskId, SourceAssignment] = {}
    for source in sources:
        snapshot = manifest.sources.get(source.operator_id)
        for task in source.assignments():
            splits = () if snapshot is None else snapshot.load_splits(task.subtask)
            assignments[task] = SourceAssignment(
                splits=[split for split in splits if not split.finished],
                no_more_splits=snapshot is not None and source.bounded and snapshot.complete,
            )
    return assignments


def _slot_trace(parts: Iterable[SubtaskTrace]) -> SlotTrace:
    return SlotTrace(NO_SLOT, NO_SLOT, PackedRuns(), tuple(parts))
