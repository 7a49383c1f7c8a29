"""Random queries in event time: rows come out of order, late, in any splits, and the result is what SQLite computes by Flink's rules."""

from __future__ import annotations

import datetime as dt
import functools
import random
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.records import MAX_WATERMARK
from penstock.sql.physical.nodes import INSERTS
from tests.builders.changing_tables import as_given, together
from tests.builders.examples import examples
from tests.builders.plan_runs import Change, PlanRun, upserted_table, valid_table
from tests.builders.tight_bounds import tight_bounds
from tests.builders.timelines import BASE, BASE_MS, TABLES, Timeline, happenings, millis
from tests.sql.nested_queries import nested_queries
from tests.sql.timed_queries import (
    CHAOS,
    DRAINED,
    FAMILIES,
    LATE,
    Timed,
    sums_of_sessions,
    sums_of_windows,
    timed_queries,
    versions_of,
)
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.sql_plans import keys_of, planned

Event = tuple[str, list[Change]] | int
SEEDS = st.integers(0, 2**16)
SOAK_S = 7200
TWO_PHASE = {"table_optimizer_agg__phase__strategy": "TWO_PHASE"}
#: Temporal joins are only known where nothing is late, and best where each watermark is everywhere at once.
MODES: dict[str | None, tuple[str, ...]] = {
    "interval joins": (CHAOS, DRAINED),
    "temporal joins": (DRAINED, DRAINED, CHAOS),
}
LEAVES = ("SELECT a, b, c FROM one", "SELECT a, b, c FROM two")


@functools.cache
def tables(mode: str) -> Catalog:
    """The tables of a Timeline; `mode` is that of the tables whose rows change."""
    grows = (
        "WITH ('connector' = 'toy', 'unbounded' = 'true', 'can' = 'apply_projection apply_filters')"
    )
    changes = f"WITH ('connector' = 'toy', 'mode' = '{mode}', 'unbounded' = 'true', 'can' = 'apply_projection')"
    timed = "ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    return Catalog(
        f"CREATE TABLE bids (id INT, k INT, v INT, {timed}, pt AS PROCTIME()) {grows}",
        f"CREATE TABLE asks (id INT, k INT, v INT, {timed}, pt AS PROCTIME()) {grows}",
        f"CREATE TABLE stock (id INT NOT NULL, k INT, v INT, {timed}, PRIMARY KEY (id) NOT ENFORCED) {changes}",
        f"CREATE TABLE rates (k INT NOT NULL, rate INT, {timed}, PRIMARY KEY (k) NOT ENFORCED) {changes}",
        "CREATE VIEW latest AS SELECT k, v AS rate, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS rn FROM asks) WHERE rn = 1",
    )


def catalog(mode: str, views: dict[str, str]) -> Catalog:
    """The tables, and views of them."""
    made = Catalog(*(f"CREATE VIEW {name} AS {text}" for name, text in views.items()))
    made.tables |= tables(mode).tables
    return made


@dataclass(frozen=True)
class Case:
    """How rows come, views in time, and a query over them."""

    mode: str
    views: dict[str, Timed]
    query: str
    seed: int
    source: str  # mode of the tables whose rows change
    parallelism: tuple[int, int]
    options: dict[str, str]
    backend: str
    tight: bool
    events: tuple[Event, ...] = ()  # what happens; nothing: what the seed says


@st.composite
def cases(draw: st.DrawFn, family: str | None = None) -> Case:
    """A query of a family, or a query over two of any."""
    modes = MODES.get(family, (CHAOS, DRAINED, LATE))
    mode = draw(st.sampled_from(modes))
    names = ("one",) if family else ("one", "two")
    views = {name: draw(timed_queries(mode, family)) for name in names}
    return Case(
        mode,
        views,
        "SELECT * FROM one" if family else draw(nested_queries(1, LEAVES)),
        draw(SEEDS),
        draw(st.sampled_from(["all", "upsert"])),
        draw(st.sampled_from([(1, 1), (2, 3), (3, 1)])),
        draw(st.sampled_from([{}, TWO_PHASE])),
        draw(st.sampled_from(["hashmap", "hashmap", "rocksdb"])),
        draw(st.booleans()),
    )


