"""Random queries in event time: rows come out of order, late, in any splits, and the result is what SQLite computes by Flink's rules."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.records import MAX_WATERMARK
from tests.builders.changing_tables import as_given
from tests.builders.examples import examples
from tests.builders.plan_runs import PlanRun, upserted_table, valid_table
from tests.builders.tight_bounds import tight_bounds
from tests.builders.timelines import TABLES, Timeline, happenings
from tests.sql.nested_queries import nested_queries
from tests.sql.timed_queries import CHAOS, DRAINED, LATE, Timed, timed_queries
from tests.unit.table.plan.plans import Catalog
from tests.unit.table.sql_plans import planned

SEEDS = st.integers(0, 2**16)
SOAK_S = 7200
TWO_PHASE = {"table_optimizer_agg__phase__strategy": "TWO_PHASE"}
LEAVES = ("SELECT a, b, c FROM one", "SELECT a, b, c FROM two")


def catalog(mode: str, views: dict[str, str]) -> Catalog:
    """The tables of a Timeline, and views of them; `mode` is that of the tables whose rows change."""
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
        *(f"CREATE VIEW {name} AS {text}" for name, text in views.items()),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, dict[str, Timed], str]:
    """A mode, two views in time, and a query over them."""
    mode = draw(st.sampled_from([CHAOS, DRAINED, LATE]))
    views = {name: draw(timed_queries(mode)) for name in ("one", "two")}
    query = draw(st.one_of(st.just(LEAVES[0]), nested_queries(1, LEAVES)))
    return mode, views, query


@given(
    case=cases(),
    seed=SEEDS,
    source=st.sampled_from(["all", "upsert"]),
    parallelism=st.sampled_from([(1, 1), (2, 3), (3, 1)]),
    options=st.sampled_from([{}, TWO_PHASE]),
    backend=st.sampled_from(["hashmap", "hashmap", "rocksdb"]),
    tight=st.booleans(),
)
@settings(max_examples=examples(150, soak=3000), deadline=None)
@pytest.mark.timeout(SOAK_S)
def test_queries_in_event_time_give_what_sqlite_computes(
    case: tuple[str, dict[str, Timed], str],
    seed: int,
    source: str,
    parallelism: tuple[int, int],
    options: dict[str, str],
    backend: str,
    tight: bool,
) -> None:
    mode, views, query = case
    tables = catalog(source, {name: each.ours for name, each in views.items()})
    plans = [
        planned(query, tables=tables, update_before=before, **options) for before in (True, False)
    ]
    first, second = parallelism
    with ExitStack() as stack:
        if tight:
            stack.enter_context(tight_bounds())
        runs = [
            stack.enter_context(PlanRun(each, parallelism=first, seed=seed, backend=backend))
            for each in plans
        ]
        check(runs, mode, views, query, seed, source, second)


def check(
    runs: list[PlanRun],
    mode: str,
    views: dict[str, Timed],
    query: str,
    seed: int,
    source: str,
    parallelism: int,
) -> None:
    """Run a query over events, with -U rows and without, and compare what it gives in the middle and at the end with SQLite."""
    theirs = {name: each.theirs for name, each in views.items()}
    timeline, rng = Timeline(), random.Random(seed)
    events = happenings(seed, 24, late=mode == LATE)
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
                run.feed(table, *as_given(changes, source), source=_sender(table, changes[0][1]))
        steps = rng.randrange(12)
        for run in runs:
            run.drain() if mode != CHAOS and isinstance(event, int) else run.steps(steps)
        if number == len(events) // 2:
            for run in runs:
                run.restart(parallelism=parallelism)
                run.drain()
            if all(each.settled for each in views.values()):
                assert valid_table(runs[0].out) == timeline.ask(theirs, query)
    for run in runs:
        run.finish()
    timeline.advance(MAX_WATERMARK)
    expected = timeline.ask(theirs, query)
    assert valid_table(runs[0].out) == expected
    assert "-U" not in {kind for kind, _ in runs[1].out}
    for run in runs:
        for key in run.plan.result.traits.keys:
            assert upserted_table(run.out, key) == expected, sorted(key)


def _sender(table: str, row: tuple[Any, ...]) -> int:
    """Rows of a key come from one subtask, so that their order is known."""
    return (row[1] if table in {"bids", "asks"} else row[0]) or 0
