"""Top-N keeps the first rows of each key, for any additions and retractions."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.graph.operator_specs.columnar.ranks import RankSpec
from penstock.runtime.columnar.joins import memory
from penstock.runtime.columnar.operators import rank
from penstock.table.types import DataTypes
from tests.builders.cases import by_name, check_all
from tests.builders.tight_bounds import tight_bounds
from tests.unit.runtime.columnar.changes import cut, table_of
from tests.unit.runtime.columnar.join_cases import Change, Stopped, shown

TYPES = (
    DataTypes.STRING(),
    DataTypes.INT(),
    DataTypes.DOUBLE(),
    DataTypes.BIGINT(),
    DataTypes.INT(),
)
ORDERS = {
    "one": (SortKey(1),),
    "descending": (SortKey(1, ascending=False, nulls_first=False),),
    "nulls last": (SortKey(1, nulls_first=False), SortKey(2, ascending=False, nulls_first=True)),
    "no number first": (SortKey(2), SortKey(1, ascending=False)),
}


def _before(one: Any, other: Any, key: SortKey) -> int:
    if one == other:
        return 0
    if one is None or other is None:
        return -1 if (one is None) == key.nulls_first else 1
    return -1 if (one < other) == key.ascending else 1


def _less(one: Any, other: Any, order: tuple[SortKey, ...]) -> int:
    return next(
        (found for key in order if (found := _before(one[key.index], other[key.index], key))), 0
    )


def _top(rows: list[Any], spec: RankSpec) -> list[Any]:
    """The wanted rows of a key, from the rows in the order in which they came."""
    placed: list[Any] = []
    for row in rows:
        at = len(placed)
        while at and _less(row, placed[at - 1], spec.order) < 0:
            at -= 1
        placed.insert(at, row)
    numbers: list[int] = []
    for at, row in enumerate(placed):
        tie = at > 0 and _less(placed[at - 1], row, spec.order) == 0
        if spec.function == "ROW_NUMBER" or not at:
            numbers.append(at + 1)
        elif tie:
            numbers.append(numbers[-1])
        else:
            numbers.append(at + 1 if spec.function == "RANK" else numbers[-1] + 1)
    end = spec.end if spec.end_column is None else rows[0][spec.end_column] if rows else 0
    return [
        (*row, number) if spec.with_rank else row
        for row, number in zip(placed, numbers, strict=True)
        if number >= spec.start and (end is None or number <= end)
    ]


def _expected(changes: list[Change], spec: RankSpec) -> Counter[Any]:
    there: dict[Any, list[Any]] = {}
    for kind, row in changes:
        rows = there.setdefault(tuple(row[at] for at in spec.keys), [])
        if kind in {"+I", "+U"}:
            rows.append(row)
        else:
            rows.remove(row)
    return shown(Counter(row for rows in there.values() for row in _top(rows, spec)))


def _row(rng: random.Random, number: int) -> tuple[Any, ...]:
    key = rng.choice("abcdef")
    return (
        key,
        rng.choice([None, *range(6)]),
        rng.choice([None, 0.5, 1.5, -2.0]),
        number,
        ord(key) % 4,
    )


def _inserts(count: int, seed: int) -> list[Change]:
    rng = random.Random(seed)
    return [("+I", _row(rng, number)) for number in range(count)]


def _changing(count: int, seed: int, *, alike: bool = False) -> list[Change]:
    """Rows that come, are changed and go."""
    rng = random.Random(seed)
    there: list[Any] = []
    changes: list[Change] = []
    for number in range(count):
        choice = rng.random()
        if there and choice < 0.25:
            changes.append(("-D", there.pop(rng.randrange(len(there)))))
        elif there and choice < 0.5:
            old = there.pop(rng.randrange(len(there)))
            new = (old[0], *_row(rng, number)[1:3], *old[3:])
            there.append(new)
            changes += [("-U", old), ("+U", new)]
        else:
            there.append(_row(rng, 0 if alike else number))
            changes.append(("+I", there[-1]))
    return changes


def _run(spec: RankSpec, changes: list[Change], backend: str, seed: int) -> list[Change]:
    running = Stopped(spec, backend, seed=seed, stops=0.1)
    for part in cut(changes, seed):
        running.send(part, TYPES)
    return running.changes()


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "RESIDENT_BYTES", 500)
    monkeypatch.setattr(memory, "LOOK_EVERY", 3)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("strategy", ["APPEND", "RETRACT"])
def test_the_first_rows_of_each_key_are_kept(strategy: str, order: tuple[SortKey, ...]) -> None:
    changes = _inserts(100, 3) if strategy == "APPEND" else _changing(80, 3)

    def check(case: tuple[tuple[int, int | None], bool]) -> None:
        bounds, with_rank = case
        spec = RankSpec(TYPES, (0,), order, *bounds, with_rank=with_rank, strategy=strategy)
        assert table_of(_run(spec, changes, "hashmap", 3)) == _expected(changes, spec)

    bounds = [(1, 1), (1, 3), (2, 4), (3, None)]
    check_all(by_name(itertools.product(bounds, [True, False]), str), check)


@pytest.mark.parametrize("strategy", ["APPEND", "RETRACT", "RETRACT by key"])
@pytest.mark.usefixtures("little_room")
def test_rows_that_are_on_disk_are_ranked_too(strategy: str) -> None:
    unique = (3,) if strategy == "RETRACT by key" else None
    spec = RankSpec(
        TYPES,
        (0,),
        ORDERS["one"],
        1,
        3,
        with_rank=True,
        strategy=strategy.split(maxsplit=1)[0],
        unique=unique,
    )
    changes = _inserts(200, 5) if strategy == "APPEND" else _changing(150, 5)
    assert table_of(_run(spec, changes, "rocksdb", 5)) == _expected(changes, spec)


@pytest.mark.parametrize("with_rank", [True, False])
@pytest.mark.parametrize("function", ["RANK", "DENSE_RANK"])
@pytest.mark.parametrize("strategy", ["APPEND", "RETRACT"])
def test_rows_that_are_equal_share_their_rank(
    strategy: str, function: str, with_rank: bool
) -> None:
    order = ORDERS["descending"]
    spec = RankSpec(
        TYPES, (0,), order, 1, 2, with_rank=with_rank, strategy=strategy, function=function
    )
    changes = _inserts(150, 8) if strategy == "APPEND" else _changing(120, 8)
    assert table_of(_run(spec, changes, "hashmap", 8)) == _expected(changes, spec)


@pytest.mark.parametrize("strategy", ["APPEND", "RETRACT"])
def test_the_end_may_be_in_a_column(strategy: str) -> None:
    order = ORDERS["one"]
    spec = RankSpec(TYPES, (0,), order, end_column=4, with_rank=True, strategy=strategy)
    changes = _inserts(150, 2) if strategy == "APPEND" else _changing(120, 2)
    assert table_of(_run(spec, changes, "hashmap", 2)) == _expected(changes, spec)


def test_a_key_whose_end_is_null_has_no_rows() -> None:
    for strategy in ("APPEND", "RETRACT"):
        spec = RankSpec(TYPES, (0,), ORDERS["one"], end_column=4, strategy=strategy)
        running = Stopped(spec, "hashmap")
        for key, end in (("a", None), ("b", 1), ("a", None), ("b", 1)):
            running.send([(key, 1, None, 0, end)], TYPES)
        assert running.changes() == [("+I", ("b", 1, None, 0, 1))]


@pytest.mark.parametrize("ascending", [True, False])
def test_the_worst_value_of_a_type_has_a_place_until_the_key_is_full(ascending: bool) -> None:
    worst, better = (2**63 - 1, 2**63 - 2) if ascending else (-(2**63), 1 - 2**63)
    spec = RankSpec(TYPES, (0,), (SortKey(3, ascending),), end=2, strategy="APPEND")
    running = Stopped(spec, "hashmap")
    for value in (worst, worst, worst, better):
        running.send([("a", None, None, value, 0)], TYPES)
    assert [(kind, row[3]) for kind, row in running.changes()] == [
        ("+I", worst),
        ("+I", worst),
        ("-D", worst),
        ("+I", better),
    ]


@pytest.mark.parametrize("bounds", [(1, 7), (3, 9), (4, None)])
@pytest.mark.parametrize("order", [(), ORDERS["no number first"]], ids=["any", "ordered"])
@pytest.mark.parametrize("strategy", ["APPEND", "RETRACT"])
def test_limit_and_offset_are_of_all_rows(
    strategy: str, order: tuple[SortKey, ...], bounds: tuple[int, int | None]
) -> None:
    spec = RankSpec(TYPES, (), order, *bounds, strategy=strategy)
    changes = _inserts(60, 4) if strategy == "APPEND" else _changing(80, 4)
    found = _run(spec, changes, "hashmap", 4)
    assert table_of(found) == _expected(changes, spec)
    if strategy == "APPEND" and not order:
        assert {kind for kind, _ in found} == {"+I"}


@pytest.mark.parametrize("with_rank", [True, False])
def test_without_rows_to_take_back_places_are_known_by_their_number(with_rank: bool) -> None:
    bounds = (1, 3) if with_rank else (2, 2)
    order = ORDERS["one"]
    spec = RankSpec(
        TYPES, (0,), order, *bounds, with_rank=with_rank, strategy="RETRACT", update_before=False
    )
    changes = _changing(150, 6)
    found = _run(spec, changes, "hashmap", 6)
    assert "-U" not in {kind for kind, _ in found}
    assert table_of(found, (0, 5) if with_rank else (0,)) == _expected(changes, spec)


@pytest.mark.parametrize("update_before", [True, False])
def test_of_a_single_place_its_next_row_is_an_update_of_the_one_before(update_before: bool) -> None:
    spec = RankSpec(TYPES, (0,), ORDERS["one"], 1, 1, update_before=update_before)
    running = Stopped(spec, "hashmap")
    rows = [("a", value, None, 0, 0) for value in (5, 3, 4)]
    for change in (("+I", rows[0]), ("+I", rows[1]), ("+I", rows[2]), ("-D", rows[1])):
        running.send([change], TYPES)
    reported = ["+I5", "-U5", "+U3", "-U3", "+U4"]
    assert [f"{kind}{row[1]}" for kind, row in running.changes()] == [
        each for each in reported if update_before or not each.startswith("-U")
    ]


def test_rows_that_are_alike_are_counted() -> None:
    spec = RankSpec(TYPES, (0,), ORDERS["one"], 1, 4, strategy="RETRACT")
    changes = _changing(200, 9, alike=True)
    assert table_of(_run(spec, changes, "hashmap", 9)) == _expected(changes, spec)


def test_rows_whose_rank_only_rises_need_not_all_be_kept() -> None:
    rng = random.Random(1)
    counts: Counter[Any] = Counter()
    changes: list[Change] = []
    for _ in range(200):
        name = (rng.choice("ab"), rng.randrange(8))
        counts[name] += 1
        kind = "+I" if counts[name] == 1 else "+U"
        changes.append((kind, (name[0], counts[name], None, name[1], 0)))
    order = ORDERS["descending"]
    spec = RankSpec(TYPES, (0,), order, 1, 3, with_rank=True, strategy="UPDATE", unique=(0, 3))
    running = Stopped(spec, "hashmap", seed=2, stops=0.1)
    for part in cut(changes, 2):
        running.send(part, TYPES)
    found: dict[str, list[int]] = {"a": [], "b": []}
    for row in table_of(running.changes()):
        found[row[0][1]].append(int(row[1]))
    for key, best in found.items():
        wanted = sorted((n for name, n in counts.items() if name[0] == key), reverse=True)[:3]
        assert sorted(best, reverse=True) == wanted
    assert running.harness.operator._rows.store.live == 6  # type: ignore[attr-defined]


def test_expired_key_starts_again() -> None:
    spec = RankSpec(TYPES, (0,), ORDERS["one"], 1, 1, strategy="APPEND", ttl_ms=1000)
    running = Stopped(spec, "hashmap")
    for advance, value in ((0, 1), (900, 2), (200, 3)):
        running.clock.advance(advance)
        running.send([("+I", ("a", value, None, 0, 0))], TYPES)
    assert [(kind, row[1]) for kind, row in running.changes()] == [("+I", 1), ("+I", 3)]


@pytest.mark.parametrize("order", [(4, 3), (4,)], ids=["two columns", "one column"])
@pytest.mark.parametrize("function", ["ROW_NUMBER", "RANK", "DENSE_RANK"])
def test_of_a_key_with_many_rows_few_are_put_in_order(
    function: str, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank, "_MANY", 10)
    first, *rest = order
    keys = (SortKey(first, ascending=False), *map(SortKey, rest))
    spec = RankSpec(TYPES, (), keys, 2, 3, with_rank=True, function=function)
    changes = _changing(120, 12)
    assert table_of(_run(spec, changes, "hashmap", 12)) == _expected(changes, spec)


def test_keys_that_get_other_numbers_keep_their_limits() -> None:
    """With every batch half of the keys go to disk, and the others are renumbered: a limit belongs to its key, not to the number."""
    spec = RankSpec(TYPES, (0,), (SortKey(3),), end=1, strategy="APPEND")
    rng = random.Random(5)
    rows = [(rng.choice("abcdef"), None, None, rng.randrange(1000), 0) for _ in range(80)]
    with tight_bounds():
        running = Stopped(spec, "rocksdb", seed=0, stops=0)
        for row in rows:
            running.send([("+I", row)], TYPES)
        found = table_of(running.changes())
    assert found == _expected([("+I", row) for row in rows], spec)