@given(case=cases())
@settings(max_examples=examples(36, soak=3000), deadline=None)
@pytest.mark.timeout(SOAK_S)
def test_queries_over_others_in_event_time_give_what_sqlite_computes(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=examples(30, soak=1000), deadline=None)
@pytest.mark.timeout(SOAK_S)
def test_queries_in_event_time_give_what_sqlite_computes(family: str, data: st.DataObject) -> None:
    run(data.draw(cases(family)))


def row(number: int, seconds: float) -> Change:
    """An insert into `bids` or `asks` with the key 1."""
    return ("+I", (number, 1, number, BASE + dt.timedelta(seconds=seconds)))


def rate(kind: str, value: int, seconds: float) -> Change:
    """A version of the key 1."""
    return (kind, (1, value, BASE + dt.timedelta(seconds=seconds)))


def until(seconds: float) -> int:
    """The watermark up to a time, which is not part of it."""
    return BASE_MS + round(seconds * 1000) - 1


# The restart, in the middle, is before what matters.
BEFORE: tuple[Event, ...] = tuple(("bids", [row(number, 30)]) for number in range(90, 96))
SCENARIOS: dict[str, tuple[str, Timed, tuple[Event, ...]]] = {
    "a row of a slice whose first CUMULATE window has ended counts in the others": (
        LATE,
        sums_of_windows("bids", "cumulate_2_6"),
        (("bids", [row(1, 0.5)]), until(2), ("bids", [row(2, 1)]), until(4), until(6)),
    ),
    "a row that is late for one HOP window counts in the others": (
        LATE,
        sums_of_windows("bids", "hop_2_6"),
        (("bids", [row(1, 3)]), until(4), ("bids", [row(2, 3)]), until(6), until(9)),
    ),
    "sessions that touch are one, within a batch": (
        LATE,
        sums_of_sessions("bids", 1),
        (("bids", [row(1, 1), row(2, 2)]), until(5)),
    ),
    "a late row that touches a session is part of it": (
        LATE,
        sums_of_sessions("bids", 1),
        (("bids", [row(1, 3)]), until(3.2), ("bids", [row(2, 2)]), until(5)),
    ),
    "a late row that touches no session is dropped": (
        LATE,
        sums_of_sessions("bids", 1),
        (("bids", [row(1, 3)]), until(3.2), ("bids", [row(2, 1.5)]), until(5)),
    ),
    "versions that come in one batch are all versions": (
        DRAINED,
        versions_of("rates"),
        (
            ("rates", [rate("+I", 4, 1), rate("-U", 4, 1), rate("+U", 5, 6)]),
            ("bids", [row(1, 3), row(2, 7)]),
            until(8),
        ),
    ),
    "of versions with the same time the last one counts": (
        DRAINED,
        versions_of("rates"),
        (
            ("rates", [rate("+I", 4, 2)]),
            ("rates", [rate("-U", 4, 2), rate("+U", 5, 2)]),
            ("bids", [row(1, 3)]),
            until(4),
            ("rates", [rate("-D", 5, 2)]),
            ("bids", [row(2, 5)]),
            until(8),
        ),
    ),
    "last rows that come in one batch are all versions": (
        DRAINED,
        versions_of("asks"),
        (("asks", [row(1, 1), row(2, 6)]), ("bids", [row(3, 3), row(4, 7)]), until(8)),
    ),
}


