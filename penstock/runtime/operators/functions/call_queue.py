"""Records on their way through asynchronous calls, with the watermarks and status changes between them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from typing import Any, Final

from penstock.graph.operator_specs import AsyncWaitSpec, functions
from penstock.runtime.operators.base import OperatorContext, Output
from penstock.runtime.operators.functions.async_calls import AsyncCalls
from penstock.runtime.operators.functions.async_queue import (
    AsyncQueueEntry,
    AsyncQueueEvent,
    Item,
    OrderedQueue,
    UnorderedQueue,
)
from penstock.runtime.records import MIN_WATERMARK
from penstock.runtime.state.operator_state import SPLIT, OperatorStateBackend

# List state, so that records are redistributed on rescale: (value, timestamp, barriers crossed, results or None).
IN_FLIGHT: Final = f"{SPLIT}{functions.IN_FLIGHT}"
# (records before it, watermark, idle): belongs to the subtask, because upstream sends it again after a rescale.
_CONTROLS: Final = "controls"


class CallQueue:
    """Starts a call for each record, within the capacity, and emits results in the order of the spec.

    `guard_calls` runs what drives the calls, and reports their failures under the operator. `emit` gets results with their
    timestamps.
    """

    def __init__(
        self,
        spec: AsyncWaitSpec,
        context: OperatorContext,
        loop: asyncio.AbstractEventLoop,
        guard_calls: Callable[[Callable[[], None]], None],
        emit: Callable[[list[Any], list[int | None]], None],
    ) -> None:
        #: Records whose calls have not started, and watermarks between them: there was no capacity.
        self.waiting: deque[Item] = deque()
        self.calls = AsyncCalls(
            spec, loop, self._on_answer, context.decisions, f"answers {context.operator_id}"
        )
        self._spec = spec
        self._output: Output = context.output
        self._guard_calls = guard_calls
        self._emit = emit
        #: Records whose calls have started, and watermarks between them.
        self._queue = self._create_queue()
        #: What has left the queue, and is emitted by `flush`.
        self._released: list[Item] = []
        self._max_batch = spec.max_batch and min(spec.max_batch, spec.capacity)

    def _create_queue(self) -> OrderedQueue | UnorderedQueue:
        return OrderedQueue() if self._spec.ordered else UnorderedQueue()

    @property
    def size(self) -> int:
        """The number of records whose calls have started and whose results have not been emitted."""
        return self._queue.size

    def all_asked(self) -> bool:
        """Whether the calls of all records have started."""
        return not self.waiting

    def is_empty(self) -> bool:
        """Whether no results are outstanding."""
        return not self.waiting and not self._queue.size

    # Input.

    def add(self, entries: Iterable[AsyncQueueEntry]) -> None:
        """Start calls for records, as far as there is capacity."""
        self.waiting.extend(entries)
        self.admit()

    def add_event(self, event: AsyncQueueEvent) -> None:
        """Emit a watermark or a status change after the records before it."""
        self.waiting.append(event)
        self.admit()
        self.flush()

    def admit(self) -> None:
        """Move waiting items to the queue and start their calls, within the capacity."""
        if self._max_batch:
            self._admit_together(self._max_batch)
            return
        waiting, queue, capacity, ask = (
            self.waiting,
            self._queue,
            self._spec.capacity,
            self.calls.ask,
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
        waiting, queue = self.waiting, self._queue
        while waiting:
            queue.release(self._released)
            if self._spec.capacity - queue.size < min(most, len(waiting)):
                return
            together: list[AsyncQueueEntry] = []
            while waiting and len(together) < most:
                item = waiting.popleft()
                queue.add(item)
                if type(item) is AsyncQueueEntry and item.results is None:
                    together.append(item)
            if together:
                self.calls.ask_together(together)
        queue.release(self._released)

    # Results.

    def _on_answer(self, entry: AsyncQueueEntry) -> None:
        self._queue.on_answer(entry)
        self._queue.release(self._released)
        if self.waiting:
            self.admit()

    def run(self, enough: Callable[[], bool], limit: float | None = None) -> None:
        """Wait for results until `enough()`, for at most `limit` seconds, and emit them."""
        self._guard_calls(partial(self.calls.run, enough, limit))
        self.flush()

    def step(self) -> None:
        """Emit the results that have arrived."""
        self._guard_calls(self.calls.step)
        self.flush()

    def flush(self) -> None:
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
                    self._output.emit_watermark(item.watermark)
                elif item.idle is not None:
                    self._output.emit_status(item.idle)
        self._emit(values, times)

    # State.

    def items(self) -> list[Item]:
        """Return the records whose results have not been emitted, and what is between them, in order."""
        return [*self._queue, *self.waiting]

    def carry_over(self) -> None:
        """Cancel all calls and queue their records again, under new entries that old calls cannot complete."""
        items = self.items()
        self.calls.cancel()
        self._queue = self._create_queue()
        self.waiting = deque(
            AsyncQueueEntry(item.value, item.timestamp, item.carried + 1, item.results)
            if type(item) is AsyncQueueEntry
            else item
            for item in items
        )

    def store(self, state: OperatorStateBackend) -> None:
        """Write all items to the operator's state."""
        if self.is_empty() and not state.get(IN_FLIGHT):
            return
        entries: list[tuple[Any, ...]] = []
        controls: list[tuple[Any, ...]] = []
        for item in self.items():
            if type(item) is AsyncQueueEntry:
                entries.append((item.value, item.timestamp, item.carried, item.results))
            elif isinstance(item, AsyncQueueEvent):
                controls.append((len(entries), item.watermark, item.idle))
        state.put(IN_FLIGHT, entries)
        state.put(_CONTROLS, controls)

    def restore(self, state: OperatorStateBackend) -> int:
        """Queue the items of the operator's state; return the last watermark among them."""
        last = MIN_WATERMARK
        entries = [AsyncQueueEntry(*saved) for saved in state.get(IN_FLIGHT, ())]
        at = 0
        for position, watermark, idle in state.get(_CONTROLS, ()):
            self.waiting.extend(entries[at:position])
            self.waiting.append(AsyncQueueEvent(watermark, idle))
            at = position
            if watermark is not None:
                last = watermark
        self.waiting.extend(entries[at:])
        return last
