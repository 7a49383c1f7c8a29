"""Asynchronous I/O: `AsyncDataStream`, many concurrent calls per subtask.

In pipelined mode results are emitted as they arrive, and a barrier does not wait: records whose results are outstanding,
or may not
be emitted yet, are part of the checkpoint; the calls continue, and are repeated after a restore.

In an epoch the operator waits for the calls in flight at the barrier, for a limited time. Records whose results are still
outstanding become part of the checkpoint: their calls are cancelled, and repeated at the beginning of the next epoch,
before new
records, whether the subtask stays in this process or not. The wait doubles with each barrier that a record crosses, so
that a call
of any length completes eventually.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import Any, Final, NoReturn

from penstock.errors import UnsupportedOperationError
from penstock.graph.operator_specs import AsyncWaitSpec, functions
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.emission import Collector, has_side_outputs
from penstock.runtime.operators.functions.async_calls import AsyncCalls, CallFailedError
from penstock.runtime.operators.functions.async_loop import StepLoop
from penstock.runtime.operators.functions.async_queue import (
    AsyncQueueEntry,
    AsyncQueueEvent,
    Item,
    OrderedQueue,
    UnorderedQueue,
)
from penstock.runtime.records import MIN_WATERMARK, RowBatch
from penstock.runtime.state.operator_state import SPLIT
from penstock.runtime.user_code import is_checkpointed

# List state, so that records are redistributed on rescale: (value, timestamp, barriers crossed, results or None).
IN_FLIGHT: Final = f"{SPLIT}{functions.IN_FLIGHT}"
# (records before it, watermark, idle): belongs to the subtask, because upstream sends it again after a rescale.
_CONTROLS: Final = "controls"
_MAX_DOUBLINGS: Final = 12
_LOOK_EVERY_S: Final = 0.001


class AsyncWaitOperator(StreamOperator):
    """Calls an AsyncFunction for each record; at most `capacity` records are in flight."""

    def __init__(
        self,
        spec: AsyncWaitSpec,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        super().__init__(spec)
        self._loop_factory = loop_factory
        self._calls: AsyncCalls | None = None
        self._watched = False  # whether it is notified of arriving results

    def open(self, context: OperatorContext) -> None:
        """Open the user's function, and queue the in-flight records of the checkpoint."""
        super().open(context)
        self._waiting: deque[Item] = deque()  # calls not started yet
        self._queue = self._create_queue()
        self._released: list[Item] = []
        self._watermark = MIN_WATERMARK
        self._max_batch = self.spec.max_batch and min(self.spec.max_batch, self.spec.capacity)
        self._pipelined = context.pipelined
        create_loop = StepLoop if self._pipelined else asyncio.new_event_loop
        loop = (self._loop_factory or create_loop)()
        self._calls = AsyncCalls(
            self.spec,
            loop,
            self._on_answer,
            context.decisions,
            f"answers {context.operator_id}",
        )
        self._calls.begin_interval()
        function = self.spec.function
        if is_checkpointed(function):
            context.runtime_context.initialize_function(function)
        opener = getattr(function, "open", None)
        if callable(opener):
            self._calls.complete(opener(_FunctionContext(context.runtime_context)))
        self._restore()
        # Without a file that signals results, they are polled every millisecond.
        file = loop.fileno() if isinstance(loop, StepLoop) else None
        self._watched = file is not None and context.watch is not None
        if self._watched and context.watch is not None:
            context.watch(file)

    def open_interval(self, context: OperatorContext) -> None:
        """Start the next epoch; in pipelined mode calls in flight continue."""
        super().open_interval(context)
        if self._pipelined and self._calls is not None:
            self._calls.begin_interval()

    def close(self) -> None:
        """Cancel the calls in flight and close the user's function."""
        calls, self._calls = self._calls, None
        if calls is not None and self._watched and self.context.watch is not None:
            self.context.watch(None)
        if calls is not None:
            calls.close()

    def _create_queue(self) -> OrderedQueue | UnorderedQueue:
        return OrderedQueue() if self.spec.ordered else UnorderedQueue()

    # Input

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Start a call for each record, within the capacity."""
        times = repeat(None) if batch.timestamps is None else batch.timestamps
        self._waiting.extend(map(AsyncQueueEntry, batch.values, times))
        self._admit()
        if self._pipelined:
            self._step()
        else:
            self._run(self._all_asked)

    def process_watermark(self, watermark: int) -> None:
        """Hold a watermark back until the records before it are emitted."""
        if watermark > self._watermark:
            self._watermark = watermark
            self._add_control(AsyncQueueEvent(watermark=watermark))

    def process_status(self, idle: bool) -> None:
        """Hold a status change back until the records before it are emitted."""
        self._add_control(AsyncQueueEvent(idle=idle))

    def _add_control(self, control: AsyncQueueEvent) -> None:
        self._waiting.append(control)
        self._admit()
        self._flush()

    def advance_processing_time(self, now: int) -> None:
        """Start the calls that a barrier left over, and take available results."""
        if self._pipelined:
            self.on_wakeup()
        elif not self._is_empty():
            self._admit()
            self._run(_yes)

    def next_wakeup(self) -> int | None:
        """Return now if records wait for their calls, after a restore or in a new epoch."""
        if self._pipelined and self._queue.size:
            return None
        return self.context.clock() if self._waiting else None

    # Pipelined mode.

    @property
    def has_room(self) -> bool:  # type: ignore[override]
        """Whether the calls of all input records have started."""
        return not self._pipelined or not self._waiting

    @property
    def under_way(self) -> bool:  # type: ignore[override]
        """Whether results are outstanding."""
        return self._pipelined and not self._is_empty()

    def next_step(self) -> float | None:
        """Return when a call times out or can continue."""
        assert self._calls is not None
        due = self._calls.next_step()
        if not self._watched and self._queue.size:
            look = self._calls.time() + _LOOK_EVERY_S
            due = look if due is None else min(due, look)
        return due

    def on_wakeup(self) -> None:
        """Take results that have arrived."""
        self._admit()
        self._step()

    def _step(self) -> None:
        assert self._calls is not None
        self._follow(self._calls.step)

    def finish(self) -> None:
        """Wait for all results."""
        self._admit()
        self._run(self._is_empty)

    # Calls and results.

    def _all_asked(self) -> bool:
        return not self._waiting

    def _is_empty(self) -> bool:
        return not self._waiting and not self._queue.size

    def _admit(self) -> None:
        """Move waiting items to the queue and start their calls, within the capacity."""
        if self._max_batch:
            self._admit_together(self._max_batch)
            return
        assert self._calls is not None
        waiting, queue, capacity, ask = (
            self._waiting,
            self._queue,
            self.spec.capacity,
            self._calls.ask,
        )
        while waiting:
            item = waiting[0]
            if type(item) is not AsyncQueueEntry:
                queue.add(item)
            else:
                if queue.size >= capacity:
                    queue.release(self._released)
                    if queue.size >= capacity:
                        return
                queue.add(item)
                if item.results is None:
                    ask(item)
            waiting.popleft()
        queue.release(self._released)

    def _admit_together(self, most: int) -> None:
        """The same for calls with many records: wait until there is capacity for a full call."""
        assert self._calls is not None
        waiting, queue = self._waiting, self._queue
        while waiting:
            queue.release(self._released)
            if self.spec.capacity - queue.size < min(most, len(waiting)):
                return
            together: list[AsyncQueueEntry] = []
            while waiting and len(together) < most:
                item = waiting.popleft()
                queue.add(item)
                if type(item) is AsyncQueueEntry and item.results is None:
                    together.append(item)
            if together:
                self._calls.ask_together(together)
        queue.release(self._released)

    def _on_answer(self, entry: AsyncQueueEntry) -> None:
        self._queue.on_answer(entry)
        self._queue.release(self._released)
        if self._waiting:
            self._admit()

    def _run(self, enough: Callable[[], bool], limit: float | None = None) -> None:
        assert self._calls is not None
        self._follow(partial(self._calls.run, enough, limit))

    def _follow(self, drive: Callable[[], None]) -> None:
        """Drive the calls, then emit completed records."""
        try:
            drive()
        except CallFailedError as failed:
            raise self.guard(failed.cause, failed.record, known=True) from failed.cause
        self._flush()

    def _flush(self) -> None:
        """Emit what left the queue. The loop does not run now: downstream operators may have their own."""
        released, self._released = self._released, []
        values: list[Any] = []
        times: list[int | None] = []
        for item in released:
            if type(item) is AsyncQueueEntry:
                results = item.results or ()
                values.extend(results)
                times.extend(repeat(item.timestamp, len(results)))
            elif isinstance(item, AsyncQueueEvent):
                self._emit(values, times)
                values, times = [], []
                if item.watermark is not None:
                    self.output.emit_watermark(item.watermark)
                elif item.idle is not None:
                    self.output.emit_status(item.idle)
        self._emit(values, times)

    def _emit(self, values: list[Any], times: list[int | None]) -> None:
        if has_side_outputs(values):
            collector = Collector(self.output)
            for value, time in zip(values, times, strict=True):
                collector.add_all((value,), time)
            collector.flush()
        elif values:
            self.output.emit(RowBatch(values, times))

    # State

    def barrier(self) -> list[Any]:
        """Make records in flight part of the checkpoint; in an epoch, wait for their results first, for a limited time."""
        if not self._pipelined and not self._is_empty():
            self._admit()
            carried = max(
                (item.carried for item in self._items() if type(item) is AsyncQueueEntry), default=0
            )
            wait = self.spec.barrier_wait * 2 ** min(carried, _MAX_DOUBLINGS)
            self._run(self._is_empty, wait / 1000)
            if not self._is_empty():
                self._carry_over()
        if not self._pipelined:
            assert self._calls is not None
            self._calls.begin_interval()
        self._snapshot()
        return []

    def _items(self) -> list[Item]:
        return [*self._queue, *self._waiting]

    def _carry_over(self) -> None:
        """Cancel all calls and queue their records for the next epoch, under new entries that old calls cannot complete."""
        assert self._calls is not None
        items = self._items()
        self._calls.cancel()
        self._queue = self._create_queue()
        self._waiting = deque(
            AsyncQueueEntry(item.value, item.timestamp, item.carried + 1, item.results)
            if type(item) is AsyncQueueEntry
            else item
            for item in items
        )

    def _snapshot(self) -> None:
        state = self.context.operator_state
        if self._is_empty() and not state.get(IN_FLIGHT):
            return
        entries: list[tuple[Any, ...]] = []
        controls: list[tuple[Any, ...]] = []
        for item in self._items():
            if type(item) is AsyncQueueEntry:
                entries.append((item.value, item.timestamp, item.carried, item.results))
            elif isinstance(item, AsyncQueueEvent):
                controls.append((len(entries), item.watermark, item.idle))
        state.put(IN_FLIGHT, entries)
        state.put(_CONTROLS, controls)

    def _restore(self) -> None:
        state = self.context.operator_state
        entries = [AsyncQueueEntry(*saved) for saved in state.get(IN_FLIGHT, ())]
        at = 0
        for position, watermark, idle in state.get(_CONTROLS, ()):
            self._waiting.extend(entries[at:position])
            self._waiting.append(AsyncQueueEvent(watermark, idle))
            at = position
            if watermark is not None:
                self._watermark = watermark
        self._waiting.extend(entries[at:])


def _yes() -> bool:
    return True


class _FunctionContext:
    """The runtime context of an asynchronous function: without keyed state, because many keys are in flight at once."""

    def __init__(self, runtime_context: Any) -> None:
        self._runtime_context = runtime_context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime_context, name)

    def _refuse(self, state_descriptor: Any) -> NoReturn:
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