@pytest.mark.parametrize("source", ["all", "upsert"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_random_events_rarely_do(name: str, source: str) -> None:
    mode, view, events = SCENARIOS[name]
    case = Case(
        mode, {"one": view}, "SELECT * FROM one", 0, source, (1, 1), {}, "hashmap", tight=False
    )
    run(replace(case, events=(*BEFORE, *events)))


def test_rows_of_a_changing_table_are_known_with_their_window() -> None:
    hop = "TABLE(HOP(TABLE stock, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '2' SECOND))"
    query = f"SELECT id, k, window_start, window_end FROM {hop}"
    found = keys_of(planned(query, tables=tables("all")))
    assert found == {("id", "window_start"), ("id", "window_end")}


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT"])
def test_windows_of_joined_rows_are_those_of_the_side_that_is_preserved(kind: str) -> None:
    """Such windows end, so their results are never changed."""
    window = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '2' SECOND))"
    grouped = f"SELECT window_start, window_end, k, COUNT(*) AS n FROM {window.format('asks')} GROUP BY window_start, window_end, k"
    side = "r" if kind == "RIGHT" else "l"
    joined = f"SELECT {side}.window_start, {side}.window_end, l.id FROM (SELECT * FROM {window.format('bids')}) l {kind} JOIN ({grouped}) r ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"
    query = f"SELECT window_start, window_end, COUNT(id) AS n FROM ({joined}) GROUP BY window_start, window_end"
    plan = planned(query, tables=tables("all"))
    assert plan.result.traits.changes == INSERTS
    assert keys_of(plan) == {("window_start",), ("window_end",)}


def run(case: Case) -> None:
    """Run a case with -U rows and without."""
    known = catalog(case.source, {name: each.ours for name, each in case.views.items()})
    plans = [
        planned(case.query, tables=known, update_before=before, **case.options)
        for before in (True, False)
    ]
    with ExitStack() as stack:
        if case.tight:
            stack.enter_context(tight_bounds())
        runs = [
            stack.enter_context(
                PlanRun(each, parallelism=case.parallelism[0], seed=case.seed, backend=case.backend)
            )
            for each in plans
        ]
        check(runs, case)


def check(runs: list[PlanRun], case: Case) -> None:
    """Compare what a query gives in the middle and at the end with SQLite."""
    mode, views, query = case.mode, case.views, case.query
    theirs = {name: each.theirs for name, each in views.items()}
    timeline, rng = Timeline(), random.Random(case.seed)
    names = [name for each in views.values() for name in each.tables]
    events = list(case.events) or together(rng, happenings(case.seed, 24, names, late=mode == LATE))
    for number, event in enumerate(events):
        if isinstance(event, int):
            timeline.advance(event)
            for run in runs:
                for table in TABLES:
                    run.advance(table, event)
        else:
            table, changes = event
            timeline.apply(table, changes)
            for run in runs:
                # Rows of a key come from one subtask, so that their order is known.
                key = 1 if table in {"bids", "asks"} else 0
                run.feed(table, *as_given(changes, case.source), by=key)
        steps = rng.randrange(12)
        for run in runs:
            run.drain() if mode != CHAOS and isinstance(event, int) else run.steps(steps)
        if number == len(events) // 2:
            for run in runs:
                run.restart(parallelism=case.parallelism[1])
                run.drain()
            if all(each.settled for each in views.values()):
                assert valid_table(shown(runs[0].out)) == timeline.ask(theirs, query)
    for run in runs:
        run.finish()
    timeline.advance(MAX_WATERMARK)
    expected = timeline.ask(theirs, query)
    assert valid_table(shown(runs[0].out)) == expected
    assert "-U" not in {kind for kind, _ in runs[1].out}
    for run in runs:
        for key in run.plan.result.traits.keys:
            assert upserted_table(shown(run.out), key) == expected, sorted(key)


def shown(changes: list[Change]) -> list[Change]:
    """Times as SQLite has them."""
    return [
        (kind, tuple(millis(each) if isinstance(each, dt.datetime) else each for each in row))
        for kind, row in changes
    ]
