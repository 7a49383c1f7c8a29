"""Barrier handling of a pipelined subtask (pure cores).

Events are barriers from channels and aborted checkpoints; decisions are the actions to take. A checkpoint starts in a subtask
when the last channel has delivered its barrier. With exactly-once, a channel that has delivered it is blocked until then
(barrier alignment), so that no record from after the barrier is in the snapshot. With at-least-once, no channel is blocked.

A barrier of a later checkpoint on any channel implies that an earlier one with missing barriers was aborted upstream: it is
abandoned here, too. Barriers of aborted or finished checkpoints are ignored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from penstock.runtime.network.messages import BarrierMessage

Channel = tuple[int, int]  # gate, source subtask


@dataclass(frozen=True, slots=True)
class BlockChannel:
    """Stop reading a channel."""

    channel: Channel


@dataclass(frozen=True, slots=True)
class UnblockChannels:
    """Resume reading all channels."""


@dataclass(frozen=True, slots=True)
class BeginCheckpoint:
    """Take the snapshot and forward the barrier; `barriers` are those that have arrived."""

    checkpoint: int
    barriers: dict[Channel, BarrierMessage]
    first_ms: float  # when the first barrier arrived
    last_ms: float
    unaligned: bool = False  # it overtakes records, and barriers may be missing


@dataclass(frozen=True, slots=True)
class AbandonCheckpoint:
    """Abandon a checkpoint of which barriers have arrived."""

    checkpoint: int
    reason: str


@dataclass(frozen=True, slots=True)
class ExpediteBarriers:
    """Let queued barriers of a checkpoint overtake the records before them in the input channels."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class CompleteInFlight:
    """All barriers of a started checkpoint have arrived: its in-flight data is complete."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class DropInFlight:
    """A started checkpoint was aborted: its in-flight data is discarded."""

    checkpoint: int


Decision = (
    BlockChannel
    | UnblockChannels
    | BeginCheckpoint
    | AbandonCheckpoint
    | ExpediteBarriers
    | CompleteInFlight
    | DropInFlight
)


class BarrierHandler(ABC):
    """Base class of barrier handlers, with defaults for handlers without overtaking."""

    may_overtake: ClassVar[bool] = False

    @abstractmethod
    def on_barrier(
        self, channel: Channel, message: BarrierMessage, now_ms: float, *, overtakes: bool = False
    ) -> list[Decision]:
        """A barrier arrived on a channel: in order, or ahead of records that it has overtaken."""

    @abstractmethod
    def on_aborted(self, checkpoint: int) -> list[Decision]:
        """A checkpoint was aborted."""

    @property
    def in_flight(self) -> dict[Channel, tuple[int, ...]]:
        """The channels whose records are in flight, and for which started checkpoints."""
        return {}

    @property
    def deadline_ms(self) -> float | None:
        """When `on_time` must be called at the latest, by the wall clock."""
        return None

    def on_announced(self, message: BarrierMessage, now_ms: float) -> list[Decision]:
        """A barrier was queued in a channel, perhaps behind records."""
        return []

    def on_time(self, now_ms: float) -> list[Decision]:
        """Let barriers overtake that have exceeded the alignment timeout."""
        return []


@dataclass(slots=True)
class _Pending:
    """A checkpoint with barriers on some channels."""

    checkpoint: int
    first_ms: float
    barriers: dict[Channel, BarrierMessage] = field(default_factory=dict)

    def begin(self, now_ms: float) -> BeginCheckpoint:
        return BeginCheckpoint(self.checkpoint, self.barriers, self.first_ms, now_ms)


class FinishedCheckpoints:
    """Finished checkpoints: all up to a number, and some that were aborted before their barriers arrived."""

    def __init__(self) -> None:
        self._last = -1
        self._aborted: set[int] = set()

    def has(self, checkpoint: int) -> bool:
        """Whether a barrier of this checkpoint is ignored."""
        return checkpoint <= self._last or checkpoint in self._aborted

    def end(self, checkpoint: int) -> None:
        """This checkpoint and all before it are finished here."""
        self._last = max(self._last, checkpoint)
        self._aborted = {number for number in self._aborted if number > self._last}

    def abort(self, checkpoint: int) -> None:
        """This checkpoint was aborted; others may still be pending."""
        if checkpoint > self._last:
            self._aborted.add(checkpoint)


class AlignedBarrierHandler(BarrierHandler):
    """Exactly-once: barrier alignment. One checkpoint at a time, since a blocked channel delivers no other barrier.

    >>> barriers = AlignedBarrierHandler([(0, 0), (0, 1)])
    >>> barriers.on_barrier((0, 0), BarrierMessage(1, "a", finished=False), 0)
    [Block(channel=(0, 0))]
    >>> begin, unblock = barriers.on_barrier((0, 1), BarrierMessage(1, "a", finished=False), 5)
    >>> begin.checkpoint, begin.last_ms - begin.first_ms, unblock
    (1, 5, Unblock())
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = len(channels)
        self._pending: _Pending | None = None
        self._past = FinishedCheckpoints()

    def on_barrier(
        self,
        channel: Channel,
        message: BarrierMessage,
        now_ms: float,
        *,
        overtakes: bool = False,
    ) -> list[Decision]:
        """Block the channel; start with the last barrier."""
        number, pending = message.checkpoint, self._pending
        if self._past.has(number) or (pending is not None and number < pending.checkpoint):
            return []
        decisions: list[Decision] = []
        if pending is not None and number > pending.checkpoint:
            self._past.end(pending.checkpoint)
            decisions = [
                AbandonCheckpoint(pending.checkpoint, overtaken_by(number)),
                UnblockChannels(),
            ]
            pending = None
        if pending is None:
            pending = self._pending = _Pending(number, now_ms)
        pending.barriers[channel] = message
        if len(pending.barriers) < self._channels:
            return [*decisions, BlockChannel(channel)]
        self._past.end(number)
        self._pending = None
        return [*decisions, pending.begin(now_ms), UnblockChannels()]

    def on_aborted(self, checkpoint: int) -> list[Decision]:
        """Stop waiting for its barriers."""
        pending = self._pending
        if pending is None or pending.checkpoint != checkpoint:
            self._past.abort(checkpoint)
            return []
        self._past.end(checkpoint)
        self._pending = None
        return [UnblockChannels()]


