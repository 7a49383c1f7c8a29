"""Rows that are kept in columns are those that came and have not gone, whatever was saved, merged, compacted and restored meanwhile."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import polars as pl
import pytest

from penstock.runtime.columnar.store import rows, spilled
from penstock.runtime.columnar.store.rows import RowStore
from penstock.runtime.columnar.store.waiting_rows import WaitingRows
from penstock.runtime.state.backends import BACKENDS

SCHEMA = {"c0": pl.Int64(), "c1": pl.Int64()}


def _table() -> tuple[Any, Any]:
    state = BACKENDS["hashmap"].create_temporary(lambda: 0, "operator", 128)
    return state, state.table("rows", namespaced=True)


def _frame(rng: random.Random, first: int, count: int) -> pl.DataFrame:
    """Rows of a few keys with numbers that tell them apart."""
    keys = [rng.randrange(6) for _ in range(count)]
    return pl.DataFrame({"c0": keys, "c1": range(first, first + count)}, schema=SCHEMA)


@pytest.mark.parametrize(("few", "worth_it"), [(256, 4096), (256, 0), (2, 0)])
@pytest.mark.parametrize("seed", range(4))
def test_rows_are_there_until_they_are_removed(
    seed: int, few: int, worth_it: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_FEW", few)
    monkeypatch.setattr(rows, "_WORTH_IT", worth_it)
    rng = random.Random(seed)
    state, table = _table()
    store, there, count = RowStore(table, SCHEMA, (0,), 128), [], 0

    def found() -> list[int]:
        return store.gather(np.flatnonzero(store.alive))["c1"].to_list()

    for _ in range(80):
        added = rng.choice([0, 1, 2, 8])
        store.append(_frame(rng, count, added))
        there += range(count, count + added)
        count += added
        if rng.random() < 0.6:
            # Now and then the newest ones: their numbers must not be given again.
            latest = rng.random() < 0.3
            gone = there[-3:] if latest else rng.sample(there, rng.randrange(len(there) + 1) // 3)
            positions = dict(zip(store.frame["c1"], range(len(store)), strict=True))
            store.remove(np.array([positions[each] for each in gone], np.int64))
            there = [each for each in there if each not in gone]
        if rng.random() < 0.3:
            moved = store.compact(at_once=rng.random() < 0.5)
            assert moved is None or len(store) == store.live == len(there)
        if rng.random() < 0.4:
            store.save()
            state.snapshot()
        if rng.random() < 0.2:
            store.save()
            state.snapshot()
            store = RowStore(table, SCHEMA, (0,), 128)
        assert found() == there
        assert store.live == len(there)
    store.remove(np.flatnonzero(store.alive))
    store.save()
    assert list(table.items()) == []


@pytest.mark.parametrize("worth_it", [4096, 0])
def test_rows_wait_for_their_own_time(worth_it: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_WORTH_IT", worth_it)
    rng = random.Random(7)
    state, table = _table()
    waiting, there, count, now = WaitingRows(table, SCHEMA, (0,), 128), [], 0, 0
    for _ in range(120):
        due = np.array([now + rng.randrange(30) for _ in range(rng.choice([1, 2, 5]))])
        waiting.add(_frame(rng, count, len(due)), due)
        there += list(zip(due.tolist(), range(count, count + len(due)), strict=True))
        count += len(due)
        now += rng.choice([0, 0, 2, 9])
        taken = waiting.take(now)
        assert taken["c1"].to_list() == [number for time, number in there if time <= now]
        there = [each for each in there if each[0] > now]
        assert waiting.first == min((time for time, _ in there), default=None)
        assert waiting.rows()["c1"].to_list() == [number for _, number in there]
        if rng.random() < 0.2:
            waiting.save()
            state.snapshot()
            waiting = WaitingRows(table, SCHEMA, (0,), 128)


@pytest.mark.parametrize("at_once", [1, 2, 10_000])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_spilled_rows_are_found_by_their_keys(
    backend: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilled, "_KEYS_AT_ONCE", at_once)
    monkeypatch.setattr(spilled, "_MOST_IN_USE", 10 * at_once)
    state = BACKENDS[backend].create_temporary(lambda: 0, "operator", 128)
    store = spilled.SpilledRows(state, "spilled", SCHEMA)
    rng = random.Random(9)
    there: dict[int, list[int]] = {}
    count = 0
    for _ in range(12):
        keys = rng.sample(range(8), rng.randrange(1, 6))
        counts = [rng.randrange(1, 4) for _ in keys]
        frame = _frame(rng, count, sum(counts))
        store.add(keys, frame, counts)
        for key, size in zip(keys, counts, strict=True):
            there.setdefault(key, []).extend(range(count, count + size))
            count += size
        gone = rng.sample(sorted(there), rng.randrange(2))
        store.forget(gone)
        for key in gone:
            del there[key]
        asked = rng.sample(range(9), 5)
        found, at = store.fetch(asked)
        assert list(zip(at.tolist(), found["c1"], strict=True)) == [
            (place, number) for place, key in enumerate(asked) for number in there.get(key, [])
        ]
    state.close()
