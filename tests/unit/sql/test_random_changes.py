"""Random queries over random changes: each prefix of the changelog is a table, and the last one is what the same query gives of the tables as they are."""

from __future__ import annotations

import random
import re
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.builders.changing_tables import Recomputed, as_given, happenings, together
from tests.builders.examples import examples
from tests.builders.plan_runs import (
    Change,
    ChangingTable,
    PlanRun,
    upserted_table,
    valid_table,
)
from tests.builders.tight_bounds import tight_bounds
from tests.sql import random_queries
from tests.sql.nested_queries import nested_queries
from tests.sql.random_queries import Queries, shown
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.sql_plans import planned

SEEDS = st.integers(0, 2**16)
#: Thousands of examples take longer than a test may take otherwise.
SOAK_S = 7200
TWO_PHASE = {"table_optimizer_agg__phase__strategy": "TWO_PHASE"}
SPLIT = {"table_optimizer_distinct__agg_split_enabled": "true"}


@given(
    query=nested_queries(),
    seed=SEEDS,
    mode=st.sampled_from(["all", "upsert"]),
    parallelism=st.sampled_from([(1, 1), (2, 3), (3, 1)]),
    options=st.sampled_from([{}, {}, TWO_PHASE, SPLIT, {**TWO_PHASE, **SPLIT}]),
    backend=st.sampled_from(["hashmap", "hashmap", "rocksdb"]),
    tight=st.booleans(),
)
@settings(max_examples=examples(120, soak=3000), deadline=None)
@pytest.mark.timeout(SOAK_S)
def test_nested_queries_over_changing_tables_give_what_sqlite_computes(
    query: str,
    seed: int,
    mode: str,
    parallelism: tuple[int, int],
    options: dict[str, str],
    backend: str,
    tight: bool,
) -> None:
    plans = [planned(query, mode, update_before=before, **options) for before in (True, False)]
    first, second = parallelism
    with ExitStack() as stack:
        if tight:
            stack.enter_context(tight_bounds())
        runs = [
            stack.enter_context(PlanRun(each, parallelism=first, seed=seed, backend=backend))
            for each in plans
        ]
        check(runs, query, seed, mode, second)


def check(runs: list[PlanRun], query: str, seed: int, mode: str, parallelism: int) -> None:
    """Run a query over changes, with -U rows and without, and compare what it leaves in the middle and at the end with SQLite."""
    tables, rng = Recomputed(), random.Random(seed)
    changes = together(rng, happenings(seed, 24))
    for number, (table, rows) in enumerate(changes):
        given_rows, steps = as_given(rows, mode), rng.randrange(8)
        tables.apply(table, rows)
        for run in runs:
            run.feed(table, *given_rows)
            run.steps(steps)
        if number == len(changes) // 2:
            for run in runs:
                run.restart(parallelism=parallelism)
            assert valid_table(runs[0].out) == tables.ask(query)
    for run in runs:
        run.drain()
    expected = tables.ask(query)
    assert valid_table(runs[0].out) == expected
    assert "-U" not in {kind for kind, _ in runs[1].out}
    for run in runs:
        for key in run.plan.result.traits.keys:
            assert upserted_table(run.out, key) == expected, sorted(key)


