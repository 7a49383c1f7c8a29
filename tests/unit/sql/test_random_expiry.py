"""State with a time to live, in random orders of rows and pauses: each operator forgets what is too old, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.plan_runs import ChangingTable, PlanRun, upserted_table, valid_table
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.sql_plans import planned

SEEDS = st.integers(0, 2**16)
SOAK_S = 7200
_GROWS = "(id INT, k INT, v INT, pt AS PROCTIME()) WITH ('connector' = 'toy', 'unbounded' = 'true')"
_CHANGES = "(id INT NOT NULL, k INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = 'all', 'unbounded' = 'true')"
GROWING = Catalog(f"CREATE TABLE lefts {_GROWS}", f"CREATE TABLE rights {_GROWS}")
CHANGING = Catalog(f"CREATE TABLE lefts {_CHANGES}", f"CREATE TABLE rights {_CHANGES}")
TTLS = st.sampled_from([3, 5, 8])


@dataclass(frozen=True)
class Arrival:
    """A change, and the second in which it came."""

    second: int
    table: str
    kind: str
    row: tuple[Any, ...]  # id, k, v


def arrivals(seed: int, *, changing: bool = False, count: int = 24) -> list[Arrival]:
    """Rows with pauses between them. `changing`: some of them are updated and deleted."""
    rng, now, found = random.Random(seed), 0, []
    tables = {name: ChangingTable() for name in ("lefts", "rights")}
    for number in range(count):
        now += rng.choice([0, 0, 1, 1, 2, 4])
        name = rng.choice(["lefts", "rights"])
        key = rng.randrange(8) if changing else number
        row = (key, rng.choice([1, 1, 2, None]), rng.choice([1, 5, 7]))
        found += [Arrival(now, name, *change) for change in tables[name].change(rng, row)]
    return found


def ran(
    query: str,
    seed: int,
    parallelism: tuple[int, int],
    ttl: int | None = None,
    *,
    changing: bool = False,
) -> PlanRun:
    """A run of the arrivals of a seed, with a restart in the middle."""
    options = {} if ttl is None else {"table_exec_state_ttl": f"{ttl} s"}
    tables = CHANGING if changing else GROWING
    run = PlanRun(planned(query, tables=tables, **options), parallelism=parallelism[0], seed=seed)
    for number, each in enumerate(arrivals(seed, changing=changing)):
        if each.second * 1000 > run.clock.now:
            run.pass_time(each.second * 1000 - run.clock.now)
        run.feed(each.table, (each.kind, each.row), by=1)
        run.drain()
        if number == 12:
            run.restart(parallelism=parallelism[1])
    run.drain()
    return run


@dataclass
class Kept:
    """A row that a join keeps, when it was written, and how many partners it has had."""

    row: tuple[Any, ...]
    second: int
    partners: int


class Join:
    """A join as Flink runs it, one change at a time. A row that is joined is written again where its side is preserved, so that it expires later."""

    def __init__(self, kind: str, ttls: dict[str, int | None], more: bool) -> None:
        self.kind, self.ttls, self.more = kind, ttls, more
        self.kept: dict[str, list[Kept]] = {"lefts": [], "rights": []}
        self.preserved = {
            "lefts": kind in {"LEFT", "FULL", "SEMI", "ANTI"},
            "rights": kind in {"RIGHT", "FULL"},
        }
        self.out: Counter[tuple[Any, ...]] = Counter()

    def take(self, change: Arrival) -> None:
        """Join a change with what the other side has now."""
        name, row, now = change.table, change.row, change.second
        other = "rights" if name == "lefts" else "lefts"
        sign = 1 if change.kind in {"+I", "+U"} else -1
        met = [each for each in self._fresh(other, now) if self._meets(name, row, each.row)]
        for each in met:
            self._emit_pair(name, row, each.row, sign)
            if self.preserved[other]:
                if each.partners == (0 if sign > 0 else 1):
                    self._emit_turned(other, each.row, sign)
                each.partners = max(each.partners + sign, 0)
                each.second = now
        if self.preserved[name] and (self.kind == "SEMI") == bool(met):
            self._emit_own(name, row, sign)
        if sign > 0:
            self.kept[name].append(Kept(row, now, len(met)))
        else:
            there = [each for each in self._fresh(name, now) if each.row == row]
            if there:
                self.kept[name].remove(there[0])

    def _fresh(self, name: str, now: int) -> list[Kept]:
        ttl = self.ttls[name]
        return [each for each in self.kept[name] if ttl is None or now - each.second < ttl]

    def _meets(self, name: str, row: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        left, right = (row, other) if name == "lefts" else (other, row)
        return left[1] is not None and left[1] == right[1] and (not self.more or left[2] > right[2])

    def _emit_pair(
        self, name: str, row: tuple[Any, ...], other: tuple[Any, ...], sign: int
    ) -> None:
        if self.kind not in {"SEMI", "ANTI"}:
            left, right = (row, other) if name == "lefts" else (other, row)
            self.out[left[0], right[0]] += sign

    def _emit_own(self, name: str, row: tuple[Any, ...], sign: int) -> None:
        if self.kind in {"SEMI", "ANTI"}:
            self.out[row[:1]] += sign
        else:
            self.out[(row[0], None) if name == "lefts" else (None, row[0])] += sign

    def _emit_turned(self, name: str, row: tuple[Any, ...], sign: int) -> None:
        """A row has its first partner, or no more."""
        self._emit_own(name, row, sign if self.kind == "SEMI" else -sign)


@given(
    kind=st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]),
    left=st.one_of(st.none(), TTLS),
    right=st.one_of(st.none(), TTLS),
    both=st.one_of(st.none(), st.just(6)),
    more=st.booleans(),
    seed=SEEDS,
    changing=st.booleans(),
    parallelism=st.sampled_from([(1, 1), (2, 3)]),
)
@settings(max_examples=examples(60, soak=1000), deadline=None)
@pytest.mark.timeout(SOAK_S)
def test_a_join_finds_rows_that_are_not_older_than_its_side_keeps_them(
    kind: str,
    left: int | None,
    right: int | None,
    both: int | None,
    more: bool,
    seed: int,
    changing: bool,
    parallelism: tuple[int, int],
) -> None:
    """STATE_TTL is about one side, the option about those that it does not name."""
    kept = {"l": left, "r": right}
    named = ", ".join(f"'{name}' = '{ttl} s'" for name, ttl in kept.items() if ttl is not None)
    hint = f"/*+ STATE_TTL({named}) */ " if named and kind not in {"SEMI", "ANTI"} else ""
    if not hint:
        kept = {"l": None, "r": None}
    condition = "l.k = r.k" + (" AND l.v > r.v" if more else "")
    if kind in {"SEMI", "ANTI"}:
        word = "NOT EXISTS" if kind == "ANTI" else "EXISTS"
        query = f"SELECT l.id FROM lefts l WHERE {word} (SELECT 1 FROM rights r WHERE {condition})"
    else:
        query = f"SELECT {hint}l.id, r.id FROM lefts l {kind} JOIN rights r ON {condition}"
    run = ran(query, seed, parallelism, both, changing=changing)
    lives = [both if ttl is None else ttl for ttl in kept.values()]
    join = Join(kind, dict(zip(("lefts", "rights"), lives, strict=True)), more)
    for each in arrivals(seed, changing=changing):
        join.take(each)
    if not changing:
        valid_table(run.out)
    table: Counter[tuple[Any, ...]] = Counter()
    for change, row in run.out:
        table[row] += 1 if change in {"+I", "+U"} else -1
    assert {row: count for row, count in table.items() if count} == {
        row: count for row, count in join.out.items() if count
    }


@given(
    ttl=TTLS,
    hinted=st.booleans(),
    call=st.sampled_from(["SUM(v)", "CAST(COUNT(DISTINCT v) AS INT)"]),
    seed=SEEDS,
    parallelism=st.sampled_from([(1, 1), (2, 3)]),
)
@settings(max_examples=examples(30, soak=1000), deadline=None)
@pytest.mark.timeout(SOAK_S)
def test_a_group_begins_again_if_no_row_has_come_for_so_long(
    ttl: int, hinted: bool, call: str, seed: int, parallelism: tuple[int, int]
) -> None:
    """As in Flink, a distinct value is forgotten so long after it was new, and counts again then."""
    hint = f"/*+ STATE_TTL('lefts' = '{ttl} s') */ " if hinted else ""
    # The hint is worth more than the option.
    option = 100 if hinted else ttl
    query = f"SELECT {hint}k, CAST(COUNT(*) AS INT), {call} FROM lefts GROUP BY k"
    run = ran(query, seed, parallelism, option)
    groups: dict[int | None, tuple[int, int, int]] = {}  # last row, rows, result
    new: dict[tuple[int | None, int], int] = {}  # when a value was new
    for each in arrivals(seed):
        if each.table != "lefts":
            continue
        _, key, number = each.row
        last, count, result = groups.get(key, (each.second, 0, 0))
        if each.second - last >= ttl:
            count = result = 0
        value = (key, number)
        if call == "SUM(v)":
            result += number
        elif value not in new or each.second - new[value] >= ttl:
            new[value] = each.second
            result += 1
        groups[key] = (each.second, count + 1, result)
    expected = Counter((key, count, result) for key, (_, count, result) in groups.items())
    assert upserted_table(run.out, (0,)) == expected


@given(ttl=TTLS, seed=SEEDS, parallelism=st.sampled_from([(1, 1), (2, 3)]))
@settings(max_examples=examples(30, soak=1000), deadline=None)
@pytest.mark.timeout(SOAK_S)
def test_a_row_that_is_taken_back_from_a_forgotten_group_is_in_no_other(
    ttl: int, seed: int, parallelism: tuple[int, int]
) -> None:
    """As in Flink, a group begins with a row that comes, and ends when as many have gone as have come since."""
    query = "SELECT k, CAST(COUNT(*) AS INT), SUM(v), MIN(k) FROM lefts GROUP BY k"
    run = ran(query, seed, parallelism, ttl, changing=True)
    groups: dict[int | None, tuple[int, int, int]] = {}  # last row, rows, sum
    there: dict[int | None, tuple[int, int]] = {}
    for each in arrivals(seed, changing=True):
        if each.table != "lefts":
            continue
        _, key, number = each.row
        sign = 1 if each.kind in {"+I", "+U"} else -1
        last, count, total = groups.get(key, (each.second, 0, 0))
        if each.second - last >= ttl:
            count = total = 0
        if not count and sign < 0:
            continue
        count, total = count + sign, total + sign * number
        groups[key] = each.second, count, total
        if count:
            there[key] = count, total
        else:
            del groups[key], there[key]
    expected = Counter((key, *results, key) for key, results in there.items())
    assert upserted_table(run.out, (0,)) == expected


@given(
    ttl=TTLS,
    order=st.sampled_from(["pt", "pt DESC"]),
    seed=SEEDS,
    parallelism=st.sampled_from([(1, 1), (2, 3)]),
)
@settings(max_examples=examples(30, soak=1000), deadline=None)
@pytest.mark.timeout(SOAK_S)
def test_a_key_is_new_again_after_so_long(
    ttl: int, order: str, seed: int, parallelism: tuple[int, int]
) -> None:
    """The first row of a key is emitted again when the one that was kept is too old; the last one is an insert then, not an update."""
    query = f"SELECT k, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS rn FROM lefts) WHERE rn = 1"
    run = ran(query, seed, parallelism, ttl)
    last = order == "pt DESC"
    kept: dict[int | None, Arrival] = {}
    expected: dict[int | None, list[tuple[str, tuple[Any, ...]]]] = {}
    for each in arrivals(seed):
        if each.table != "lefts":
            continue
        number, key, _ = each.row
        before = kept.get(key)
        if before is not None and each.second - before.second >= ttl:
            before = None
        reported = expected.setdefault(key, [])
        if before is None:
            reported.append(("+I", (key, number)))
        elif last:
            reported += [("-U", (key, before.row[0])), ("+U", (key, number))]
        if before is None or last:
            kept[key] = each
    for key, reported in expected.items():
        assert [change for change in run.out if change[1][0] == key] == reported
