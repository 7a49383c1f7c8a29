"""What transformations are made of plans: where rows go, in how many subtasks, with which timestamps."""

from __future__ import annotations

import pytest

from penstock.graph.operator_specs.columnar.stateless import ColumnsToRowsSpec
from penstock.graph.partitioning import Hash
from penstock.graph.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    Transformation,
    UnionTransformation,
)
from penstock.sql.physical.translate import translate
from tests.unit.sql.logical.plans import Catalog
from tests.unit.sql.logical.plans import plan as logical_plan
from tests.unit.sql.physical.plans import Toys, planner


def reached(query: str, tables: Catalog, **options: str) -> list[Transformation]:
    """All steps of a statement, the last ones first."""
    waiting = translate(planner(Toys(), **options).plan([logical_plan(query, tables)]))
    found: list[Transformation] = []
    while waiting:
        found.append(waiting.pop(0))
        waiting += found[-1].inputs
    return found


@pytest.mark.parametrize(
    ("mode", "widths", "expected"),
    [("all", (2, 3), 1), ("all", (2, 2), 2), ("append", (2, 3), None), ("append", (2, 2), 2)],
)
def test_changes_from_inputs_of_different_parallelisms_meet_in_one_subtask(
    mode: str, widths: tuple[int, int], expected: int | None
) -> None:
    """Spread over subtasks, changes of a row would overtake each other."""
    tables = Catalog(
        *(
            f"CREATE TABLE t{at} (id INT NOT NULL, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'toy', "
            f"'mode' = '{mode}', 'parallelism' = '{width}', 'unbounded' = 'true')"
            for at, width in enumerate(widths)
        )
    )
    steps = reached("SELECT id FROM t0 UNION ALL SELECT id FROM t1", tables)
    (union,) = (step for step in steps if isinstance(step, UnionTransformation))
    assert union.parallelism == expected


def test_rows_in_the_order_of_their_arrival_are_in_one_subtask() -> None:
    tables = Catalog(
        "CREATE TABLE t (id INT, at AS PROCTIME()) WITH ('connector' = 'toy', 'parallelism' = '2')",
        "CREATE TABLE sink (id INT) WITH ('connector' = 'toy')",
    )
    steps = reached("INSERT INTO sink SELECT id FROM t ORDER BY at", tables)
    order = next(at for at, step in enumerate(steps) if isinstance(step, PartitionTransformation))
    assert {step.parallelism for step in steps[: order + 1]} == {1}


SENT = {
    "inserts to a table with a key": ("append", "PRIMARY KEY (b) NOT ENFORCED", "upsert", (1,)),
    "changes to a table with a key": ("all", "PRIMARY KEY (b) NOT ENFORCED", "upsert", (1,)),
    "changes to a table without one": ("all", "c INT", "all", (0, 1)),
    "inserts to a table without one": ("append", "c INT", "append", None),
}


@pytest.mark.parametrize("name", SENT)
def test_rows_go_to_a_sink_of_another_parallelism_by_their_key(name: str) -> None:
    source, more, sink, expected = SENT[name]
    columns = "a, b" if "KEY" in more else "a, b, a"
    tables = Catalog(
        f"CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, PRIMARY KEY (b) NOT ENFORCED) WITH ('connector' = 'toy', 'mode' = '{source}')",
        f"CREATE TABLE sink (a INT, b INT, {more}) WITH ('connector' = 'toy', 'mode' = '{sink}', 'parallelism' = '2')",
    )
    steps = reached(f"INSERT INTO sink SELECT {columns} FROM t", tables)
    found = [
        step.partitioning.key_selector.columns
        for step in steps
        if isinstance(step, PartitionTransformation) and isinstance(step.partitioning, Hash)
    ]
    if expected is None:
        assert found == []
    else:
        assert found[0][: len(expected)] == expected
        assert (found[0] == expected) == ("KEY" in more)


@pytest.mark.parametrize(
    ("columns", "expected"), [("id, at", 1), ("id, CAST(at AS TIMESTAMP(3)) AS at", None)]
)
def test_records_of_a_sink_have_the_event_time_of_their_row(
    columns: str, expected: int | None
) -> None:
    tables = Catalog(
        "CREATE TABLE t (id INT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'toy')",
        "CREATE TABLE sink (id INT, at TIMESTAMP(3)) WITH ('connector' = 'toy')",
    )
    assert timestamp(f"INSERT INTO sink SELECT {columns} FROM t", tables) == expected


def test_rows_with_two_event_times_have_none_of_them_as_their_timestamp() -> None:
    tables = Catalog(
        *(
            f"CREATE TABLE {name} (id INT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'toy')"
            for name in ("l", "r")
        ),
        "CREATE TABLE sink (x TIMESTAMP(3), y TIMESTAMP(3)) WITH ('connector' = 'toy')",
    )
    join = "l JOIN r ON l.id = r.id AND l.at BETWEEN r.at AND r.at + INTERVAL '1' HOUR"
    assert timestamp(f"INSERT INTO sink SELECT l.at, r.at FROM {join}", tables) is None


def timestamp(statement: str, tables: Catalog) -> int | None:
    """The column that records of a sink have their timestamp of."""
    (found,) = (
        step.spec.timestamp
        for step in reached(statement, tables)
        if isinstance(step, OperatorTransformation) and isinstance(step.spec, ColumnsToRowsSpec)
    )
    return found
