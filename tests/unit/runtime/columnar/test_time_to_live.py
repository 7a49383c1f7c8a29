"""State that expires, where most of it is on disk or was restored: its time is that of the last write, wherever it has been since."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from penstock.graph.operator_specs.columnar.aggregates import GroupAggregateSpec
from penstock.graph.operator_specs.columnar.joins import JoinSpec
from penstock.sql.expr.nodes import AggregateCall, InputRef
from penstock.sql.types import BigIntType, IntType
from tests.builders.tight_bounds import tight_bounds
from tests.unit.runtime.columnar.join_cases import Stopped

TYPES = (IntType(), IntType())
TTL = 100


def _pauses(rng: random.Random, count: int) -> list[int]:
    return [rng.choice([0, 0, 1, 10, TTL // 2, TTL // 2, TTL - 1, TTL]) for _ in range(count)]


@pytest.mark.parametrize("retracts", [False, True], ids=["appends", "changes"])
def test_rows_of_a_join_find_those_that_came_within_their_time_to_live(retracts: bool) -> None:
    spec = JoinSpec(
        "INNER",
        TYPES,
        TYPES,
        (0,),
        (0,),
        left_ttl_ms=TTL,
        right_ttl_ms=2 * TTL,
        left_retracts=retracts,
        right_retracts=retracts,
    )
    rng = random.Random(6)
    there: list[list[Any]] = [[], []]
    expected: list[Any] = []
    now = 0
    with tight_bounds():
        running = Stopped(spec, "rocksdb", seed=6, stops=0.1)
        for number, pause in enumerate(_pauses(rng, 100)):
            running.clock.advance(pause)
            now += pause
            side, row = rng.randrange(2), (rng.randrange(4), number)
            running.send([row], TYPES, side)
            for came, other in there[1 - side]:
                if other[0] == row[0] and now - came < (2 * TTL, TTL)[side]:
                    expected.append((*row, *other) if side == 0 else (*other, *row))
            there[side].append((now, row))
        assert running.harness.operator.left.spilled.any  # type: ignore[attr-defined]
    assert sorted(row for _, row in running.changes()) == sorted(expected)
    assert len(expected) > 20


@pytest.mark.parametrize("side", [0, 1], ids=["left", "right"])
@pytest.mark.parametrize("others", [0, TTL // 2, 9 * TTL], ids=["never", "before", "later"])
def test_a_row_that_has_expired_takes_its_pairs_along_when_it_is_taken_back(
    side: int, others: int
) -> None:
    """As long as its partners are there: those may never expire, or at another time."""
    ttls = (TTL, others) if side == 0 else (others, TTL)
    spec = JoinSpec(
        "INNER",
        TYPES,
        TYPES,
        (0,),
        (0,),
        left_ttl_ms=ttls[0],
        right_ttl_ms=ttls[1],
        left_retracts=True,
        right_retracts=True,
    )
    running = Stopped(spec, "hashmap")
    running.send([(1, 5)], TYPES, 1 - side)
    running.send([(1, 7)], TYPES, side)
    running.clock.advance(TTL)
    running.restart()  # a checkpoint writes what has not expired
    running.send([("-D", (1, 7))], TYPES, side)
    pair = (1, 7, 1, 5) if side == 0 else (1, 5, 1, 7)
    gone = [] if others == TTL // 2 else [("-D", pair)]
    assert running.changes() == [("+I", pair), *gone]


@pytest.mark.parametrize("unique", [None, (0,), (0, 1)], ids=str)
@pytest.mark.parametrize("kind", ["INNER", "LEFT", "FULL"])
def test_a_row_that_comes_and_goes_in_a_batch_has_not_expired(
    kind: str, unique: tuple[int, ...] | None
) -> None:
    """Only a row that was there before may have been forgotten, so that its pairs are taken back without it."""
    spec = JoinSpec(
        kind,
        TYPES,
        TYPES,
        (0,),
        (0,),
        left_unique=unique,
        left_ttl_ms=TTL,
        right_ttl_ms=TTL,
        left_retracts=True,
        right_retracts=True,
    )
    running = Stopped(spec, "hashmap")
    running.send([(1, 5)], TYPES, 1)
    running.output.frames.clear()
    running.send([("+I", (1, 7)), ("-D", (1, 7))], TYPES)
    running.send([("+I", (2, 7)), ("-U", (2, 7)), ("+U", (2, 8)), ("-D", (2, 8))], TYPES)
    assert running.changes() == []
    running.send([("+I", (1, 7)), ("-U", (1, 7)), ("+U", (1, 8))], TYPES)
    table = Counter(row for change, row in running.changes() if change in {"+I", "+U"})
    table.subtract(row for change, row in running.changes() if change in {"-U", "-D"})
    assert {row: count for row, count in table.items() if count} == {
        (1, 8, 1, 5): 1,
        **({(None, None, 1, 5): -1} if kind == "FULL" else {}),
    }


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "SEMI", "ANTI"])
def test_partners_that_have_expired_still_count_after_a_restart(kind: str) -> None:
    """As in Flink, a row is not alone again because its partner was forgotten: nothing takes the pair back."""
    kept = (0, TTL) if kind != "RIGHT" else (TTL, 0)
    emitted = []
    for restarts in (False, True):
        spec = JoinSpec(kind, TYPES, TYPES, (0,), (0,), left_ttl_ms=kept[0], right_ttl_ms=kept[1])
        running = Stopped(spec, "hashmap")
        outer = 1 if kind == "RIGHT" else 0
        running.send([(1, 5)], TYPES, outer)
        running.send([(1, 6)], TYPES, 1 - outer)
        running.clock.advance(TTL)
        if restarts:
            running.restart()
        running.output.frames.clear()
        running.send([(1, 7)], TYPES, 1 - outer)
        emitted.append(running.changes())
    pair = {"RIGHT": (1, 7, 1, 5)}.get(kind, (1, 5, 1, 7))
    assert emitted == [[] if kind in {"SEMI", "ANTI"} else [("+I", pair)]] * 2


def test_a_key_whose_spilled_rows_have_expired_takes_no_state() -> None:
    spec = JoinSpec(
        "INNER", TYPES, TYPES, (0,), (0,), left_ttl_ms=TTL, left_retracts=True, right_retracts=True
    )
    with tight_bounds():
        running = Stopped(spec, "rocksdb")
        for key in range(6):
            running.send([(key, key)], TYPES)
        assert running.harness.state_entries()["left-spilled"] > 1
        running.clock.advance(TTL)
        for key in range(6):
            running.send([(key, key)], TYPES, 1)
        running.send([("-D", (key, key)) for key in range(6)], TYPES, 1)
        assert running.changes() == []
        assert "left-spilled" not in running.harness.state_entries()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_groups_and_their_distinct_values_expire_after_their_last_write(backend: str) -> None:
    """A value is written when it counts, a group with each row."""
    count = AggregateCall("COUNT", (), BigIntType())
    distinct = AggregateCall("COUNT", (InputRef(TYPES[1], 1),), BigIntType(), distinct=True)
    spec = GroupAggregateSpec(TYPES, (0,), (count, distinct), ttl_ms=TTL, update_before=False)
    rng = random.Random(8)
    groups: dict[int, tuple[int, int, int]] = {}  # key -> last write, rows, values
    seen: dict[tuple[int, int], int] = {}
    expected, now = [], 0
    with tight_bounds():
        running = Stopped(spec, backend, seed=8, stops=0.1)
        for pause in _pauses(rng, 80):
            running.clock.advance(pause)
            now += pause
            row = (rng.randrange(3), rng.randrange(2))
            running.send([row], TYPES)
            written, rows, values = groups.get(row[0], (now, 0, 0))
            known = now - written < TTL and rows > 0
            if not known:
                rows = values = 0
            if now - seen.get(row, now - TTL) >= TTL:
                values += 1
                seen[row] = now
            groups[row[0]] = (now, rows + 1, values)
            expected.append(("+U" if known else "+I", (row[0], rows + 1, values)))
    assert running.changes() == expected
