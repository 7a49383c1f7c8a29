"""The contract between an operator and the subtask that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.common.user_errors import UserCodeError, shorten
from penstock.runtime.records import Batch
from penstock.runtime.time.pace import WALL, Pace


class Output(Protocol):
    """Where an operator emits to: chained operators, exchanges, or a test."""

    def emit(self, batch: Batch) -> None:
        """Send records on."""

    def emit_side(self, tag: str, batch: Batch) -> None:
        """Send records to a side output."""

    def emit_watermark(self, watermark: int) -> None:
        """Say that no record with a timestamp <= watermark follows."""

    def emit_status(self, idle: bool) -> None:
        """Say that this output turned idle or active."""


def _nobody_waits() -> None:
    """Wake nobody: what runs as an epoch asks by itself."""


@dataclass(slots=True)
class OperatorContext:
    """What an operator gets when it is opened."""

    job_name: str
    operator_id: str
    operator_name: str
    task_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt_number: int
    epoch: int
    output: Output
    runtime_context: Any  # penstock.runtime.task.context.RuntimeContext, handed to user functions
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
    pace: Pace = WALL
    # Which operators before it emit records without timestamps, as an error says it. Told to those that need timestamps.
    untimed_inputs: str | None = None
    # Records flow between barriers, and a barrier may be a minute away: nothing may wait for it. False: the input is one epoch.
    pipelined: bool = False
    # When `finish` is called: whether there is no more input for sure, so that state that waits for more need not be in the last snapshot. False: the
    # job may be drained, and another one go on from its savepoint with what the sources have not read.
    ends_for_good: bool = False
    # Lets the slot's loop call `on_wakeup` of this operator soon. May be called by any thread, at any time.
    wake: Callable[[], None] = _nobody_waits
    # Lets the slot's loop call `on_wakeup` whenever this file can be read (an epoll, a socket), until it is told None.
    # Without it (None), an operator has to ask by its `next_wakeup`.
    watch: Callable[[int | None], None] | None = None
    # Sends bytes to the driver, for a sink that puts them out there at once. `on_taken` tells when it has them.
    tell: Callable[[bytes], None] | None = None


class StreamOperator:
    """Base of all operators: one input, passes watermarks through, keeps nothing.

    A subtask calls, in this order: `open`; then any mix of `process`, `process_watermark`, `process_status` and
    `advance_processing_time`; `finish` if the input ended for good; `barrier`; then `open_epoch` for the next epoch, if
    the operator still lives in this process; `close` at last.

    Where records flow between barriers (`OperatorContext.pipelined`), nobody waits inside a call. The subtask takes input only
    while all its operators have room (`has_room`); it calls `advance_processing_time` as soon as the clock reaches `next_wakeup`,
    `on_wakeup` after somebody called `OperatorContext.wake`, `on_quiet` when it has nothing to read, `on_completed` when a checkpoint is
    durable, and `finish` once nothing is `under_way`.
    """

    # Whether it can take input now. Where it is False, a call of `on_wakeup` or `advance_processing_time` makes it True again.
    has_room: bool = True
    # Whether it has taken records whose results will come by themselves: `finish` would have to wait for them.
    under_way: bool = False

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    def open(self, context: OperatorContext) -> None:
        """Prepare to run. State has been restored already."""
        self.context = context
        self.output = context.output

    def open_epoch(self, context: OperatorContext) -> None:
        """Go on in the next epoch. State is the one this operator had at its last barrier."""
        self.context = context
        self.output = context.output

    def process(self, batch: Any, input_index: int = 0) -> None:
        """Take records, in a Batch of the kind that this operator works on."""
        raise NotImplementedError

    def process_watermark(self, watermark: int) -> None:
        """Take the combined watermark of all inputs; it only moves forward."""
        self.output.emit_watermark(watermark)

    def process_status(self, idle: bool) -> None:
        """Take the combined status of all inputs."""
        self.output.emit_status(idle)

    def advance_processing_time(self, now: int) -> None:
        """Fire what the wall clock allows."""

    def next_wakeup(self) -> int | None:
        """When (epoch milliseconds) this operator wants to run even if no record comes."""
        return None

    def on_wakeup(self) -> None:
        """Go on with what has arrived from outside.

        Somebody called `OperatorContext.wake`, a watched file can be read, or the moment of `next_step` has come.
        """

    def next_step(self) -> float | None:
        """When (on time.monotonic()) `on_wakeup` is to be called although nobody wakes it; None: not at all."""
        return None

    def on_quiet(self) -> None:
        """Emit what is held back only to be sent together with more: there is nothing more to read now."""

    def on_taken(self, size: int) -> None:
        """Take note that the driver has taken so many bytes of what was told."""

    def on_completed(self, checkpoint: int) -> None:
        """Let go of what was kept in case that this checkpoint would not be completed: it is durable, and so are all before it."""

    def finish(self) -> None:
        """The input has ended for good; the watermark MAX was processed before."""

    def barrier(self) -> list[Any]:
        """All records of the epoch were processed: flush, and return committables (sinks only)."""
        return []

    def time_of_commit(self) -> tuple[int, bool] | None:
        """At a barrier: the watermark that a sink's committer is to know, and whether the input is idle; None for nothing."""
        return None

    def close(self) -> None:
        """Release resources."""

    def retire(self) -> Any:
        """Close, but return what the next operator in this place can go on with, such as a connection; None for nothing.

        That operator finds it in `context.extras["kept"]`, whatever its state was restored from, and closes it if it cannot use it.
        """
        self.close()
        return None

    def guard(self, error: BaseException, record: Any = None, known: bool = False) -> UserCodeError:
        """Wrap what the user's function raised."""
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
