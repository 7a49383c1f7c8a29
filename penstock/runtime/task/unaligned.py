"""Decides about barriers that may overtake records (a pure core).

A checkpoint that may be unaligned begins in a subtask as soon as one of its barriers is *urgent*: it has overtaken records on its way, or
the time that barriers may wait for each other (`aligned-checkpoint-timeout`, from the trigger of the checkpoint) is over. Until then
channels wait for each other as they always do.

When it begins with barriers missing, nobody waits: what the other channels bring before their barriers is *in flight*, and is written down
with the snapshot. Barriers that lie in the queues of the subtask behind records are hastened: they overtake them. Once all have come, the
checkpoint is complete here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from penstock.graph.stage import BarrierSettings
from penstock.runtime.network.messages import BarrierMessage
from penstock.runtime.task.barriers import (
    Abandon,
    AlignedBarriers,
    Barriers,
    Begin,
    Block,
    Channel,
    Complete,
    CountedBarriers,
    Decision,
    Drop,
    Hasten,
    Past,
    Unblock,
    overtaken_by,
)


@dataclass(slots=True)
class _Pending:
    """A checkpoint that some channels have brought the barrier of."""

    checkpoint: int
    first_ms: float
    deadline_ms: float | None  # None: it must be aligned
    barriers: dict[Channel, BarrierMessage] = field(default_factory=dict)
    has_begun: bool = False

    def is_due(self, now_ms: float) -> bool:
        """Whether its barriers wait for each other no longer."""
        return self.deadline_ms is not None and now_ms >= self.deadline_ms


class UnalignedBarriers(Barriers):
    """Channels wait for each other up to `timeout_ms` after the trigger, then nobody does. One checkpoint at a time.

    >>> barriers = UnalignedBarriers([(0, 0), (0, 1)], timeout_ms=0)
    >>> message = BarrierMessage(1, "a", finished=False)
    >>> begin, *rest = barriers.on_barrier((0, 0), message, 5)
    >>> begin.unaligned, rest
    (True, [Unblock(), Hasten(checkpoint=1)])
    >>> barriers.missing
    frozenset({(0, 1)})
    >>> barriers.on_barrier((0, 1), message, 7)
    [Complete(checkpoint=1)]
    """

    may_overtake: ClassVar[bool] = True

    def __init__(self, channels: Sequence[Channel], timeout_ms: int) -> None:
        self._channels = frozenset(channels)
        self._timeout_ms = timeout_ms
        self._pending: _Pending | None = None
        # Checkpoints whose barriers were seen in a queue and not taken yet, and until when they may stay there.
        self._announced: dict[int, float] = {}
        self._past = Past()

    @property
    def missing(self) -> frozenset[Channel]:
        """The channels whose records are in flight: the checkpoint has begun, and their barrier has not come."""
        pending = self._pending
        if pending is None or not pending.has_begun:
            return frozenset()
        return self._channels.difference(pending.barriers)

    @property
    def deadline_ms(self) -> float | None:
        """When `on_time` is to be called at the latest, on the wall clock."""
        times = list(self._announced.values())
        pending = self._pending
        if pending is not None and not pending.has_begun and pending.deadline_ms is not None:
            times.append(pending.deadline_ms)
        return min(times, default=None)

    def on_announced(self, message: BarrierMessage, now_ms: float) -> list[Decision]:
        """A barrier has come into the queue of a channel, perhaps behind records."""
        number = message.checkpoint
        if message.aligned or self._is_over(number):
            return []
        pending = self._pending
        if pending is not None and pending.checkpoint == number and pending.has_begun:
            return [Hasten(number)]
        self._announced[number] = message.triggered_ms + self._timeout_ms
        return self.on_time(now_ms)

    def on_barrier(
        self, channel: Channel, message: BarrierMessage, now_ms: float, *, overtakes: bool = False
    ) -> list[Decision]:
        """A channel brought a barrier: in its turn, or before records that it has overtaken."""
        number, pending = message.checkpoint, self._pending
        if self._is_over(number):
            return []
        decisions: list[Decision] = []
        if pending is not None and number > pending.checkpoint:
            decisions = [*self._give_up(Abandon(pending.checkpoint, overtaken_by(number)))]
            pending = None
        if pending is None:
            deadline = None if message.aligned else message.triggered_ms + self._timeout_ms
            pending = self._pending = _Pending(number, now_ms, deadline)
        pending.barriers[channel] = message
        if pending.has_begun:
            return [*decisions, *self._completed(pending)]
        if overtakes or pending.is_due(now_ms):
            return [*decisions, *self._begin(pending, now_ms, unaligned=True)]
        if len(pending.barriers) < len(self._channels):
            return [*decisions, Block(channel)]
        return [*decisions, *self._begin(pending, now_ms, unaligned=False)]

    def on_time(self, now_ms: float) -> list[Decision]:
        """Let barriers overtake that have waited for too long."""
        decisions: list[Decision] = []
        pending = self._pending
        if pending is not None and not pending.has_begun and pending.is_due(now_ms):
            decisions += self._begin(pending, now_ms, unaligned=True)
        due = [number for number, time in self._announced.items() if now_ms >= time]
        for number in due:
            del self._announced[number]
            decisions.append(Hasten(number))
        return decisions

    def on_aborted(self, checkpoint: int) -> list[Decision]:
        """Let nobody wait for its barriers any more."""
        self._announced.pop(checkpoint, None)
        pending = self._pending
        if pending is None or pending.checkpoint != checkpoint:
            self._past.abort(checkpoint)
            return []
        return self._give_up()

    def _is_over(self, number: int) -> bool:
        pending = self._pending
        return self._past.has(number) or (pending is not None and number < pending.checkpoint)

    def _begin(self, pending: _Pending, now_ms: float, *, unaligned: bool) -> list[Decision]:
        pending.has_begun = True
        begin = Begin(
            pending.checkpoint, dict(pending.barriers), pending.first_ms, now_ms, unaligned
        )
        self._announced = {n: t for n, t in self._announced.items() if n > pending.checkpoint}
        return [begin, Unblock(), *(self._completed(pending) or [Hasten(pending.checkpoint)])]

    def _completed(self, pending: _Pending) -> list[Decision]:
        if len(pending.barriers) < len(self._channels):
            return []
        self._past.end(pending.checkpoint)
        self._pending = None
        return [Complete(pending.checkpoint)]

    def _give_up(self, *why: Abandon) -> list[Decision]:
        pending = self._pending
        assert pending is not None
        self._past.end(pending.checkpoint)
        self._pending = None
        self._announced = {n: t for n, t in self._announced.items() if n > pending.checkpoint}
        if pending.has_begun:
            return [Drop(pending.checkpoint), *why]
        return [*why, Unblock()]


def create_barriers(channels: Sequence[Channel], settings: BarrierSettings) -> Barriers:
    """Return what decides, by the job's settings."""
    if not settings.exactly_once:
        return CountedBarriers(channels)
    if settings.unaligned:
        return UnalignedBarriers(channels, settings.aligned_timeout_ms)
    return AlignedBarriers(channels)
