"""Changelog operators: normalisation, materialisation, dropped row kinds."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.errors import RecordError
from penstock.graph.operator_specs.columnar.changes import (
    ChangelogNormalizeSpec,
    DropKindsSpec,
    NotNullSpec,
    UpsertMaterializeSpec,
)
from penstock.runtime.columnar.joins import memory
from penstock.table.types import DataTypes
from tests.unit.runtime.columnar.changes import cut, table_of
from tests.unit.runtime.columnar.join_cases import Change, Stopped

TYPES = (DataTypes.STRING(), DataTypes.INT(), DataTypes.TIMESTAMP(3))


def _row(rng: random.Random) -> tuple[Any, ...]:
    return (rng.choice("abcdef"), rng.randrange(3), None)


@pytest.mark.parametrize("update_before", [True, False])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_upserts_become_updates_of_what_was_there(
    backend: str, update_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "rocksdb":
        monkeypatch.setattr(memory, "RESIDENT_BYTES", 500)
        monkeypatch.setattr(memory, "LOOK_EVERY", 3)
    rng = random.Random(4)
    kinds = ["+I", "+U", "+U", "-D", "-U"]
    rows: list[Change] = [(rng.choice(kinds), _row(rng)) for _ in range(150)]
    running = Stopped(
        ChangelogNormalizeSpec(TYPES, (0,), update_before), backend, seed=4, stops=0.1
    )
    for part in cut(rows, 4):
        running.send(part, TYPES)
    expected: dict[Any, Any] = {}
    for kind, row in rows:
        if kind in {"+I", "+U"}:
            expected[row[0]] = row
        else:
            expected.pop(row[0], None)
    changes = running.changes()
    keys = None if update_before else (0,)
    assert sorted(table_of(changes, keys)) == sorted(
        tuple(map(repr, row)) for row in expected.values()
    )
    assert any(kind == "-U" for kind, _ in changes) == update_before


def test_duplicate_changes_are_emitted_once() -> None:
    running = Stopped(ChangelogNormalizeSpec(TYPES, (0,)), "hashmap")
    for rows in ([("+I", ("a", 1, None))], [("+U", ("a", 1, None))], [("-D", ("a", 1, None))] * 2):
        running.send(rows, TYPES)
    assert running.changes() == [("+I", ("a", 1, None)), ("-D", ("a", 1, None))]


def test_null_and_a_value_differ() -> None:
    running = Stopped(ChangelogNormalizeSpec(TYPES, (0,), update_before=False), "hashmap")
    for value in (1, None, None, 2):
        running.send([("+U", ("a", value, None))], TYPES)
    assert running.changes() == [
        ("+I", ("a", 1, None)),
        ("+U", ("a", None, None)),
        ("+U", ("a", 2, None)),
    ]


def test_each_change_of_a_key_within_a_batch_is_emitted_if_requested() -> None:
    changes = [("+I", 1), ("+U", 2), ("-D", 2), ("+I", 2), ("+U", 2), ("+U", 3)]
    rows = [(kind, ("a", value, None)) for kind, value in changes]
    for every, reported in ((True, ["+I1", "+U2", "-D2", "+I2", "+U3"]), (False, ["+I3"])):
        spec = ChangelogNormalizeSpec(TYPES, (0,), update_before=False, every=every)
        running = Stopped(spec, "hashmap")
        running.send(rows, TYPES)
        assert [f"{kind}{row[1]}" for kind, row in running.changes()] == reported


def test_with_a_ttl_a_repeated_row_is_an_update_and_an_expired_key_is_new() -> None:
    """As in Flink: without the update the state of operators downstream would expire though rows come."""
    running = Stopped(ChangelogNormalizeSpec(TYPES, (0,), ttl_ms=1000), "hashmap")
    for advance in (0, 900, 900, 1100):
        running.clock.advance(advance)
        running.send([("+U", ("a", 1, None))], TYPES)
    assert [kind for kind, _ in running.changes()] == ["+I", "-U", "+U", "-U", "+U", "+I"]


@pytest.mark.parametrize("upsert", [None, (1,)], ids=["whole rows", "rows with a key"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_sink_by_another_key_has_the_latest_row_that_is_left(backend: str, upsert: Any) -> None:
    rng = random.Random(9)
    running = Stopped(UpsertMaterializeSpec(TYPES, (0,), upsert), backend, seed=9, stops=0.1)
    lists: dict[str, list[Any]] = {key: [] for key in "abcdef"}
    step = 0
    for growth in [0.55] * 40 + [0.0] * 20:  # in the end nothing is left
        part: list[Change] = []
        for _ in range(rng.randrange(1, 9)):
            filled = [rows for rows in lists.values() if rows]
            if rng.random() < growth:
                step += 1
                key = rng.choice(list(lists))
                row = (key, step if upsert else rng.randrange(4), None)
                lists[key].append(row)
                part.append((rng.choice(["+I", "+U"]), row))
            elif filled:
                rows = rng.choice(filled)
                row = rng.choice(rows)
                rows.remove(row)
                part.append((rng.choice(["-D", "-U"]), row))
        running.send(part, TYPES)
        expected = {tuple(map(repr, rows[-1])) for rows in lists.values() if rows}
        assert set(table_of(running.changes(), (0,))) == expected
    assert "-U" not in {kind for kind, _ in running.changes()}
    assert running.harness.state_entries() == {}


def test_rows_of_a_primary_key_that_have_expired_are_not_emitted_again() -> None:
    for pause, kinds in ((999, ["+I", "+U", "+U"]), (1000, ["+I", "+I", "-D"])):
        running = Stopped(UpsertMaterializeSpec(TYPES, (0,), ttl_ms=1000), "hashmap")
        running.send([("+I", ("a", 1, None))], TYPES)
        running.clock.advance(pause)
        running.send([("+I", ("a", 2, None))], TYPES)
        running.send([("-D", ("a", 2, None))], TYPES)
        assert [kind for kind, _ in running.changes()] == kinds


def test_unneeded_row_kinds_are_dropped() -> None:
    rows = [(kind, (kind, 1, None)) for kind in ("+I", "-U", "+U", "-D")]
    for spec, left in (
        (DropKindsSpec(), ["+I", "+U", "-D"]),
        (DropKindsSpec(update_before=False, deletes=True), ["+I", "-U", "+U"]),
        (DropKindsSpec(deletes=True), ["+I", "+U"]),
    ):
        running = Stopped(spec, "hashmap")
        running.send(rows, TYPES)
        assert [kind for kind, _ in running.changes()] == left


def test_a_former_row_without_its_update_is_a_delete_of_its_key() -> None:
    running = Stopped(DropKindsSpec(keys=(0,)), "hashmap")
    running.send(
        [
            ("-U", ("a", 1, None)),
            ("-U", ("b", 1, None)),
            ("+U", ("b", 2, None)),
            ("-U", ("b", 2, None)),
            ("-U", ("c", 1, None)),
            ("-D", ("c", 2, None)),
        ],
        TYPES,
    )
    assert running.changes() == [
        ("-D", ("a", 1, None)),
        ("+U", ("b", 2, None)),
        ("-D", ("b", 2, None)),
        ("-D", ("c", 2, None)),
    ]


def test_null_is_refused_or_dropped_where_a_column_is_not_null() -> None:
    rows = [("a", 1, None), (None, 2, None)]
    running = Stopped(NotNullSpec((0, 1), ("name", "n"), drops=True), "hashmap")
    running.send(rows, TYPES)
    assert running.changes() == [("+I", ("a", 1, None))]
    nested = (DataTypes.ROW([DataTypes.FIELD("x", DataTypes.INT(False))]),)
    running = Stopped(NotNullSpec((0,), ("row.x",), drops=True, paths=(("x",),)), "hashmap")
    running.send([((1,),), (None,), ((None,),)], nested)
    assert [row[0] is None for _, row in running.changes()] == [False, True], "there is no x"
    running = Stopped(NotNullSpec((0,), ("name",)), "hashmap")
    with pytest.raises(RecordError, match="'name' is NOT NULL"):
        running.send(rows, TYPES)
