"""Interval joins: elements of two keyed inputs whose timestamps are close.

Each side keeps its elements in an index per key, sorted by timestamp, so that an element finds its partners with two binary
searches. They are written to the state table, by (key, timestamp), at the barrier: most elements come and go between two
barriers.
Expired elements are removed in time buckets, without timers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any, Final

from penstock.common.user_types import Key, Record
from penstock.errors import PenstockError
from penstock.graph.operator_specs import IntervalJoinSpec
from penstock.graph.operator_specs.two_inputs import LEFT, RIGHT
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.emission import Collector
from penstock.runtime.operators.lateness import LateRecords, earliest_joinable
from penstock.runtime.operators.missing_timestamps import lowest_timestamp
from penstock.runtime.records import MIN_WATERMARK, RowBatch
from penstock.runtime.state.panes import PANE_PREFIX, PaneTable
from penstock.runtime.user_code import close_functions, open_function

Partners = tuple[list[int], list[list[Any]]]  # timestamps, ascending, and the values at each

# Elements of this many milliseconds are removed together, or of an eighth of the interval if that is more.
_BUCKET_MS: Final = 64
_FRESH_LIMIT: Final = 16_384


class JoinContext:
    """The context of `process_element`. One object is reused for all pairs."""

    __slots__ = ("left", "right")

    def __init__(self) -> None:
        self.left = self.right = 0

    def get_left_timestamp(self) -> int:
        """Return the timestamp of the left element."""
        return self.left

    def get_right_timestamp(self) -> int:
        """Return the timestamp of the right element."""
        return self.right

    def get_timestamp(self) -> int:
        """Return the timestamp of the results."""
        return max(self.left, self.right)


class JoinBuffer:
    """The elements of one side that may still find partners.

    An element with timestamp t expires when the watermark reaches `t + keep`: it is no longer found, even if it is still
    indexed.
    """

    def __init__(self, table: PaneTable, keep: int, interval: int) -> None:
        self.table = table
        self.keep = keep
        self.gone = MIN_WATERMARK  # elements up to this timestamp have expired
        # An element may arrive when the watermark has already reached its timestamp. If it is not kept for longer, it
        # still finds its partners until the next watermark, but not expired ones: so their buckets are exact.
        self._width = max(_BUCKET_MS, interval // 8) if keep else 1
        self.index: dict[Any, Partners] = {}
        self._buckets: dict[int, set[Any]] = {}  # keys with elements in a bucket
        self._bucket_heap: list[int] = []
        self._stored = table.namespaces()  # a heap of the timestamps in the table
        heapify(self._stored)
        # Elements that are not in the table yet: (timestamp, key, values at that timestamp).
        self._fresh: list[tuple[int, Any, list[Any]]] = []
        self._fresh_limit = _FRESH_LIMIT
        for (key, timestamp), values in sorted(table.items(), key=lambda entry: entry[0][1]):
            times, buckets = self.index.setdefault(key, ([], []))
            times.append(timestamp)
            buckets.append(values)
            self._note_bucket(timestamp // self._width, key)

    def _note_bucket(self, number: int, key: object) -> None:
        keys = self._buckets.get(number)
        if keys is None:
            keys = self._buckets[number] = set()
            heappush(self._bucket_heap, number)
        keys.add(key)

    def add(self, key: Key, timestamp: int, value: Record) -> None:
        """Keep an element."""
        found = self.index.get(key)
        if found is None:
            values = [value]
            self.index[key] = ([timestamp], [values])
        else:
            times, buckets = found
            at = len(times)
            if times[-1] >= timestamp:  # most elements are the latest of their key
                at = bisect_left(times, timestamp)
            if at < len(times) and times[at] == timestamp:
                values = buckets[at]
                values.append(value)
            else:
                values = [value]
                times.insert(at, timestamp)
                buckets.insert(at, values)
        number = timestamp // self._width
        keys = self._buckets.get(number)
        if keys is None:
            self._note_bucket(number, key)
        else:
            keys.add(key)
        fresh = self._fresh
        fresh.append((timestamp, key, values))
        if len(fresh) >= self._fresh_limit:
            self._forget_gone()

    def expire(self, watermark: int) -> None:
        """Remove elements for which no partner can arrive any more."""
        gone = self.gone = watermark - self.keep
        while self._stored and self._stored[0] <= gone:
            self.table.pop_pane(heappop(self._stored))
        heap, index = self._bucket_heap, self.index
        expired: set[Any] = set()
        while heap and (heap[0] + 1) * self._width - 1 <= gone:
            expired |= self._buckets.pop(heappop(heap))
        for key in expired:
            found = index.get(key)
            if found is None:
                continue
            times, buckets = found
            end = bisect_right(times, gone)
            if end == len(times):
                del index[key]
            else:
                del times[:end]
                del buckets[:end]

    def _forget_gone(self) -> None:
        """Drop elements that came and went since the last barrier."""
        self._fresh = [each for each in self._fresh if self._lives(*each)]
        self._fresh_limit = max(_FRESH_LIMIT, 2 * len(self._fresh))

    def _lives(self, timestamp: int, key: object, values: list[Any]) -> bool:
        if timestamp != self.gone or self.keep:
            return timestamp > self.gone
        times, buckets = self.index.get(key, ((), ()))
        at = bisect_left(times, timestamp)
        return at < len(times) and buckets[at] is values

    def save(self) -> None:
        """Write the elements since the last barrier that have not expired to the table."""
        table = self.table
        for timestamp, key, values in self._fresh:
            if self._lives(timestamp, key, values):
                if timestamp not in table.touched and timestamp not in table.data:
                    heappush(self._stored, timestamp)
                table.pane(timestamp)[0][key] = values
        self._fresh = []
        self._fresh_limit = _FRESH_LIMIT


class IntervalJoinOperator(StreamOperator):
    """Calls the function for every pair within the bounds, whichever element arrives last.

    An element is late iff its timestamp is less than the watermark.
    """

    def __init__(self, spec: IntervalJoinSpec) -> None:
        super().__init__(spec)
        # The range of the partners' timestamps relative to an element: (least, greatest) per input.
        self._reach = ((spec.lower, spec.upper), (-spec.upper, -spec.lower))
        self._late_tags = (spec.left_late_tag, spec.right_late_tag)
        self._context = JoinContext()

    def open(self, context: OperatorContext) -> None:
        """Find the restored elements, and open the function."""
        super().open(context)
        self.backend = context.keyed_state
        self.timers = context.timers
        self.collector = Collector.of_function(context)
        self.buffers = tuple(
            JoinBuffer(
                self.backend.table(f"{PANE_PREFIX}{side.name}", namespaced=True),
                max(reach[1], 0),
                self.spec.upper - self.spec.lower,
            )
            for side, reach in zip((LEFT, RIGHT), self._reach, strict=True)
        )
        self._late = LateRecords(context)
        open_function(self.spec.function, context.runtime_context)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Join each record with existing partners, and keep it for later ones."""
        own, other = self.buffers[input_index], self.buffers[1 - input_index]
        least, greatest = self._reach[input_index]
        earliest = earliest_joinable(self.timers.watermark)
        keys, times = batch.keys or (), batch.timestamps
        if not batch.values:
            return
        lowest_timestamp(batch, self.context, "an interval join")
        index, add = other.index, own.add
        first = other.gone + 1 if other.keep else MIN_WATERMARK
        for value, timestamp, key in zip(batch.values, times or (), keys, strict=True):
            assert timestamp is not None
            if timestamp < earliest:
                self._take_late(value, timestamp, input_index)
                continue
            add(key, timestamp, value)
            found = index.get(key)
            if found is None:
                continue
            there, buckets = found
            low = bisect_left(there, max(timestamp + least, first))
            high = bisect_right(there, timestamp + greatest, low)
            if low < high:
                self.backend.current_key = key
                partners = zip(there[low:high], buckets[low:high], strict=True)
                self._join(value, timestamp, partners, input_index)
        self.collector.flush()

    def _join(
        self,
        value: Any,
        timestamp: int,
        partners: Iterable[tuple[int, list[Any]]],
        input_index: int,
    ) -> None:
        context, collector = self._context, self.collector
        process = self.spec.function.process_element
        is_left = input_index == 0
        for partner_time, values in partners:
            if is_left:
                context.left, context.right = timestamp, partner_time
            else:
                context.left, context.right = partner_time, timestamp
            result_time = max(timestamp, partner_time)
            for partner in values:
                left, right = (value, partner) if is_left else (partner, value)
                try:
                    full = collector.gather(process(left, right, context), result_time)
                except PenstockError:
                    raise
                except Exception as error:
                    raise self.guard(error, (left, right), known=True) from error
                if full:
                    collector.flush()

    def _take_late(self, value: object, timestamp: int, input_index: int) -> None:
        tag = self._late_tags[input_index]
        if tag is None:
            self._late.drop((timestamp,), self.timers.watermark)
        else:
            self.collector.add_side(tag, value, timestamp)

    def process_watermark(self, watermark: int) -> None:
        """Remove expired elements, then forward the watermark."""
        self.timers.advance_watermark(watermark, _no_timer)
        for buffer in self.buffers:
            buffer.expire(watermark)
        self.output.emit_watermark(watermark)

    def barrier(self) -> list[Any]:
        """Write the elements since the last barrier to the state."""
        for buffer in self.buffers:
            buffer.save()
        return super().barrier()

    def close(self) -> None:
        """Close the user's function."""
        close_functions([self.spec.function])


def _no_timer(time: int, key: object, namespace: object) -> None:
    """Ignore timers: this operator has none."""
