"""Asynchronous I/O: `AsyncDataStream`, many concurrent calls per subtask.

In pipelined mode results are emitted as they arrive, and a barrier does not wait: records whose results are outstanding, or
may not be emitted yet, are part of the checkpoint; the calls continue, and are repeated after a restore.

In an epoch the operator waits for the calls in flight at the barrier, for a limited time. Records whose results are still
outstanding become part of the checkpoint: their calls are cancelled, and repeated at the beginning of the next epoch, before
new records, whether the subtask stays in this process or not. The wait doubles with each barrier that a record crosses, so
that a call of any length completes eventually.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, Final, NoReturn, Protocol

from penstock.errors import UnsupportedOperationError
from penstock.graph.operator_specs import AsyncWaitSpec
from penstock.runtime.operators.base import CheckpointInterval, OperatorContext, StreamOperator
from penstock.runtime.operators.emission import Collector, has_side_outputs
from penstock.runtime.operators.functions.async_calls import CallFailedError
from penstock.runtime.operators.functions.async_loop import StepLoop
from penstock.runtime.operators.functions.async_queue import AsyncQueueEntry, AsyncQueueEvent
from penstock.runtime.operators.functions.call_queue import CallQueue
from penstock.runtime.operators.hooks import (
    Asynchronous,
    FollowsCheckpoints,
    LimitsInput,
    UsesProcessingTime,
)
from penstock.runtime.records import RowBatch
from penstock.runtime.user_code import is_checkpointed

_MAX_DOUBLINGS: Final = 12
_LOOK_EVERY_S: Final = 0.001


class CallMode(Protocol):
    """When an execution mode waits for calls."""

    @property
    def has_room(self) -> bool:
        """Whether there is capacity for more input."""

    @property
    def under_way(self) -> bool:
        """Whether the end of the input has to wait for results."""

    def on_input(self) -> None:
        """Records were added."""

    def advance(self) -> None:
        """Processing time has advanced."""

    def next_wakeup(self) -> int | None:
        """Return when `advance` is to be called."""

    def begin_interval(self) -> None:
        """An interval begins, whose barrier `end_interval` has not seen."""

    def end_interval(self) -> None:
        """A barrier: records before it must be emitted, or stay in the queue."""


class EpochCalls:
    """Epoch mode: input waits for capacity in its calls, and the barrier waits for results."""

    create_loop = staticmethod(asyncio.new_event_loop)
    has_room = True
    under_way = False

    def __init__(self, queue: CallQueue, spec: AsyncWaitSpec, clock: Callable[[], int]) -> None:
        self._queue = queue
        self._spec = spec
        self._clock = clock

    def on_input(self) -> None:
        """Wait until all calls have started: then there is capacity for the next batch."""
        self._queue.run(self._queue.all_asked)

    def advance(self) -> None:
        """Start the calls that a barrier left over, and take available results."""
        if not self._queue.is_empty():
            self._queue.admit()
            self._queue.run(_yes)

    def next_wakeup(self) -> int | None:
        """Return now if records wait for their calls: an epoch without new records has to continue them."""
        return self._clock() if self._queue.waiting else None

    def begin_interval(self) -> None:
        """Do nothing: the barrier has begun it."""

    def end_interval(self) -> None:
        """Wait for results, for a limited time; calls that take longer are repeated in the next epoch."""
        queue = self._queue
        if not queue.is_empty():
            queue.admit()
            carried = max(
                (item.carried for item in queue.items() if type(item) is AsyncQueueEntry),
                default=0,
            )
            wait = self._spec.barrier_wait * 2 ** min(carried, _MAX_DOUBLINGS)
            queue.run(queue.is_empty, wait / 1000)
            if not queue.is_empty():
                queue.carry_over()
        queue.calls.begin_interval()


class PipelinedCalls:
    """Pipelined mode: nothing waits, and the subtask takes input only while all calls have started."""

    create_loop = StepLoop

    def __init__(self, queue: CallQueue, spec: AsyncWaitSpec, clock: Callable[[], int]) -> None:
        self._queue = queue
        self._clock = clock

    @property
    def has_room(self) -> bool:
        """Whether the calls of all input records have started."""
        return not self._queue.waiting

    @property
    def under_way(self) -> bool:
        """Whether results are outstanding."""
        return not self._queue.is_empty()

    def on_input(self) -> None:
        """Take available results."""
        self._queue.step()

    def advance(self) -> None:
        """Start calls, and take available results."""
        self._queue.admit()
        self._queue.step()

    def next_wakeup(self) -> int | None:
        """Return now if records wait for their calls and none has started: after a restore."""
        if self._queue.size:
            return None
        return self._clock() if self._queue.waiting else None

    def begin_interval(self) -> None:
        """Number the calls from the barrier on, where a replay begins; those in flight come first."""
        self._queue.calls.begin_interval()

    def end_interval(self) -> None:
        """Do nothing: calls in flight continue."""


class AsyncWaitOperator(
    StreamOperator, UsesProcessingTime, Asynchronous, LimitsInput, FollowsCheckpoints
):
    """Calls an AsyncFunction for each record; at most `capacity` records are in flight."""

    def __init__(
        self,
        spec: AsyncWaitSpec,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        super().__init__(spec)
        self._loop_factory = loop_factory
        self._queue: CallQueue | None = None
        self._watched = False  # whether it is notified of arriving results

    def open(self, context: OperatorContext) -> None:
        """Open the user's function, and queue the in-flight records of the checkpoint."""
        super().open(context)
        kind = PipelinedCalls if context.pipelined else EpochCalls
        loop = (self._loop_factory or kind.create_loop)()
        queue = self._queue = CallQueue(
            self.spec, context, loop, self._guard_calls, self.emit_results
        )
        self._mode: CallMode = kind(queue, self.spec, context.clock)
        queue.calls.begin_interval()
        function = self.spec.function
        if is_checkpointed(function):
            context.runtime_context.initialize_function(function)
        opener = getattr(function, "open", None)
        if callable(opener):
            queue.calls.complete(opener(_FunctionContext(context.runtime_context)))
        self._watermark = queue.restore(context.operator_state)
        # Without a file that signals results, they are polled every millisecond.
        file = loop.fileno() if isinstance(loop, StepLoop) else None
        if file is not None and context.slot is not None:
            self._watched = context.slot.watch(file)

    def begin_interval(self, interval: CheckpointInterval) -> None:
        """Start the next interval; in pipelined mode calls in flight continue."""
        self._mode.begin_interval()

    def close(self) -> None:
        """Cancel the calls in flight and close the user's function."""
        queue, self._queue = self._queue, None
        if queue is not None and self._watched and self.context.slot is not None:
            self.context.slot.watch(None)
        if queue is not None:
            queue.calls.close()

    @property
    def queue(self) -> CallQueue:
        """The records in flight, from `open` to `close`."""
        assert self._queue is not None
        return self._queue

    def _guard_calls(self, drive: Callable[[], None]) -> None:
        try:
            drive()
        except CallFailedError as failed:
            raise self.guard(failed.cause, failed.record, known=True) from failed.cause

    # Input.

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Start a call for each record, within the capacity."""
        times = repeat(None) if batch.timestamps is None else batch.timestamps
        self.start_calls(map(AsyncQueueEntry, batch.values, times))

    def start_calls(self, entries: Iterable[AsyncQueueEntry]) -> None:
        """Start these calls, within the capacity, and take available results."""
        self.queue.add(entries)
        self._mode.on_input()

    def emit_results(self, values: list[Any], times: list[int | None]) -> None:
        """Emit results of calls."""
        if has_side_outputs(values):
            collector = Collector(self.output)
            for value, time in zip(values, times, strict=True):
                collector.add_all((value,), time)
            collector.flush()
        elif values:
            self.output.emit(RowBatch(values, times))

    def process_watermark(self, watermark: int) -> None:
        """Hold a watermark back until the records before it are emitted."""
        if watermark > self._watermark:
            self._watermark = watermark
            self.queue.add_event(AsyncQueueEvent(watermark=watermark))

    def process_status(self, idle: bool) -> None:
        """Hold a status change back until the records before it are emitted."""
        self.queue.add_event(AsyncQueueEvent(idle=idle))

    # Work without input.

    @property
    def has_room(self) -> bool:
        """Whether there is capacity for more input."""
        return self._mode.has_room

    @property
    def under_way(self) -> bool:
        """Whether `finish` has to wait for results."""
        return self._mode.under_way

    def advance_processing_time(self, now: int) -> None:
        """Start calls that wait, and take available results."""
        self._mode.advance()

    def next_wakeup(self) -> int | None:
        """Return now if records wait for their calls, after a restore or in a new epoch."""
        return self._mode.next_wakeup()

    def next_step(self) -> float | None:
        """Return when a call times out or can continue."""
        queue = self.queue
        due = queue.calls.next_step()
        if not self._watched and queue.size:
            look = queue.calls.time() + _LOOK_EVERY_S
            due = look if due is None else min(due, look)
        return due

    def on_wakeup(self) -> None:
        """Take results that have arrived."""
        self.queue.admit()
        self.queue.step()

    # Barriers and the end.

    def barrier(self) -> list[Any]:
        """Make records in flight part of the checkpoint; in an epoch, wait for their results first, for a limited time."""
        self._mode.end_interval()
        self.queue.store(self.context.operator_state)
        return []

    def finish(self, *, ends_for_good: bool) -> None:
        """Wait for all results."""
        self.queue.admit()
        self.queue.run(self.queue.is_empty)


def _yes() -> bool:
    return True


class _FunctionContext:
    """The runtime context of an asynchronous function: without keyed state, because many keys are in flight at once."""

    def __init__(self, runtime_context: Any) -> None:
        self._runtime_context = runtime_context

    def __getattr__(self, name: str) -> object:
        return getattr(self._runtime_context, name)

    def _refuse(self, state_descriptor: object) -> NoReturn:
        raise UnsupportedOperationError(
            "keyed state is not supported in an AsyncFunction",
            detail="records of many keys are in flight at once, so there is no current key",
            hint="use state in a process() before or after the asynchronous call",
        )

    get_state = _refuse
    get_list_state = _refuse
    get_map_state = _refuse
    get_reducing_state = _refuse
    get_aggregating_state = _refuse