@given(
    query=nested_queries(2),
    seed=SEEDS,
    mode=st.sampled_from(["all", "upsert"]),
    parallelism=st.sampled_from([(1, 1), (2, 3), (3, 1)]),
    sink=st.sampled_from([("sink", (0,)), ("pairs", (0, 1)), ("mirror", (0,))]),
)
@settings(max_examples=examples(60, soak=3000), deadline=None)
@pytest.mark.timeout(SOAK_S)
def test_a_table_has_one_of_the_rows_of_each_primary_key(
    query: str,
    seed: int,
    mode: str,
    parallelism: tuple[int, int],
    sink: tuple[str, tuple[int, ...]],
) -> None:
    """The query may know its rows by anything: where it has several of a primary key, any of them that is there now will do."""
    table, key = sink
    plan = planned(f"INSERT INTO {table} {query}", mode)
    run = PlanRun(plan, parallelism=parallelism[0], seed=seed)
    tables, rng = Recomputed(), random.Random(seed)
    changes = together(rng, happenings(seed, 30))
    for number, (name, rows) in enumerate(changes):
        run.feed(name, *as_given(rows, mode))
        run.steps(rng.randrange(8))
        tables.apply(name, rows)
        if number in {len(changes) // 2, len(changes) - 1}:
            run.restart(parallelism=parallelism[1])
            expected = tables.ask(query)
            there = upserted_table(run.out, key)
            assert there <= expected
            assert {name_of(row, key) for row in there} == {name_of(row, key) for row in expected}
    if table != "mirror":
        assert "-U" not in {kind for kind, _ in run.out}


def name_of(row: tuple[Any, ...], key: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(row[at] for at in key)


# Kinds of queries whose results do not depend on when rows come. Left out are those that need event time, and totals: of no rows at all a
# stream gives no row, and a batch gives one.
KINDS = ("case", "distinct", "group", "grouping_sets", "join", "join_of_groups", "join_three", "nested_group", "order_limit", "projection", "scalar_subquery", "semi", "set_operation", "top", "top_of_groups", "unnest", "with")  # fmt: skip
KEYS = {"orders": "id", "items": "iid", "names": "k"}
# What is left of sums of rounded numbers shows in their roots; and a COUNT of no rows is a row in a batch only.
NOT_THE_SAME = re.compile(r"STDDEV|VAR_|\(SELECT COUNT")


def random_catalog(mode: str, *, bounded: bool) -> Catalog:
    """The tables of the random queries, without event time."""
    unbounded = "" if bounded else ", 'unbounded' = 'true'"
    options = f"WITH ('connector' = 'toy', 'mode' = '{mode}'{unbounded})"
    return Catalog(
        *(
            f"CREATE TABLE {name} ({', '.join(f'`{column}` {kind}' for column, kind in columns.items())}, "
            f"PRIMARY KEY ({KEYS[name]}) NOT ENFORCED) {options}"
            for name, columns in random_queries.TABLES.items()
        )
    )


def random_changes(seed: int) -> tuple[list[tuple[str, list[Change]]], dict[str, ChangingTable]]:
    """Changes of the tables of the random queries, and what they leave."""
    rng = random.Random(seed)
    rows = {
        name: [row for n in (1, 2) for row in random_queries.rows_of(name, seed + n)][:80]
        for name in KEYS
    }
    tables = {name: ChangingTable() for name in KEYS}
    found = []
    for _ in range(40):
        name = rng.choice(["orders", "orders", "items", "items", "names"])
        row = rng.choice(rows[name])
        found.append((name, tables[name].change(rng, row)))
    return found, tables


def as_shown(table: Counter[tuple[Any, ...]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row, count in table.items():
        found[str([shown(each) for each in row])] += count
    return found


@given(
    kind=st.sampled_from(KINDS),
    query_seed=SEEDS,
    seed=SEEDS,
    mode=st.sampled_from(["all", "upsert"]),
    parallelism=st.sampled_from([(1, 1), (2, 3)]),
)
@settings(max_examples=examples(100, soak=3000), deadline=None)
@pytest.mark.timeout(SOAK_S)
def test_random_queries_over_changing_tables_give_what_a_batch_gives(
    kind: str, query_seed: int, seed: int, mode: str, parallelism: tuple[int, int]
) -> None:
    query = Queries(query_seed).kinds[kind]()
    assume(not NOT_THE_SAME.search(query))
    changes, tables = random_changes(seed)
    batch = PlanRun(planned(query, tables=random_catalog("append", bounded=True), batch=True))
    for name, table in tables.items():
        if table.rows:
            batch.feed(name, *(("+I", row) for row in table.rows.values()))
    batch.finish()
    plan = planned(query, tables=random_catalog(mode, bounded=False))
    run, rng = PlanRun(plan, parallelism=parallelism[0], seed=seed), random.Random(seed)
    for number, (name, rows) in enumerate(together(rng, changes)):
        run.feed(name, *as_given(rows, mode))
        run.steps(rng.randrange(8))
        if number == 15:
            run.restart(parallelism=parallelism[1])
    run.drain()
    assert as_shown(valid_table(run.out)) == as_shown(valid_table(batch.out)), query
