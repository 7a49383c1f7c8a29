"""Interval joins: elements of two keyed inputs whose timestamps are close.

Each side keeps its elements twice over: in a state table by (key, timestamp), organised by timestamp so that what
nobody can join any more is dropped as a whole, without timers; and in an index per key, sorted by timestamp, so that an
element finds its partners with two binary searches. The lists of values are shared by both.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from penstock.errors import PenstockError, RecordError
from penstock.graph.operator_specs import IntervalJoinSpec
from penstock.graph.operator_specs.two_inputs import LEFT, RIGHT
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.emission import Collector
from penstock.runtime.records import RowBatch
from penstock.runtime.state.panes import PANE_PREFIX, PaneTable
from penstock.runtime.user_code import close_functions, open_function

Partners = tuple[list[int], list[list[Any]]]  # timestamps, ascending, and the values at each


class JoinContext:
    """Given to `process_element`. One object serves all pairs: it always shows the one being processed."""

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

    An element with timestamp t goes away when the watermark reaches `t + keep`.
    """

    def __init__(self, table: PaneTable, keep: int) -> None:
        self.table = table
        self.keep = keep
        self._index: dict[Any, Partners] = {}
        for (key, timestamp), values in sorted(table.items(), key=lambda entry: entry[0][1]):
            times, buckets = self._index.setdefault(key, ([], []))
            times.append(timestamp)
            buckets.append(values)
        self._times: list[int] = sorted(table.namespaces())  # a sorted list is a heap

    def add(self, key: Any, timestamp: int, value: Any) -> None:
        """Keep an element."""
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = ([], [])
        times, buckets = found
        at = len(times)
        if at and times[-1] >= timestamp:  # most elements are the latest of their key
            at = bisect_left(times, timestamp)
        if at < len(times) and times[at] == timestamp:
            values = buckets[at]
            values.append(value)
        else:
            values = [value]
            times.insert(at, timestamp)
            buckets.insert(at, values)
        table = self.table
        pane = table.touched.get(timestamp)
        if pane is None:
            if timestamp not in table.data:
                heapq.heappush(self._times, timestamp)
            pane, _ = table.pane(timestamp)
        pane[key] = values

    def between(self, key: Any, first: int, last: int) -> Iterator[tuple[int, list[Any]]]:
        """Iterate over the timestamps from `first` to `last`, both included, with the values at each."""
        found = self._index.get(key)
        if found is None:
            return iter(())
        times, buckets = found
        low, high = bisect_left(times, first), bisect_right(times, last)
        return zip(times[low:high], buckets[low:high], strict=True)

    def expire(self, watermark: int) -> None:
        """Drop what no partner can come for any more."""
        times = self._times
        if not times or times[0] + self.keep > watermark:
            return
        gone: dict[Any, None] = {}
        while times and times[0] + self.keep <= watermark:
            gone.update(dict.fromkeys(self.table.pop_pane(heapq.heappop(times))))
        for key in gone:
            stamps, buckets = self._index[key]
            end = bisect_right(stamps, watermark - self.keep)
            if end == len(stamps):
                del self._index[key]
            else:
                del stamps[:end]
                del buckets[:end]


class IntervalJoinOperator(StreamOperator):
    """Calls the function with every pair that is within the bounds, whichever element comes last.

    An element is late iff its timestamp is less than the watermark.
    """

    def __init__(self, spec: IntervalJoinSpec) -> None:
        super().__init__(spec)
        # How far from an element's timestamp its partners on the other side are: (least, greatest) per input.
        self._reach = ((spec.lower, spec.upper), (-spec.upper, -spec.lower))
        self._late_tags = (spec.left_late_tag, spec.right_late_tag)
        self._context = JoinContext()

    def open(self, context: OperatorContext) -> None:
        """Find the elements that were restored, and open the function."""
        super().open(context)
        self.backend = context.keyed_state
        self.timers = context.timers
        self.collector = Collector(context.output)
        self.buffers = tuple(
            JoinBuffer(
                self.backend.table(f"{PANE_PREFIX}{side.name}", namespaced=True),
                max(reach[1], 0),
            )
            for side, reach in zip((LEFT, RIGHT), self._reach, strict=True)
        )
        self._late_counter = context.runtime_context.get_metrics_group().counter(
            "numLateRecordsDropped"
        )
        open_function(self.spec.function, context.runtime_context)

    def open_epoch(self, context: OperatorContext) -> None:
        """Go on in the next epoch."""
        super().open_epoch(context)
        self.collector = Collector(context.output)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Join each record with the partners that are there, and keep it for those to come."""
        own, other = self.buffers[input_index], self.buffers[1 - input_index]
        least, greatest = self._reach[input_index]
        watermark = self.timers.watermark
        keys, times = batch.keys or (), batch.timestamps
        if times is None or None in times:
            raise RecordError(
                "a record without a timestamp reached an interval join",
                hint="call assign_timestamps_and_watermarks(...) on both streams before the join",
            )
        for value, timestamp, key in zip(batch.values, times, keys, strict=True):
            assert timestamp is not None
            if timestamp < watermark:
                self._take_late(value, timestamp, input_index)
                continue
            own.add(key, timestamp, value)
            for partner_time, partners in other.between(
                key, timestamp + least, timestamp + greatest
            ):
                self._join(key, value, timestamp, partners, partner_time, input_index)
        self.collector.flush()

    def _join(
        self,
        key: Any,
        value: Any,
        timestamp: int,
        partners: list[Any],
        partner_time: int,
        input_index: int,
    ) -> None:
        self.backend.current_key = key
        context, collector = self._context, self.collector
        process = self.spec.function.process_element
        is_left = input_index == 0
        if is_left:
            context.left, context.right = timestamp, partner_time
        else:
            context.left, context.right = partner_time, timestamp
        result_time = max(timestamp, partner_time)
        for partner in partners:
            left, right = (value, partner) if is_left else (partner, value)
            try:
                full = collector.gather(process(left, right, context), result_time)
            except PenstockError:
                raise
            except Exception as error:
                raise self.guard(error, (left, right), known=True) from error
            if full:
                collector.flush()

    def _take_late(self, value: Any, timestamp: int, input_index: int) -> None:
        tag = self._late_tags[input_index]
        if tag is None:
            self._late_counter.inc()
        else:
            self.collector.add_side(tag, value, timestamp)

    def process_watermark(self, watermark: int) -> None:
        """Drop elements whose time is over, then send the watermark on."""
        self.timers.advance_watermark(watermark, _no_timer)
        for buffer in self.buffers:
            buffer.expire(watermark)
        self.output.emit_watermark(watermark)

    def close(self) -> None:
        """Close the user's function."""
        close_functions([self.spec.function])


def _no_timer(time: int, key: Any, namespace: Any) -> None:
    """Ignore timers: this operator has none."""