class CountingBarrierHandler(BarrierHandler):
    """At-least-once: barriers are counted, and no channel is blocked. Several checkpoints may be pending.

    >>> barriers = CountingBarrierHandler([(0, 0), (0, 1)])
    >>> barriers.on_barrier((0, 0), BarrierMessage(1, "a", finished=False), 0)
    []
    >>> barriers.on_barrier((0, 0), BarrierMessage(2, "a", finished=False), 3)
    []
    >>> [begin] = barriers.on_barrier((0, 1), BarrierMessage(1, "a", finished=False), 5)
    >>> begin.checkpoint
    1
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = len(channels)
        self._pending: dict[int, _Pending] = {}
        self._past = FinishedCheckpoints()

    def on_barrier(
        self,
        channel: Channel,
        message: BarrierMessage,
        now_ms: float,
        *,
        overtakes: bool = False,
    ) -> list[Decision]:
        """Start with the last barrier."""
        number = message.checkpoint
        if self._past.has(number):
            return []
        pending = self._pending.setdefault(number, _Pending(number, now_ms))
        pending.barriers[channel] = message
        if len(pending.barriers) < self._channels:
            return []
        self._past.end(number)
        overtaken = sorted(each for each in self._pending if each < number)
        self._pending = {each: kept for each, kept in self._pending.items() if each > number}
        return [
            *(AbandonCheckpoint(each, overtaken_by(number)) for each in overtaken),
            pending.begin(now_ms),
        ]

    def on_aborted(self, checkpoint: int) -> list[Decision]:
        """Drop its barriers."""
        self._pending.pop(checkpoint, None)
        self._past.abort(checkpoint)
        return []


def overtaken_by(number: int) -> str:
    """Return why an earlier checkpoint is abandoned."""
    return f"a barrier of checkpoint {number} arrived before all barriers of this one"
