"""What a subtask calls besides the methods of `StreamOperator`. An operator declares what it has by deriving from a protocol.

The chain finds the operators of each kind once, when it is built, so a call that no operator of a chain needs costs nothing.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from penstock.runtime.operators.base import CheckpointInterval


@runtime_checkable
class UsesProcessingTime(Protocol):
    """An operator that works by the clock: timers, periodic watermarks, idleness."""

    def advance_processing_time(self, now: int) -> None:
        """Do what is due at this time, in epoch milliseconds. May be called between any two records."""

    def next_wakeup(self) -> int | None:
        """Return when (epoch milliseconds) `advance_processing_time` must be called even if no record arrives."""


@runtime_checkable
class HandlesWakeups(Protocol):
    """An operator that external events concern, in pipelined mode."""

    def on_wakeup(self) -> None:
        """Handle external events: after `OperatorSlot.wake`, when a watched file is readable, or when `next_step` is due."""


@runtime_checkable
class Asynchronous(HandlesWakeups, Protocol):
    """An operator whose results come later than its input, in pipelined mode."""

    @property
    def under_way(self) -> bool:
        """Whether results of its input are outstanding: `finish` would have to wait for them."""

    def next_step(self) -> float | None:
        """Return when (by time.monotonic()) `on_wakeup` is due without a wake-up; None: never."""


@runtime_checkable
class LimitsInput(Protocol):
    """An operator that cannot always take input, in pipelined mode."""

    @property
    def has_room(self) -> bool:
        """Whether it can take input now. If not, `on_wakeup`, `on_taken` or `advance_processing_time` changes that."""


@runtime_checkable
class HoldsRecordsBack(Protocol):
    """An operator that holds records back to emit larger batches, in pipelined mode."""

    def on_quiet(self) -> None:
        """Emit what is held back: there is no more input now."""


@runtime_checkable
class FollowsCheckpoints(Protocol):
    """An operator for which it matters which checkpoint ends the interval."""

    def begin_interval(self, interval: CheckpointInterval) -> None:
        """The next interval begins, after `OperatorContext.interval`. State is that of the last barrier."""


@runtime_checkable
class CheckpointListener(Protocol):
    """An operator that keeps something until a checkpoint is durable, in pipelined mode."""

    def on_completed(self, checkpoint: int) -> None:
        """Release what was kept until this checkpoint is complete: it and all earlier ones are durable."""


@runtime_checkable
class CommitsByTime(Protocol):
    """A sink whose committer needs event time."""

    def time_of_commit(self) -> tuple[int, bool] | None:
        """At a barrier: return the watermark for the committer, and whether the input is idle; None if not needed."""


@runtime_checkable
class SendsToDriver(Protocol):
    """A sink that outputs on the driver, in pipelined mode."""

    def on_taken(self, size: int) -> None:
        """The driver has received this many bytes."""


@runtime_checkable
class Reusable(Protocol):
    """An operator with resources, such as a connection, that its successor in the same process can take over."""

    def retire(self) -> object:
        """Close, but return what the next operator in this place can reuse; None for nothing."""

    def take_over(self, kept: Any) -> None:
        """Reuse what a former operator in this place returned, whatever state it had; close it if it cannot be used.

        Called after `open`; `kept` is None if there is nothing.
        """
