"""Of the rows of a key, the first or the last is kept, by time or by arrival."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.ranks import DeduplicateSpec
from penstock.runtime.columnar.joins import memory
from penstock.table.types import DataTypes
from tests.unit.runtime.columnar.changes import cut, table_of
from tests.unit.runtime.columnar.join_cases import Change, Stopped

TYPES = (DataTypes.STRING(), DataTypes.INT(), DataTypes.TIMESTAMP(3))


def _moment(second: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1) + dt.timedelta(seconds=second)


def _kept(rows: list[Any], *, by_time: bool, last: bool) -> dict[str, Any]:
    """Return the expected rows, row by row."""
    kept: dict[str, Any] = {}
    for row in rows:
        there = kept.get(row[0])
        if there is None:
            kept[row[0]] = row
        elif not by_time:
            kept[row[0]] = row if last else there
        elif (row[2] >= there[2]) if last else (row[2] < there[2]):
            kept[row[0]] = row
    return kept


@pytest.mark.parametrize("update_before", [True, False])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_one_row_of_each_key_is_kept(
    backend: str, by_time: bool, last: bool, update_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "rocksdb":
        monkeypatch.setattr(memory, "RESIDENT_BYTES", 500)
        monkeypatch.setattr(memory, "LOOK_EVERY", 3)
    rng = random.Random(7)
    rows = [(rng.choice("abcdefgh"), n, _moment(rng.randrange(12))) for n in range(200)]
    spec = DeduplicateSpec(TYPES, (0,), 2 if by_time else None, last, update_before)
    running = Stopped(spec, backend, seed=7, stops=0.1)
    for part in cut([("+I", row) for row in rows], 7):
        running.send(part, TYPES)
    changes: list[Change] = running.changes()
    expected = _kept(rows, by_time=by_time, last=last)
    keys = None if update_before else (0,)
    assert sorted(table_of(changes, keys)) == sorted(
        tuple(map(repr, row)) for row in expected.values()
    )
    if not by_time and not last:
        assert {kind for kind, _ in changes} == {"+I"}


def test_a_key_that_has_expired_is_new() -> None:
    running = Stopped(DeduplicateSpec(TYPES, (0,), None, last=False, ttl_ms=1000), "hashmap")
    for advance in (0, 900, 200):
        running.clock.advance(advance)
        running.send([("+I", ("a", 1, _moment(0)))], TYPES)
    assert [kind for kind, _ in running.changes()] == ["+I", "+I"]


@pytest.mark.parametrize("last", [True, False])
def test_each_row_that_was_first_for_a_while_is_emitted_if_requested(last: bool) -> None:
    """Versions of a table: what a key had between two rows of a batch counts, too."""
    seconds = (3, 1, 4, 4, 2, 0)
    rows = [("a", number, _moment(second)) for number, second in enumerate(seconds)]
    kept = (0, 2, 3) if last else (0, 1, 5)
    for batches in ([rows], [[row] for row in rows]):
        running = Stopped(DeduplicateSpec(TYPES, (0,), 2, last, every=True), "hashmap")
        for batch in batches:
            running.send(batch, TYPES)
        reported = [row[1] for kind, row in running.changes() if kind != "-U"]
        assert reported == list(kept)
    running = Stopped(DeduplicateSpec(TYPES, (0,), 2, last), "hashmap")
    running.send(rows, TYPES)
    assert [row[1] for _, row in running.changes()] == [kept[-1]]
