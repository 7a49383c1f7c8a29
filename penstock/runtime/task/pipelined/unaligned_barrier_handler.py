"""Barrier handling of unaligned checkpoints (a pure core).

A checkpoint that may be unaligned starts in a subtask as soon as one of its barriers is *urgent*: it has overtaken records on
its way, or the alignment timeout (`aligned-checkpoint-timeout`, from the trigger of the checkpoint) is over. Until then
barrier alignment works as usual.

When it starts with barriers missing, no channel is blocked: records of the other channels before their barriers are *in
flight*, and are stored with the snapshot. Barriers that are queued behind records overtake them. Once all have arrived, the
checkpoint is complete here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from penstock.graph.stage import BarrierSettings
from penstock.runtime.network.messages import BarrierMessage
from penstock.runtime.task.pipelined.barrier_handlers import (
    AbandonCheckpoint,
    AlignedBarrierHandler,
    BarrierHandler,
    BeginCheckpoint,
    BlockChannel,
    Channel,
    CompleteInFlight,
    CountingBarrierHandler,
    Decision,
    DropInFlight,
    ExpediteBarriers,
    FinishedCheckpoints,
    UnblockChannels,
    overtaken_by,
)


@dataclass(slots=True)
class _Pending:
    """A checkpoint with barriers on some channels."""

    checkpoint: int
    first_ms: float
    deadline_ms: float | None  # None: it must be aligned
    barriers: dict[Channel, BarrierMessage] = field(default_factory=dict)

    def is_due(self, now_ms: float) -> bool:
        """Whether the alignment timeout of its barriers is over."""
        return self.deadline_ms is not None and now_ms >= self.deadline_ms


class UnalignedBarriers(BarrierHandler):
    """Barrier alignment up to `timeout_ms` after the trigger, then overtaking.

    >>> barriers = UnalignedBarriers([(0, 0), (0, 1)], timeout_ms=0)
    >>> message = BarrierMessage(1, "a", finished=False)
    >>> begin, *rest = barriers.on_barrier((0, 0), message, 5)
    >>> begin.unaligned, rest
    (True, [UnblockChannels(), ExpediteBarriers(checkpoint=1)])
    >>> barriers.in_flight
    {(0, 1): (1,)}
    >>> barriers.on_barrier((0, 1), message, 7)
    [Complete(checkpoint=1)]
    """

    may_overtake: ClassVar[bool] = True

    def __init__(self, channels: Sequence[Channel], timeout_ms: int) -> None:
        self._channels = tuple(channels)
        self._timeout_ms = timeout_ms
        # The checkpoint that has not started: channels that have delivered its barrier are blocked.
        self._waiting: _Pending | None = None
        # Started checkpoints with missing barriers: a savepoint may follow a checkpoint.
        self._begun: dict[int, _Pending] = {}
        # Checkpoints whose barriers are queued and not taken yet, and until when they may stay there.
        self._announced: dict[int, float] = {}
        self._past = FinishedCheckpoints()

    @property
    def in_flight(self) -> dict[Channel, tuple[int, ...]]:
        """The channels whose records are in flight, and for which started checkpoints."""
        if not self._begun:
            return {}
        missing = {
            channel: tuple(n for n, each in self._begun.items() if channel not in each.barriers)
            for channel in self._channels
        }
        return {channel: numbers for channel, numbers in missing.items() if numbers}

    @property
    def deadline_ms(self) -> float | None:
        """When `on_time` must be called at the latest, by the wall clock."""
        times = list(self._announced.values())
        if self._waiting is not None and self._waiting.deadline_ms is not None:
            times.append(self._waiting.deadline_ms)
        return min(times, default=None)

    def on_announced(self, message: BarrierMessage, now_ms: float) -> list[Decision]:
        """A barrier was queued in a channel, perhaps behind records."""
        number = message.checkpoint
        if number in self._begun and not message.aligned:
            return [ExpediteBarriers(number)]
        if message.aligned or self._is_over(number):
            return []
        self._announced[number] = message.triggered_ms + self._timeout_ms
        return self.on_time(now_ms)

    def on_barrier(
        self, channel: Channel, message: BarrierMessage, now_ms: float, *, overtakes: bool = False
    ) -> list[Decision]:
        """A barrier arrived on a channel: in order, or ahead of records that it has overtaken."""
        number = message.checkpoint
        if number in self._begun:
            self._begun[number].barriers[channel] = message
            return self._completed(number)
        if self._is_over(number):
            return []
        decisions = [] if overtakes else self._abandon_passed(channel, number)
        waiting = self._waiting
        if waiting is not None and number > waiting.checkpoint:
            decisions += [
                AbandonCheckpoint(waiting.checkpoint, overtaken_by(number)),
                *self._give_up(),
            ]
            waiting = None
        if waiting is None:
            deadline = None if message.aligned else message.triggered_ms + self._timeout_ms
            waiting = self._waiting = _Pending(number, now_ms, deadline)
        waiting.barriers[channel] = message
        if overtakes or waiting.is_due(now_ms):
            return [*decisions, *self._begin(waiting, now_ms, unaligned=True)]
        if len(waiting.barriers) < len(self._channels):
            return [*decisions, BlockChannel(channel)]
        return [*decisions, *self._begin(waiting, now_ms, unaligned=False)]

    def on_time(self, now_ms: float) -> list[Decision]:
        """Let barriers overtake that have exceeded the alignment timeout."""
        decisions: list[Decision] = []
        if self._waiting is not None and self._waiting.is_due(now_ms):
            decisions += self._begin(self._waiting, now_ms, unaligned=True)
        due = [number for number, time in self._announced.items() if now_ms >= time]
        for number in due:
            del self._announced[number]
            decisions.append(ExpediteBarriers(number))
        return decisions

    def on_aborted(self, checkpoint: int) -> list[Decision]:
        """Stop waiting for its barriers."""
        self._announced.pop(checkpoint, None)
        if self._begun.pop(checkpoint, None) is not None:
            return [DropInFlight(checkpoint)]
        if self._waiting is not None and self._waiting.checkpoint == checkpoint:
            return self._give_up()
        self._past.abort(checkpoint)
        return []

    def _is_over(self, number: int) -> bool:
        waiting = self._waiting
        return self._past.has(number) or (waiting is not None and number < waiting.checkpoint)

    def _abandon_passed(self, channel: Channel, number: int) -> list[Decision]:
        """Abandon checkpoints whose barriers a channel will not deliver: it has delivered a later one in order."""
        decisions: list[Decision] = []
        for earlier, each in list(self._begun.items()):
            if earlier < number and channel not in each.barriers:
                del self._begun[earlier]
                decisions += [
                    DropInFlight(earlier),
                    AbandonCheckpoint(earlier, overtaken_by(number)),
                ]
        return decisions

    def _begin(self, pending: _Pending, now_ms: float, *, unaligned: bool) -> list[Decision]:
        number = pending.checkpoint
        self._end(number)
        self._begun[number] = pending
        begin = BeginCheckpoint(number, dict(pending.barriers), pending.first_ms, now_ms, unaligned)
        return [begin, UnblockChannels(), *(self._completed(number) or [ExpediteBarriers(number)])]

    def _completed(self, number: int) -> list[Decision]:
        if len(self._begun[number].barriers) < len(self._channels):
            return []
        del self._begun[number]
        return [CompleteInFlight(number)]

    def _give_up(self) -> list[Decision]:
        assert self._waiting is not None
        self._end(self._waiting.checkpoint)
        return [UnblockChannels()]

    def _end(self, number: int) -> None:
        """No barrier of this checkpoint, or of an earlier one, can start it any more."""
        self._waiting = None
        self._past.end(number)
        self._announced = {each: t for each, t in self._announced.items() if each > number}


def create_barriers(channels: Sequence[Channel], settings: BarrierSettings) -> BarrierHandler:
    """Return the barrier handler for the job's settings."""
    if not settings.exactly_once:
        return CountingBarrierHandler(channels)
    if settings.unaligned:
        return UnalignedBarriers(channels, settings.aligned_timeout_ms)
    return AlignedBarrierHandler(channels)
