"""Keys of any type are numbered in the order of arrival."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import polars as pl
import pytest

from penstock.runtime.columnar.store import segments
from penstock.runtime.columnar.store.key_index import KeyIndex, RowIndex


def number(rng: random.Random) -> int:
    return rng.choice([0, -1, 2**63 - 1, -(2**63), rng.randrange(100), rng.randrange(10_000)])


KEYS = {
    "numbers": number,
    "texts": lambda rng: str(rng.randrange(1000)),
    "pairs": lambda rng: (number(rng), number(rng)),
    "triples": lambda rng: (rng.randrange(5), number(rng), rng.randrange(5)),
    "numbers and texts": lambda rng: (number(rng), str(rng.randrange(3))),
}


def frame_of(keys: list[Any]) -> tuple[pl.DataFrame, tuple[int, ...]]:
    rows = [key if isinstance(key, tuple) else (key,) for key in keys]
    columns = {f"c{at}": values for at, values in enumerate(zip(*rows, strict=True))}
    return pl.DataFrame(columns, strict=False), tuple(range(len(columns)))


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_has_the_same_number_each_time(kind: str) -> None:
    rng = random.Random(1)
    slots, expected = KeyIndex(), {}
    for step in range(60):
        keys = [KEYS[kind](rng) for _ in range(rng.choice([1, 5, 700]))]
        if kind in {"numbers", "pairs"} and step == 40:
            keys.append(None if kind == "numbers" else (1, None))  # from now on they are objects
        found = slots.of_rows(*frame_of(keys))
        for key in keys:
            expected.setdefault(key, len(expected))
        assert found.tolist() == [expected[key] for key in keys]
        assert len(slots) == len(expected)
        if step in {20, 50}:
            kept = np.array(sorted(rng.sample(range(len(slots)), len(slots) // 2)))
            names = slots.keys_at(kept)
            slots.keep(kept)
            expected = {key: at for at, key in enumerate(names)}
    asked = [*list(expected)[:10], KEYS[kind](rng)]
    known = slots.known_rows(*frame_of(asked))
    assert known.tolist() == [expected.get(key, -1) for key in asked]


@pytest.mark.parametrize(("deepest", "garbage"), [(32, 1 << 16), (2, 3)])
def test_rows_are_found_by_slot_until_they_are_removed(
    deepest: int, garbage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "_DEEPEST", deepest)
    monkeypatch.setattr(segments, "_LEAST_GARBAGE", garbage)
    rng = random.Random(2)
    index, expected = RowIndex(), {slot: [] for slot in range(30)}
    count = 0
    for _ in range(80):
        slots = [rng.randrange(30) for _ in range(rng.choice([1, 9, 40]))]
        index.add(np.array(slots), np.arange(count, count + len(slots)), 30)
        for slot in slots:
            expected[slot].append(count)
            count += 1
        there = [(slot, row) for slot, rows in expected.items() for row in rows]
        gone = rng.sample(there, len(there) // 3)
        removed = np.array(gone, np.int64).reshape(-1, 2)
        index.remove(removed[:, 0], removed[:, 1])
        for slot, row in gone:
            expected[slot].remove(row)
        asked = [rng.randrange(30) for _ in range(20)]
        positions, rows = index.find(np.array(asked), 30)
        pairs = [(at, row) for at, slot in enumerate(asked) for row in expected[slot]]
        assert list(zip(positions.tolist(), rows.tolist(), strict=True)) == pairs
    moved = np.full(count, -1)
    kept = sorted(row for slot, rows in expected.items() for row in rows if slot % 2)
    moved[kept] = np.arange(len(kept))
    slots_moved = np.array([slot // 2 if slot % 2 else -1 for slot in range(30)])
    index.renumber(moved, slots_moved)
    positions, rows = index.find(np.arange(15), 15)
    pairs = [(at, int(moved[row])) for at in range(15) for row in expected[2 * at + 1]]
    assert list(zip(positions.tolist(), rows.tolist(), strict=True)) == pairs


def test_slots_with_many_rows_are_asked_in_portions() -> None:
    index = RowIndex()
    for start in range(0, 3_000, 10):
        index.add(np.zeros(10, np.int64), np.arange(start, start + 10), 2)
    assert index.portions(np.array([0, 1]), 2) == 1
    assert index.portions(np.zeros(4_000, np.int64), 2) == 4
    positions, rows = index.find(np.array([1, 0]), 2)
    assert set(positions.tolist()) == {1}
    assert rows.tolist() == list(range(3_000))
