"""Working sets of aggregates that exceed their bounds lose nothing: evicted entries are read again."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.aggregates import (
    GroupAggregateSpec,
    WindowAggregateSpec,
)
from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.graph.operator_specs.columnar.ranks import DeduplicateSpec, RankSpec
from penstock.runtime.columnar import accumulator_columns, slice_store
from penstock.runtime.columnar.aggregates import distinct
from penstock.runtime.columnar.operators import group_aggregate, window_aggregate
from penstock.sql.expr.nodes import AggregateCall, InputRef
from penstock.sql.types import (
    BigIntType,
    DecimalType,
    TimestampType,
    VarCharType,
)
from tests.unit.runtime.columnar.changes import ColumnDriver, table_of
from tests.unit.runtime.columnar.test_window_aggregate import at

TYPES = (BigIntType(), VarCharType(10), DecimalType(10, 2), TimestampType(3))
CALLS = (
    AggregateCall("COUNT", (), BigIntType()),
    AggregateCall("MAX", (InputRef(TYPES[1], 1),), TYPES[1]),
    AggregateCall("SUM", (InputRef(TYPES[2], 2),), DecimalType(38, 2)),
    AggregateCall("COUNT", (InputRef(TYPES[1], 1),), BigIntType(), distinct=True),
)


def rows_of(seed: int) -> list[Any]:
    rng = random.Random(seed)
    return [
        (
            rng.choice([None, *range(60)]),
            rng.choice([None, "a", "b", "c"]),
            rng.choice([None, 1, 2]),
            at(number // 10),
        )
        for number in range(400)
    ]


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        accumulator_columns.SlotStore, "__init__", _bounded(accumulator_columns.SlotStore, 20)
    )
    monkeypatch.setattr(slice_store.SliceStore, "__init__", _bounded(slice_store.SliceStore, 20))
    for seen in (distinct.SeenValues, distinct.MarkedValues):
        monkeypatch.setattr(seen, "__init__", _bounded(seen, 20))


def _bounded(kind: type, bound: int) -> Any:
    original = kind.__init__  # type: ignore[misc]

    def made(self: Any, *args: Any, **more: Any) -> None:
        original(self, *args, **more, bound=bound)

    return made


def results(spec: Any, backend: str) -> Any:
    driver = ColumnDriver(spec, TYPES, backend=backend)
    rows = rows_of(3)
    for start in range(0, len(rows), 40):
        driver.feed(rows[start : start + 40])
        if start % 120 == 80:
            driver = driver.restarted()
    driver.harness.finish()
    return table_of(driver.changes)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("retracts", [False, True])
def test_groups_that_were_let_go_come_back(
    backend: str, retracts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = GroupAggregateSpec(TYPES, (0,), CALLS, retracts=retracts)
    expected = results(spec, backend)
    small(monkeypatch)
    assert group_aggregate.SlotStore is accumulator_columns.SlotStore
    assert results(spec, backend) == expected


def test_slices_that_were_let_go_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    window = WindowDefinition("HOP", 10, 5, time=3)
    spec = WindowAggregateSpec(TYPES, (0,), CALLS, window)
    expected = results(spec, "rocksdb")
    small(monkeypatch)
    assert window_aggregate.SliceStore is slice_store.SliceStore
    assert results(spec, "rocksdb") == expected


@pytest.mark.parametrize(
    "spec",
    [
        GroupAggregateSpec(TYPES, (0,), CALLS),
        GroupAggregateSpec(TYPES, (0,), CALLS, retracts=True),
        RankSpec(TYPES, (0,), (SortKey(2),), end=3, strategy="APPEND"),
        DeduplicateSpec(TYPES, (0,), 3, last=True),
    ],
    ids=["groups", "groups that change", "ranks", "last rows"],
)
def test_when_the_input_has_ended_nothing_more_is_written(spec: Any) -> None:
    ended, drained = ColumnDriver(spec, TYPES), ColumnDriver(spec, TYPES)
    for driver in (ended, drained):
        driver.feed(rows_of(3))
    ended.harness.finish()
    drained.harness.finish(drained=True)
    assert not ended.harness.state_entries()
    assert drained.harness.state_entries()  # a job may go on from it
