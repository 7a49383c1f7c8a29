"""The fast window operator: event-time tumbling and sliding windows that fire once, at their end.

All windows that end at one time end for all keys, so no timer per key is needed: contents are kept as
window -> {key: contents}, and a watermark takes whole windows out.

Tumbling windows are looked up inside the loop that folds records. For sliding windows the time line is cut into *slices*: all
timestamps of a slice belong to the same windows. A batch within one slice is folded into each of its windows directly;
otherwise records are first sorted into their windows, which keeps their order within each.

Measured with Python 3.11, batches of 4,096 records, 10,000 keys, an aggregate of (sum, count) that itself takes 110 ns:
tumbling windows take 280-450 ns a record and the general operator 3,700 ns; three sliding windows take 1,000-1,450
ns, the general operator 10,700 ns.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from penstock.errors import CheckpointError
from penstock.graph.operator_specs import WindowSpec
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.lateness import last_late_start
from penstock.runtime.operators.missing_timestamps import lowest_timestamp
from penstock.runtime.operators.windows.window_base import CONTENTS, PANES, WindowOperatorBase
from penstock.runtime.operators.windows.window_contents import AggregatedContents, ElementContents
from penstock.runtime.records import RowBatch
from penstock.runtime.state.panes import PaneTable
from penstock.runtime.state.table import MISSING
from penstock.runtime.user_code import position_of_failure
from penstock.windowing import TimeWindow

_EMIT_AT = 4096

Pane = tuple[int, dict[Any, Any], dict[Any, Any] | None]  # end, contents of this epoch, of before
Fold = Callable[[Any, Iterable[int], Iterable[Any], int, int, dict[int, Pane]], None]
ONE_PANE = 0, 1  # offset and slide that map every timestamp 0 to the pane at 0


class _PaneIndex(dict[int, Pane]):
    """Panes by window start, created on first access."""

    def __init__(self, create: Callable[[int], Pane]) -> None:
        super().__init__()
        self.create = create

    def __missing__(self, start: int) -> Pane:
        pane = self[start] = self.create(start)
        return pane


class TimeWindowOperator(WindowOperatorBase):
    """Event-time tumbling and sliding windows with the default trigger and no allowed lateness."""

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        assigner = spec.assigner
        self.size: int = assigner.size
        self.slide: int = assigner.slide
        self.offset: int = assigner.offset
        # Within one slide, timestamps before `split` belong to one more window than those after it.
        self.split = self.size % self.slide or self.slide
        self._fold = self._create_fold()
        self._panes = _PaneIndex(self._create_pane)  # by window start, since the last barrier
        self._ends: list[
            tuple[int, TimeWindow]
        ] = []  # heap of (max timestamp, window) of all windows kept
        self._values: list[Any] = []
        self._timestamps: list[int | None] = []

    def open(self, context: OperatorContext) -> None:
        """Find the restored windows."""
        super().open(context)
        if context.keyed_state.has_entries(CONTENTS):
            raise CheckpointError(
                "the restored windows were kept with timers, but the program's windows are kept without",
                detail="the state was written with a trigger, an allowed lateness or other windows",
                hint="keep the trigger and the allowed lateness, or give the window operator another uid",
            )
        self._ends = [(window.max_timestamp(), window) for window in self.table.namespaces()]
        heapq.heapify(self._ends)

    def _bind(self, context: OperatorContext) -> None:
        super()._bind(context)
        self.table: PaneTable = context.keyed_state.table(PANES, namespaced=True)
        self._panes.clear()

    # -- records in

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Fold records into their windows."""
        values = batch.values
        if not values:
            return
        keys: Any = batch.keys if self.spec.keyed else repeat(None)
        timestamps: list[int] = batch.timestamps  # type: ignore[assignment]
        first = lowest_timestamp(batch, self.context)
        if self.slide == self.size:
            if first < self._live_from():
                values, timestamps, keys = self._without_late(values, timestamps, keys)
            self._fold(values, timestamps, keys, self.offset, self.slide, self._panes)
        else:
            self._process_sliding(values, timestamps, keys, first)
        self.collector.flush()

    def _live_from(self) -> int:
        """Return the start of the first tumbling window that is not late."""
        last_late = last_late_start(self.size, self.timers.watermark)
        return last_late - (last_late - self.offset) % self.size + self.size

    def _without_late(
        self, values: list[Any], timestamps: list[int], keys: Iterable[Any]
    ) -> tuple[list[Any], list[int], list[Any]]:
        live_from = self._live_from()
        live: tuple[list[Any], list[int], list[Any]] = ([], [], [])
        for value, timestamp, key in zip(values, timestamps, keys, strict=False):
            if timestamp < live_from:
                self.take_late(value, timestamp)
            else:
                live[0].append(value)
                live[1].append(timestamp)
                live[2].append(key)
        return live

    def _process_sliding(
        self, values: list[Any], timestamps: list[int], keys: Iterable[Any], first: int
    ) -> None:
        low, high = self._slice(first)
        if max(timestamps) < high:
            starts = self._live(first)
            dead = [] if starts else [(low, high)]
            for start in starts:
                self._fold(values, repeat(0), keys, *ONE_PANE, {0: self._panes[start]})
        else:
            buckets, dead = self._route(values, timestamps, keys)
            for start, (some, some_keys) in buckets.items():
                self._fold(some, repeat(0), some_keys, *ONE_PANE, {0: self._panes[start]})
        if dead:
            self._take_dead(values, timestamps, dead)

    def _route(
        self, values: list[Any], timestamps: list[int], keys: Iterable[Any]
    ) -> tuple[dict[int, tuple[list[Any], list[Any]]], list[tuple[int, int]]]:
        """Sort records into their windows; also return the slices without live windows."""
        offset, slide, split = self.offset, self.slide, self.split
        buckets: dict[int, tuple[list[Any], list[Any]]] = {}
        slices: dict[int, tuple[int, list[Any]]] = {}  # slice start -> slice end, where to append
        dead: list[tuple[int, int]] = []
        low = high = 0
        targets: list[Any] = []
        for value, timestamp, key in zip(values, timestamps, keys, strict=False):
            if not low <= timestamp < high:
                into = (timestamp - offset) % slide
                low = timestamp - into if into < split else timestamp - into + split
                found = slices.get(low)
                if found is None:
                    low, high = self._slice(timestamp)
                    targets = []
                    for start in self._live(timestamp):
                        bucket = buckets.setdefault(start, ([], []))
                        targets.append((bucket[0].append, bucket[1].append))
                    slices[low] = (high, targets)
                    if not targets:
                        dead.append((low, high))
                else:
                    high, targets = found
            for add_value, add_key in targets:
                add_value(value)
                add_key(key)
        return buckets, dead

    def _slice(self, timestamp: int) -> tuple[int, int]:
        """Return the slice of a timestamp, as [low, high)."""
        into = (timestamp - self.offset) % self.slide
        start = timestamp - into
        middle = start + self.split
        return (start, middle) if into < self.split else (middle, start + self.slide)

    def _live(self, timestamp: int) -> list[int]:
        """Return the starts of the windows of a timestamp that are not late, the latest first."""
        watermark = self.timers.watermark
        last = timestamp - (timestamp - self.offset) % self.slide
        end = max(timestamp - self.size, last_late_start(self.size, watermark))
        return list(range(last, end, -self.slide))

    def _create_pane(self, start: int) -> Pane:
        table = self.table
        window = TimeWindow.from_start(start, self.size)
        if window not in table.touched and window not in table.data:
            heapq.heappush(self._ends, (window.max_timestamp(), window))
        return (window.end, *table.pane(window))

    def _take_dead(
        self, values: list[Any], timestamps: list[int], dead: list[tuple[int, int]]
    ) -> None:
        """Handle elements without a live window: late ones, and those in gaps between windows."""
        watermark = self.timers.watermark
        for value, timestamp in zip(values, timestamps, strict=True):
            if timestamp <= watermark and any(low <= timestamp < high for low, high in dead):
                self.take_late(value, timestamp)

    # -- folding: the hot loops, one per kind of contents (reducing in the loop of aggregates: 141 ns per record instead of 109)

    def _create_fold(self) -> Fold:
        if isinstance(self.contents, ElementContents):
            return self._element_fold()
        if isinstance(self.contents, AggregatedContents):
            function = self.contents.function
            return self._aggregate_fold(function.create_accumulator, function.add)
        return self._reduce_fold(self.contents.add)

    def _element_fold(self) -> Fold:
        def fold(
            values: Any,
            timestamps: Iterable[int],
            keys: Iterable[Any],
            offset: int,
            slide: int,
            panes: dict[int, Pane],
        ) -> None:
            low = high = 0
            for value, timestamp, key in zip(values, timestamps, keys, strict=False):
                if not low <= timestamp < high:
                    low = timestamp - (timestamp - offset) % slide
                    high, touched, base = panes[low]
                    get = touched.get
                elements = get(key)
                if elements is None:
                    elements = None if base is None else base.get(key)
                    if elements is None:
                        elements = []
                    touched[key] = elements
                elements.append(value)

        return fold

    def _reduce_fold(self, reduce: Callable[[Any, Any], Any]) -> Fold:
        missing = MISSING

        def fold(
            values: Any,
            timestamps: Iterable[int],
            keys: Iterable[Any],
            offset: int,
            slide: int,
            panes: dict[int, Pane],
        ) -> None:
            remaining = iter(values)
            low = high = 0
            try:
                for value, timestamp, key in zip(remaining, timestamps, keys, strict=False):
                    if not low <= timestamp < high:
                        low = timestamp - (timestamp - offset) % slide
                        high, touched, base = panes[low]
                        get = touched.get
                    reduced = get(key, missing)
                    if reduced is missing:
                        reduced = missing if base is None else base.get(key, missing)
                        if reduced is missing:
                            touched[key] = value
                            continue
                    touched[key] = reduce(reduced, value)
            except Exception as error:
                record = values[position_of_failure(remaining, len(values))]
                raise self.guard(error, record, known=True) from error

        return fold

    def _aggregate_fold(self, create: Callable[[], Any], add: Callable[[Any, Any], Any]) -> Fold:
        missing = MISSING

        def fold(
            values: Any,
            timestamps: Iterable[int],
            keys: Iterable[Any],
            offset: int,
            slide: int,
            panes: dict[int, Pane],
        ) -> None:
            remaining = iter(values)
            low = high = 0
            try:
                for value, timestamp, key in zip(remaining, timestamps, keys, strict=False):
                    if not low <= timestamp < high:
                        low = timestamp - (timestamp - offset) % slide
                        high, touched, base = panes[low]
                        get = touched.get
                    accumulator = get(key, missing)
                    if accumulator is missing:
                        accumulator = missing if base is None else base.get(key, missing)
                        if accumulator is missing:
                            accumulator = create()
                    touched[key] = add(value, accumulator)
            except Exception as error:
                record = values[position_of_failure(remaining, len(values))]
                raise self.guard(error, record, known=True) from error

        return fold

    # -- windows out

    def process_watermark(self, watermark: int) -> None:
        """Emit the windows that end, then forward the watermark."""
        self.timers.advance_watermark(watermark, _no_timer)
        ends = self._ends
        if ends and ends[0][0] <= watermark:
            while ends and ends[0][0] <= watermark:
                _, window = heapq.heappop(ends)
                self._panes.pop(window.start, None)
                pane = self.table.pop_pane(window)
                if self.spec.window_function is None:
                    self._emit_results(window, pane)
                else:
                    for key, contents in pane.items():
                        self.emit_window(key, window, contents)
                        self.clear_function(key, window)
            self._flush()
        self.output.emit_watermark(watermark)

    def _emit_results(self, window: TimeWindow, pane: dict[Any, Any]) -> None:
        result = self.contents.result
        results: list[Any] = []
        try:
            results.extend(map(result, pane.values()))
        except Exception as error:
            key = next(key for number, key in enumerate(pane) if number == len(results))
            raise self.window_error(error, key, window) from error
        self._values += results
        self._timestamps += repeat(window.max_timestamp(), len(results))
        if len(self._values) >= _EMIT_AT:
            self._flush()

    def _flush(self) -> None:
        values, timestamps = self._values, self._timestamps
        self._values, self._timestamps = [], []
        for at in range(0, len(values), _EMIT_AT):
            self.output.emit(RowBatch(values[at : at + _EMIT_AT], timestamps[at : at + _EMIT_AT]))
        self.collector.flush()

    def barrier(self) -> list[Any]:
        """Release the dictionaries of the interval: the snapshot owns them."""
        self._panes.clear()
        return []


def _no_timer(time: int, key: object, window: object) -> None:
    """Ignore timers: these windows have none."""
