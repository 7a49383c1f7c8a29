"""Random queries in event time: rows come out of order, late, in any splits, and the result is what SQLite computes by Flink's rules."""

from __future__ import annotations

import datetime as dt
import functools
import random
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.records import MAX_WATERMARK
from tests.builders.changing_tables import as_given, together
from tests.builders.examples import examples
from tests.builders.plan_runs import Change, PlanRun, upserted_table, valid_table
from tests.builders.tight_bounds import tight_bounds
from tests.builders.timelines import TABLES, Timeline, happenings, millis
from tests.sql.nested_queries import nested_queries
from tests.sql.timed_queries import CHAOS, DRAINED, FAMILIES, LATE, Timed, timed_queries
from tests.unit.table.plan.plans import Catalog
from tests.unit.table.sql_plans import planned

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
    events = together(rng, happenings(case.seed, 24, names, late=mode == LATE))
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
