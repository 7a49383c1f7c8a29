"""A pipelined subtask that records its calls, so that an interval between two checkpoints can be replayed.

Each call is recorded before it is made: the last one of a failed subtask is the one that failed. At a barrier the trace
so far becomes a
*part*, which is sent with the ACK. It is kept until a checkpoint that contains it is complete: the ACK of the next one
has all parts
since then, because those of aborted checkpoints belong to the same interval. Jobs without a journal use plain subtasks,
without this
overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.graph.deployment import VertexDeployment
from penstock.runtime.network.messages import DATA, WATERMARK, TaskAck
from penstock.runtime.operators.connectors.source_modes import MoreSplits, PollResult
from penstock.runtime.operators.hooks import HandlesWakeups
from penstock.runtime.task.shared.in_flight import Capture
from penstock.runtime.task.shared.snapshots import PendingSnapshot
from penstock.runtime.task.shared.subtask import Subtask
from penstock.runtime.task.shared.subtask_mode import SubtaskMode
from penstock.runtime.time.call_log import CallKind, CallLog
from penstock.runtime.time.decisions import (
    PackedRuns,
    RecordedDecisions,
    SlotTrace,
    SubtaskTrace,
)

NO_SLOT: Final = -1


class _Part:
    """A trace that ends with a barrier, packed on first access."""

    def __init__(self, checkpoint: int | None, make: Callable[[], SubtaskTrace]) -> None:
        self.checkpoint = checkpoint
        self._make = make
        self._made: SubtaskTrace | None = None

    def get(self) -> SubtaskTrace:
        made = self._made
        if made is None:
            made = self._made = self._make()
        return made


@dataclass(frozen=True, slots=True)
class _TracedSnapshot(PendingSnapshot):
    """A snapshot whose ACK has a trace; it is packed while the snapshot is written, by another thread."""

    parts: tuple[_Part, ...] = ()

    def finish(self) -> TaskAck:
        """Write the snapshot, and pack the trace."""
        return replace(PendingSnapshot.finish(self), trace=tuple(part.get() for part in self.parts))


class RecordedSubtask(Subtask):
    """Records its calls, and keeps the parts of its trace that no completed checkpoint contains."""

    def __init__(self, deployment: VertexDeployment, index: int, mode: SubtaskMode) -> None:
        super().__init__(deployment, index, mode)
        self._numbers = {channel: number for number, channel in enumerate(self.gates.channels)}
        self._calls = CallLog()
        self._parts: list[_Part] = []

    # Calls.

    def receive(self, gate: int, channel: int, kind: int, content: Any) -> None:
        """Record the item, and process it."""
        number = self._numbers[gate, channel]
        if kind == DATA:
            self._calls.records(number, len(content))
        else:
            call = CallKind.WATERMARK if kind == WATERMARK else CallKind.STATUS
            self._calls.note(call, int(content), number)
        super().receive(gate, channel, kind, content)

    def advance_processing_time(self) -> None:
        """Record the call, and make it. Within a barrier it is part of that."""
        self._calls.note(CallKind.TIME)
        super().advance_processing_time()

    def poll(self) -> PollResult:
        """Make the call, and record it if it returned records: otherwise it has no effect."""
        try:
            polled = super().poll()
        except BaseException:
            self._calls.note(CallKind.POLL)
            raise
        if polled is not PollResult.NOTHING_NOW:
            self._calls.note(CallKind.POLL)
        return polled

    def add_splits(self, more: MoreSplits) -> None:
        """Record the splits, and add them."""
        self._calls.keep(CallKind.SPLITS, more)
        super().add_splits(more)

    def drain(self) -> None:
        """Record the call, and make it."""
        self._calls.note(CallKind.DRAIN)
        super().drain()

    def on_wakeup(self, operator: HandlesWakeups) -> None:
        """Record the operator, and wake it."""
        self._calls.note(CallKind.WAKEUP, self.chain.position_of(operator))
        super().on_wakeup(operator)

    def on_quiet(self) -> None:
        """Record the call, and make it."""
        self._calls.note(CallKind.QUIET)
        super().on_quiet()

    def finish(self) -> bool:
        """Record the call, and make it."""
        self._calls.note(CallKind.FINISH)
        return super().finish()

    def next_wakeup(self) -> int | None:
        """Make the call without recording it: a replay does not make it, because the times are recorded."""
        decisions = self.decisions
        if not isinstance(decisions, RecordedDecisions):
            return super().next_wakeup()
        with decisions.unnoted():
            return super().next_wakeup()

    # Checkpoints.

    def begin_checkpoint(
        self,
        number: int,
        triggered_ms: int = 0,
        *,
        aligned: bool = False,
        overtaken: Capture | None = None,
    ) -> PendingSnapshot:
        """Pass the barrier, which ends a part."""
        calls = self._calls
        calls.note(CallKind.BARRIER, number)
        self._calls = CallLog()  # calls within a barrier are not recorded
        try:
            snapshot = super().begin_checkpoint(
                number, triggered_ms, aligned=aligned, overtaken=overtaken
            )
        finally:
            self._calls = calls
        self._end_part(number)
        return _TracedSnapshot(
            snapshot.ack,
            snapshot.write,
            snapshot.barrier,
            snapshot.in_flight,
            snapshot.write_in_flight,
            parts=tuple(self._parts),
        )

    def on_completed(self, checkpoint: int) -> None:
        """Record the call, and drop the parts that the checkpoint contains."""
        self._calls.note(CallKind.COMPLETED, checkpoint)
        self._parts = [
            part for part in self._parts if part.checkpoint is None or part.checkpoint > checkpoint
        ]
        super().on_completed(checkpoint)

    def trace(self) -> tuple[SubtaskTrace, ...]:
        """Return all parts, the last one up to now: the subtask has failed or ends."""
        self._end_part(None)
        return tuple(part.get() for part in self._parts)

    def _end_part(self, checkpoint: int | None) -> None:
        decisions = self.decisions
        if not isinstance(decisions, RecordedDecisions):  # it was never opened
            return
        calls, decided = self._calls.take(), decisions.detach(self.id)
        self._parts.append(
            _Part(checkpoint, lambda: replace(decided(), calls=calls.pack(), checkpoint=checkpoint))
        )


def trace_of(subtasks: Sequence[Subtask]) -> SlotTrace | None:
    """Return the recorded traces of a slot's subtasks; None if they record nothing."""
    recorded = [each for each in subtasks if isinstance(each, RecordedSubtask)]
    if not recorded:
        return None
    traces = tuple(part for each in recorded for part in each.trace())
    return SlotTrace(NO_SLOT, NO_SLOT, PackedRuns(), traces)
