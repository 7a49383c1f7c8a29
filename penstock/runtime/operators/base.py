"""The interface between an operator and the subtask that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.errors.user_errors import UserCodeError, shorten
from penstock.runtime.records import Batch
from penstock.runtime.time.decisions import WALL, RuntimeDecisions


class Output(Protocol):
    """The output of an operator: chained operators, exchanges, or a test."""

    def emit(self, batch: Batch) -> None:
        """Emit records."""

    def emit_side(self, tag: str, batch: Batch) -> None:
        """Emit records to a side output."""

    def emit_watermark(self, watermark: int) -> None:
        """Emit a watermark: no record with a timestamp <= watermark follows."""

    def emit_status(self, idle: bool) -> None:
        """Emit a status change to idle or active."""


def _ignore_wakeup() -> None:
    """Do nothing: an epoch needs no wake-ups."""


@dataclass(slots=True)
class OperatorContext:
    """The environment of an operator, passed when it is opened."""

    job_name: str
    operator_id: str
    operator_name: str
    task_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt_number: int
    checkpoint_id: int
    output: Output
    runtime_context: Any  # penstock.runtime.operators.runtime_context.StreamingRuntimeContext, handed to user functions
    keyed_state: (
        Any  # penstock.runtime.state.keyed.KeyedStateBackend, or None when the input is not keyed
    )
    operator_state: Any  # penstock.runtime.state.operator_state.OperatorStateBackend
    timers: Any  # penstock.runtime.time.timers.TimerManager, or None when the input is not keyed
    clock: Callable[[], int]  # processing time in epoch milliseconds
    auto_watermark_interval: int = 200
    batch_mode: bool = False
    job_parameters: dict[str, str] = field(default_factory=dict)
    extras: dict[str, Any] = field(
        default_factory=dict
    )  # attempt, staging directory, source assignment
    decisions: RuntimeDecisions = WALL
    # Error text about upstream operators that emit records without timestamps. Set for operators that need timestamps.
    untimed_inputs: str | None = None
    # Pipelined mode: a barrier may be a minute away, so nothing may wait for it. False: the input is one epoch.
    pipelined: bool = False
    # In `finish`: whether the input has ended for sure, so that state which waits for more need not be in the last
    # snapshot. False: the job may be drained, and another one may continue from its savepoint with the unread input.
    ends_for_good: bool = False
    # Asks the slot's loop to call `on_wakeup` of this operator soon. Thread-safe.
    wake: Callable[[], None] = _ignore_wakeup
    # Asks the slot's loop to call `on_wakeup` whenever this file is readable (an epoll, a socket); None removes it.
    # Without it (None), an operator has to poll by its `next_wakeup`.
    watch: Callable[[int | None], None] | None = None
    # Sends bytes to the driver, for a sink that outputs them there immediately. `on_taken` acknowledges them.
    tell: Callable[[bytes], None] | None = None


class StreamOperator:
    """Base class of all operators: one input, passes watermarks through, has no state.

    A subtask calls, in this order: `open`; then any mix of `process`, `process_watermark`, `process_status` and
    `advance_processing_time`; `finish` if the input ended; `barrier`; then `open_interval` for the next epoch, if the
    operator is still
    in this process; finally `close`.

    In pipelined mode (`OperatorContext.pipelined`), no call blocks. The subtask takes input only while all its operators
    have capacity
    (`has_room`); it calls `advance_processing_time` as soon as the clock reaches `next_wakeup`, `on_wakeup` after a call of
    `OperatorContext.wake`, `on_quiet` when there is no input, `on_completed` when a checkpoint is durable, and `finish`
    once nothing is
    `under_way`.
    """

    # Whether it can take input now. If False, a call of `on_wakeup` or `advance_processing_time` makes it True again.
    has_room: bool = True
    # Whether results of its input are outstanding: `finish` would have to wait for them.
    under_way: bool = False

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    def open(self, context: OperatorContext) -> None:
        """Prepare to run. State is restored before."""
        self.context = context
        self.output = context.output

    def open_interval(self, context: OperatorContext) -> None:
        """Start the next epoch. State is that of the last barrier."""
        self.context = context
        self.output = context.output

    def process(self, batch: Any, input_index: int = 0) -> None:
        """Process records, in a Batch of the kind that this operator supports."""
        raise NotImplementedError

    def process_watermark(self, watermark: int) -> None:
        """Process the combined watermark of all inputs; it never decreases."""
        self.output.emit_watermark(watermark)

    def process_status(self, idle: bool) -> None:
        """Process the combined status of all inputs."""
        self.output.emit_status(idle)

    def advance_processing_time(self, now: int) -> None:
        """Fire processing-time timers that are due."""

    def next_wakeup(self) -> int | None:
        """When (epoch milliseconds) this operator needs to run even if no record arrives."""
        return None

    def on_wakeup(self) -> None:
        """Handle external events.

        Called after `OperatorContext.wake`, when a watched file is readable, or when `next_step` is due.
        """

    def next_step(self) -> float | None:
        """When (by time.monotonic()) `on_wakeup` is due without a wake-up; None: never."""
        return None

    def on_quiet(self) -> None:
        """Emit records that are only held back for batching: there is no more input now."""

    def on_taken(self, size: int) -> None:
        """Record that the driver has received this many bytes."""

    def on_completed(self, checkpoint: int) -> None:
        """Release what was kept until this checkpoint is complete: it and all earlier ones are durable."""

    def finish(self) -> None:
        """The input has ended; the watermark MAX was processed before."""

    def barrier(self) -> list[Any]:
        """All records before the barrier were processed: flush, and return committables (sinks only)."""
        return []

    def time_of_commit(self) -> tuple[int, bool] | None:
        """At a barrier: the watermark for a sink's committer, and whether the input is idle; None if not needed."""
        return None

    def close(self) -> None:
        """Release resources."""

    def retire(self) -> Any:
        """Close, but return what the next operator in this place can reuse, such as a connection; None for nothing.

        That operator finds it in `context.extras["kept"]`, whatever state it was restored from, and closes it if it
        cannot use it.
        """
        self.close()
        return None

    def guard(self, error: BaseException, record: Any = None, known: bool = False) -> UserCodeError:
        """Wrap an exception of the user's function."""
        shown = shorten(record) if known else None
        wrapped = UserCodeError(
            f"{type(error).__name__}: {error}",
            detail=f"in operator '{self.context.operator_name}', subtask {self.context.subtask + 1} of "
            f"{self.context.parallelism}" + (f", record {shown}" if shown is not None else ""),
        )
        wrapped.__cause__ = error
        wrapped.operator_id = self.context.operator_id
        wrapped.record_known, wrapped.record = known, record
        return wrapped
