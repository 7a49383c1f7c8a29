"""The interface between an operator and the subtask that runs it.

Every operator is a `StreamOperator`. What else a subtask calls is declared by the protocols of `hooks`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from penstock.errors.user_errors import UserCodeError, shorten
from penstock.runtime.operators.runtime_context import StreamingRuntimeContext
from penstock.runtime.records import Batch
from penstock.runtime.state.keyed import KeyedStateBackend
from penstock.runtime.state.operator_state import OperatorStateBackend
from penstock.runtime.time.decisions import WALL, RuntimeDecisions
from penstock.runtime.time.timers import TimerManager


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


class OperatorSlot(Protocol):
    """What the slot of a pipelined subtask does for one operator."""

    def wake(self) -> None:
        """Call `on_wakeup` of the operator soon. Thread-safe."""

    def watch(self, file: int | None) -> bool:
        """Call `on_wakeup` whenever this file is readable (an epoll, a socket); None stops it.

        Returns whether it does; otherwise the operator has to poll by its `next_step`.
        """

    def tell(self, data: bytes) -> None:
        """Send the output of a sink to the driver. `on_taken` acknowledges it."""


@dataclass(frozen=True, slots=True)
class CheckpointInterval:
    """The interval that ends with the barrier of a checkpoint, in one attempt."""

    checkpoint_id: int
    #: Names the attempt; in epoch mode, that of the epoch.
    attempt: str
    #: A directory for output that is not committed yet.
    staging: str


class KeyedContext(NamedTuple):
    """State and timers of an operator with a keyed input."""

    state: KeyedStateBackend
    timers: TimerManager


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """The environment of an operator, the same from `open` to `close`."""

    operator_id: str
    operator_name: str
    #: The index of the subtask, from 0, and the number of subtasks.
    subtask: int
    parallelism: int
    #: The number of key groups.
    max_parallelism: int
    job_id: str
    #: The interval in which it is opened. `FollowsCheckpoints` passes later ones.
    interval: CheckpointInterval
    #: Whether the job takes checkpoints. Without them, output cannot wait for one.
    checkpointed: bool
    output: Output
    #: The context that user functions are opened with.
    runtime_context: StreamingRuntimeContext
    operator_state: OperatorStateBackend
    #: None if the input is not keyed.
    keyed: KeyedContext | None
    #: Processing time in epoch milliseconds: that of `decisions`.
    clock: Callable[[], int]
    #: Decisions that a replay repeats.
    decisions: RuntimeDecisions = WALL
    #: In milliseconds; 0: watermarks are emitted per event only.
    auto_watermark_interval: int = 200
    #: Whether the job runs in BATCH mode: there is no watermark before the end.
    batch_mode: bool = False
    #: Error text about upstream operators that emit records without timestamps. Set for operators that need timestamps.
    untimed_inputs: str | None = None
    #: In pipelined mode only. There a barrier may be a minute away, so nothing may wait for it; without, the input is one epoch.
    slot: OperatorSlot | None = None

    @property
    def pipelined(self) -> bool:
        """Whether the operator runs in pipelined mode. It chooses a strategy when the operator is opened, and nothing else."""
        return self.slot is not None

    @property
    def keyed_state(self) -> KeyedStateBackend:
        """The keyed state of an operator whose input is keyed."""
        assert self.keyed is not None
        return self.keyed.state

    @property
    def timers(self) -> TimerManager:
        """The timers of an operator whose input is keyed."""
        assert self.keyed is not None
        return self.keyed.timers

    def failure(
        self, error: BaseException, record: object = None, known: bool = False
    ) -> UserCodeError:
        """Return an exception of the operator's user function with its place; `known`: for this record."""
        shown = shorten(record) if known else None
        wrapped = UserCodeError(
            f"{type(error).__name__}: {error}",
            detail=f"in operator '{self.operator_name}', subtask {self.subtask + 1} of "
            f"{self.parallelism}" + (f", record {shown}" if shown is not None else ""),
        )
        wrapped.__cause__ = error
        wrapped.operator_id = self.operator_id
        wrapped.record_known, wrapped.record = known, record
        return wrapped


class StreamOperator:
    """Base class of all operators: one input, passes watermarks through, has no state.

    A subtask calls, in this order: `open`; then any mix of `process`, `process_watermark` and `process_status`; `finish` if the
    input ended; `barrier`; then the same again for the next interval, if the operator is still in this process; finally
    `close`. In pipelined mode, no call blocks.
    """

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    def open(self, context: OperatorContext) -> None:
        """Prepare to run. State is restored before."""
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

    def finish(self, *, ends_for_good: bool) -> None:
        """The input has ended; the watermark MAX was processed before.

        With `ends_for_good`, state that waits for more input need not be in the last snapshot. Otherwise the job may be
        drained, and another one may continue from its savepoint with the unread input.
        """

    def barrier(self) -> list[Any]:
        """All records before the barrier were processed: flush, and return committables (sinks only)."""
        return []

    def close(self) -> None:
        """Release resources."""

    def guard(
        self, error: BaseException, record: object = None, known: bool = False
    ) -> UserCodeError:
        """Wrap an exception of the user's function."""
        return self.context.failure(error, record, known)
