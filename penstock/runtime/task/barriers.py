"""Decides what the barriers of checkpoints do to the channels of a subtask that stays (pure cores).

Events are a barrier that a channel brought and a checkpoint that was given up; decisions are what to do about it. A checkpoint
begins in a subtask when the last channel has brought its barrier. Exactly once, a channel that has brought it waits
for the others, so that nothing from after the barrier is in the snapshot. At least once, nobody waits.

A barrier of a later checkpoint on any channel says that an earlier one which still lacks barriers has been given up upstream: it is
abandoned here, too. Barriers of what was given up or is over mean nothing any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from penstock.runtime.network.messages import BarrierMessage

Channel = tuple[int, int]  # gate, source subtask


@dataclass(frozen=True, slots=True)
class Block:
    """A channel waits, with all that it brings."""

    channel: Channel


@dataclass(frozen=True, slots=True)
class Unblock:
    """All channels are read again."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The subtask takes its snapshot and passes the barrier on; `barriers` are those that have arrived."""

    checkpoint: int
    barriers: dict[Channel, BarrierMessage]
    first_ms: float  # when the first barrier came
    last_ms: float
    unaligned: bool = False  # it overtakes records, and barriers may be missing


@dataclass(frozen=True, slots=True)
class Abandon:
    """The subtask takes no part in a checkpoint that it has seen barriers of."""

    checkpoint: int
    reason: str


@dataclass(frozen=True, slots=True)
class Hasten:
    """Barriers of a checkpoint that lie in the queues of input channels overtake what lies before them."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class Complete:
    """All channels have brought the barrier of a checkpoint that has begun: nothing more is in flight for it."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class Drop:
    """A checkpoint that has begun was given up: what is in flight for it need not be known."""

    checkpoint: int


Decision = Block | Unblock | Begin | Abandon | Hasten | Complete | Drop


class Barriers(ABC):
    """What decides about barriers. If none overtakes, most questions have simple answers."""

    may_overtake: ClassVar[bool] = False

    @abstractmethod
    def on_barrier(
        self, channel: Channel, message: BarrierMessage, now_ms: float, *, overtakes: bool = False
    ) -> list[Decision]:
        """A channel brought a barrier: in its turn, or before records that it has overtaken."""

    @abstractmethod
    def on_aborted(self, checkpoint: int) -> list[Decision]:
        """A checkpoint was given up."""

    @property
    def in_flight(self) -> dict[Channel, tuple[int, ...]]:
        """The channels whose records are in flight, and for which checkpoints: they have begun, and the barrier has not come."""
        return {}

    @property
    def deadline_ms(self) -> float | None:
        """When `on_time` is to be called at the latest, on the wall clock."""
        return None

    def on_announced(self, message: BarrierMessage, now_ms: float) -> list[Decision]:
        """A barrier has come into the queue of a channel, perhaps behind records."""
        return []

    def on_time(self, now_ms: float) -> list[Decision]:
        """Let barriers overtake that have waited for too long."""
        return []


@dataclass(slots=True)
class _Pending:
    """A checkpoint that some channels have brought the barrier of."""

    checkpoint: int
    first_ms: float
    barriers: dict[Channel, BarrierMessage] = field(default_factory=dict)

    def begin(self, now_ms: float) -> Begin:
        return Begin(self.checkpoint, self.barriers, self.first_ms, now_ms)


class Past:
    """Which checkpoints are over: up to a number, and some that were given up before their barriers came."""

    def __init__(self) -> None:
        self._last = -1
        self._aborted: set[int] = set()

    def has(self, checkpoint: int) -> bool:
        """Whether a barrier of this checkpoint means nothing any more."""
        return checkpoint <= self._last or checkpoint in self._aborted

    def end(self, checkpoint: int) -> None:
        """This checkpoint is over here, and so are all before it."""
        self._last = max(self._last, checkpoint)
        self._aborted = {number for number in self._aborted if number > self._last}

    def abort(self, checkpoint: int) -> None:
        """This one was given up; others may still be under way."""
        if checkpoint > self._last:
            self._aborted.add(checkpoint)


class AlignedBarriers(Barriers):
    """Exactly once: channels wait for each other. One checkpoint at a time, since a channel that waits brings no other barrier.

    >>> barriers = AlignedBarriers([(0, 0), (0, 1)])
    >>> barriers.on_barrier((0, 0), BarrierMessage(1, "a", finished=False), 0)
    [Block(channel=(0, 0))]
    >>> begin, unblock = barriers.on_barrier((0, 1), BarrierMessage(1, "a", finished=False), 5)
    >>> begin.checkpoint, begin.last_ms - begin.first_ms, unblock
    (1, 5, Unblock())
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = len(channels)
        self._pending: _Pending | None = None
        self._past = Past()

    def on_barrier(
        self,
        channel: Channel,
        message: BarrierMessage,
        now_ms: float,
        *,
        overtakes: bool = False,
    ) -> list[Decision]:
        """Let the channel wait; begin with the last one."""
        number, pending = message.checkpoint, self._pending
        if self._past.has(number) or (pending is not None and number < pending.checkpoint):
            return []
        decisions: list[Decision] = []
        if pending is not None and number > pending.checkpoint:
            self._past.end(pending.checkpoint)
            decisions = [Abandon(pending.checkpoint, overtaken_by(number)), Unblock()]
            pending = None
        if pending is None:
            pending = self._pending = _Pending(number, now_ms)
        pending.barriers[channel] = message
        if len(pending.barriers) < self._channels:
            return [*decisions, Block(channel)]
        self._past.end(number)
        self._pending = None
        return [*decisions, pending.begin(now_ms), Unblock()]

    def on_aborted(self, checkpoint: int) -> list[Decision]:
        """Let nobody wait for its barriers any more."""
        pending = self._pending
        if pending is None or pending.checkpoint != checkpoint:
            self._past.abort(checkpoint)
            return []
        self._past.end(checkpoint)
        self._pending = None
        return [Unblock()]


class CountedBarriers(Barriers):
    """At least once: barriers are counted, and nobody waits. Several checkpoints may be under way.

    >>> barriers = CountedBarriers([(0, 0), (0, 1)])
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
        self._past = Past()

    def on_barrier(
        self,
        channel: Channel,
        message: BarrierMessage,
        now_ms: float,
        *,
        overtakes: bool = False,
    ) -> list[Decision]:
        """Begin with the last one."""
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
        return [*(Abandon(each, overtaken_by(number)) for each in overtaken), pending.begin(now_ms)]

    def on_aborted(self, checkpoint: int) -> list[Decision]:
        """Forget its barriers."""
        self._pending.pop(checkpoint, None)
        self._past.abort(checkpoint)
        return []


def overtaken_by(number: int) -> str:
    """Say why an earlier checkpoint is abandoned."""
    return f"the barrier of checkpoint {number} came before all of its own"
