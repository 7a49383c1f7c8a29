"""The values of OVER aggregates by their definition: one row at a time."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from typing import Any

from penstock.graph.operator_specs.columnar.aggregates import OverAggregateSpec
from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.sql.expr.nodes import AggregateCall
from tests.unit.runtime.columnar.join_cases import shown

EPOCH = dt.datetime(1970, 1, 1)


def _before(one: Any, other: Any, key: SortKey) -> int:
    if one == other:
        return 0
    if one is None or other is None:
        return -1 if (one is None) == key.nulls_first else 1
    return -1 if (one < other) == key.ascending else 1


def _compare(one: Any, other: Any, order: tuple[SortKey, ...]) -> int:
    return next(
        (found for key in order if (found := _before(one[key.index], other[key.index], key))), 0
    )


def _sorted(rows: list[Any], order: tuple[SortKey, ...]) -> list[Any]:
    placed: list[Any] = []
    for row in rows:
        at = len(placed)
        while at and _compare(row, placed[at - 1], order) < 0:
            at -= 1
        placed.insert(at, row)
    return placed


def _frame(rows: list[Any], at: int, spec: OverAggregateSpec) -> list[Any]:
    if spec.rows:
        low = 0 if spec.preceding is None else max(0, at - spec.preceding)
        high = len(rows) if spec.following is None else at + spec.following + 1
        return rows[low:high]
    if spec.preceding in (None, 0) and spec.following in (None, 0):
        return [
            row
            for row in rows
            if (spec.preceding is None or _compare(row, rows[at], spec.order) >= 0)
            and (spec.following is None or _compare(row, rows[at], spec.order) <= 0)
        ]
    index = spec.order[0].index
    here = rows[at][index]
    least = None if spec.preceding is None else here - dt.timedelta(milliseconds=spec.preceding)
    most = None if spec.following is None else here + dt.timedelta(milliseconds=spec.following)
    return [
        row
        for row in rows
        if (least is None or row[index] >= least) and (most is None or row[index] <= most)
    ]


def _place(call: AggregateCall, rows: list[Any], at: int, order: tuple[SortKey, ...]) -> Any:
    less = sum(_compare(row, rows[at], order) < 0 for row in rows)
    up_to = sum(_compare(row, rows[at], order) <= 0 for row in rows)
    if call.function == "ROW_NUMBER":
        return at + 1
    if call.function == "RANK":
        return less + 1
    if call.function == "DENSE_RANK":
        return 1 + sum(1 for n in range(1, at + 1) if _compare(rows[n - 1], rows[n], order) != 0)
    if call.function == "PERCENT_RANK":
        return less / max(len(rows) - 1, 1)
    if call.function == "CUME_DIST":
        return up_to / len(rows)
    buckets, sizes = 3, []
    for bucket in range(buckets):
        sizes += [bucket + 1] * (len(rows) // buckets + (bucket < len(rows) % buckets))
    return sizes[at]


def _value(call: AggregateCall, rows: list[Any], at: int, spec: OverAggregateSpec) -> Any:
    function = call.function
    if function in {"LAG", "LEAD"}:
        _, offset, *default = call.operands
        other = at + (offset.value if function == "LEAD" else -offset.value)  # type: ignore[attr-defined]
        if 0 <= other < len(rows):
            return rows[other][call.operands[0].index]  # type: ignore[attr-defined]
        return default[0].value if default else None  # type: ignore[attr-defined]
    if function in {"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE"}:
        return _place(call, rows, at, spec.order)
    frame = [row for row in _frame(rows, at, spec) if call.filter is None or row[4]]
    if not call.operands:
        return len(frame)
    values = [row[call.operands[0].index] for row in frame]  # type: ignore[attr-defined]
    values = [value for value in values if value is not None]
    if call.distinct:
        values = list(dict.fromkeys(values))
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    ways: dict[str, Callable[[], Any]] = {
        "SUM": lambda: sum(values),
        "AVG": lambda: int(sum(values) / len(values)),
        "MIN": lambda: min(values),
        "MAX": lambda: max(values),
        "FIRST_VALUE": lambda: values[0],
        "LAST_VALUE": lambda: values[-1],
        "LISTAGG": lambda: ",".join(values),
    }
    return ways[function]()


def expected_rows(rows: list[Any], spec: OverAggregateSpec) -> Counter[Any]:
    """Return the rows with the values of the aggregates, and how often each is there."""
    parts: dict[Any, list[Any]] = {}
    for row in rows:
        parts.setdefault(tuple(row[at] for at in spec.keys), []).append(row)
    found: list[Any] = []
    for part in parts.values():
        ordered = _sorted(part, spec.order)
        found += [
            (*row, *(_value(call, ordered, at, spec) for call in spec.aggregates))
            for at, row in enumerate(ordered)
        ]
    return shown(Counter(found))


class FlinkKeys:
    """What Flink knows of each key: the time of the last row that it emitted, until it forgets the key."""

    def __init__(self, spec: OverAggregateSpec) -> None:
        self._spec = spec
        self._last: dict[Any, int] = {}
        self._forgotten: Counter[Any] = Counter()
        self._waiting: list[tuple[Any, int]] = []
        self._mark = -1

    def take(self, row: tuple[Any, ...]) -> int | None:
        """Return how often the row's key was forgotten before it, None if the row is late."""
        spec, key = self._spec, tuple(row[at] for at in self._spec.keys)
        time = (row[3] - EPOCH) // dt.timedelta(milliseconds=1)
        last = self._mark if spec.preceding is None else self._last.get(key)
        if last is not None and time <= last:
            return None
        self._waiting.append((key, time))
        return self._forgotten[key]

    def advance(self, mark: int) -> None:
        """Take a watermark: keys are forgotten one and a half ranges after their last row."""
        self._mark = mark
        for key, time in self._waiting:
            if time <= mark:
                self._last[key] = max(time, self._last.get(key, time))
        self._waiting = [each for each in self._waiting if each[1] > mark]
        if self._spec.preceding is None or self._spec.rows:
            return
        waiting = {key for key, _ in self._waiting}
        for key, last in list(self._last.items()):
            if last + self._spec.preceding * 3 // 2 + 1 <= mark and key not in waiting:
                del self._last[key]
                self._forgotten[key] += 1
