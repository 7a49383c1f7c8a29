"""Joins in whole jobs: each kind over files, in both execution modes, and with failures in between."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.common import RowKind
from penstock.table import DataTypes, EnvironmentSettings, ExplainDetail, TableEnvironment
from penstock.table.udf import udf
from penstock.testing import MiniCluster

START = dt.datetime(2020, 1, 1)


def _environment(**options: str) -> TableEnvironment:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", "2")
    for name, value in options.items():
        env.get_config().set(name.replace("_", "."), value)
    return env


def _table(env: TableEnvironment, home: Path, name: str, columns: str, rows: Iterable[Any]) -> None:
    home.mkdir(exist_ok=True)
    lines = [",".join("" if each is None else str(each) for each in row) for row in rows]
    (home / f"{name}.csv").write_text("\n".join(lines) + "\n")
    env.execute_sql(
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{home}/{name}.csv', 'format' = 'csv')"
    )


def _final(env: TableEnvironment, query: str) -> Counter[Any]:
    """The table that a query ends with."""
    table: Counter[Any] = Counter()
    with env.execute_sql(query).collect() as found:
        for row in found:
            adds = row.get_row_kind() in {RowKind.INSERT, RowKind.UPDATE_AFTER}
            table[tuple(row)] += 1 if adds else -1
    assert all(count >= 0 for count in table.values())
    return +table


def _at(seconds: float) -> str:
    return (START + dt.timedelta(seconds=seconds)).isoformat(sep=" ", timespec="milliseconds")


TIMED = "id INT, ts TIMESTAMP(3), {}, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
LEFT = [(1, _at(0), "a"), (2, _at(5), "b"), (1, _at(12), "c"), (1, _at(31), "e")]
RIGHT = [(1, _at(1), 100), (2, _at(15), 200), (1, _at(11), 300)]
WINDOW = "SELECT * FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
NEAR = "l.id = r.id AND l.ts BETWEEN r.ts - INTERVAL '2' SECOND AND r.ts + INTERVAL '5' SECOND"

QUERIES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "regular": (
        "SELECT l.w, r.n FROM l FULL JOIN (SELECT id, n FROM r WHERE n > 100) AS r ON l.id = r.id AND n < 300",
        [("a", None), ("b", 200), ("c", None), ("e", None), (None, 300)],
    ),
    "of an aggregate": (
        "SELECT l.w, r.s FROM l LEFT JOIN (SELECT id, SUM(n) AS s FROM r GROUP BY id) AS r ON l.id = r.id",
        [("a", 400), ("b", 200), ("c", 400), ("e", 400)],
    ),
    "semi": ("SELECT w FROM l WHERE id IN (SELECT id FROM r WHERE n = 200)", [("b",)]),
    "anti": (
        "SELECT w FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.id = l.id AND n = 200)",
        [("a",), ("c",), ("e",)],
    ),
    "interval": (f"SELECT l.w, r.n FROM l JOIN r ON {NEAR}", [("a", 100), ("c", 300)]),
    "interval, outer": (
        f"SELECT l.w, r.n FROM l FULL JOIN r ON {NEAR}",
        [("a", 100), ("b", None), ("c", 300), ("e", None), (None, 200)],
    ),
    "window": (
        (
            f"SELECT l.w, r.n FROM ({WINDOW.format('l')}) AS l LEFT JOIN ({WINDOW.format('r')}) AS r "
            "ON l.id = r.id AND l.window_start = r.window_start AND l.window_end = r.window_end"
        ),
        [("a", 100), ("b", None), ("c", 300), ("e", None)],
    ),
    "temporal": (
        "SELECT l.w, r.n FROM l LEFT JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.id = r.id",
        [("a", None), ("b", None), ("c", 300), ("e", 300)],
    ),
    "lookup": (
        (
            "SELECT l.w, s.name FROM (SELECT *, PROCTIME() AS p FROM l) AS l "
            "JOIN s FOR SYSTEM_TIME AS OF l.p ON l.id = s.id AND s.name <> 'x'"
        ),
        [("a", "one"), ("c", "one"), ("e", "one")],
    ),
    "lookup in a view": (
        (
            "SELECT l.w, v.id FROM (SELECT *, PROCTIME() AS p FROM l) AS l "
            "LEFT JOIN v FOR SYSTEM_TIME AS OF l.p ON l.id = v.id"
        ),
        [("a", 1), ("b", None), ("c", 1), ("e", 1)],
    ),
    "unnest": (
        "SELECT w, x FROM l CROSS JOIN UNNEST(ARRAY[id, id + 1]) AS t (x) WHERE x > 2",
        [("b", 3)],
    ),
}


@pytest.mark.parametrize("mode", ["epochs", "pipelined"])
def test_each_kind_of_join_gives_its_table(mode: str, tmp_path: Path) -> None:
    env = _environment()
    _table(env, tmp_path, "l", TIMED.format("w STRING"), LEFT)
    _table(env, tmp_path, "r", TIMED.format("n INT") + ", PRIMARY KEY (id) NOT ENFORCED", RIGHT)
    _table(env, tmp_path, "s", "id INT, name STRING", [(1, "one"), (1, "x"), (9, "nine")])
    env.execute_sql("CREATE VIEW v AS SELECT id FROM s WHERE name <> 'x'")
    with MiniCluster(mode):
        for name, (query, expected) in QUERIES.items():
            assert _final(env, query) == Counter(expected), name


class _FailsOnce:
    """Raises when it has seen so many rows for the first time, whatever process or attempt it is in."""

    def __init__(self, marker: Path, after: int) -> None:
        self._marker = marker
        self._after = after
        self._seen = 0

    def __call__(self, value: int) -> int:
        self._seen += 1
        if self._seen > self._after and not self._marker.exists():
            self._marker.touch()
            raise ValueError("the machine has gone")
        return value


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("mode", ["epochs", "pipelined"])
def test_join_is_restored_after_a_failure(mode: str, backend: str, tmp_path: Path) -> None:
    rng = random.Random(3)
    left = [(rng.randrange(300), number) for number in range(2000)]
    right = [(rng.randrange(300), number) for number in range(500)]
    marker = tmp_path / "failed"
    env = _environment()
    for name, value in {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "execution.checkpointing.interval": "20 ms",
        "state.backend.type": backend,
    }.items():
        env.get_config().set(name, value)
    _table(env, tmp_path / "data", "l", "id INT, n INT", left)
    _table(env, tmp_path / "data", "r", "id INT, m INT", right)
    env.create_temporary_function(
        "fragile", udf(_FailsOnce(marker, 1500), result_type=DataTypes.INT())
    )
    query = (
        "SELECT l.id, n, total FROM (SELECT id, fragile(n) AS n FROM l) AS l LEFT JOIN "
        "(SELECT id, SUM(m) AS total FROM r GROUP BY id) AS r ON l.id = r.id AND n > total"
    )
    with MiniCluster(mode):
        found = _final(env, query)
    sums: Counter[int] = Counter()
    for key, number in right:
        sums[key] += number
    known = {key for key, _ in right}
    assert marker.exists()
    assert found == Counter(
        (key, number, sums[key] if key in known and number > sums[key] else None)
        for key, number in left
    )


@pytest.mark.parametrize("mode", ["epochs", "pipelined"])
def test_rows_that_are_at_the_subtask_of_their_key_stay_there(mode: str, tmp_path: Path) -> None:
    rng = random.Random(5)
    left = [(rng.randrange(40), number) for number in range(400)]
    right = [(number, rng.randrange(9)) for number in range(40)]
    env = _environment()
    _table(env, tmp_path, "l", "id INT, n INT", left)
    _table(env, tmp_path, "r", "id INT, m INT", right)
    query = (
        "SELECT id, n, m FROM (SELECT r.id, n, m, ROW_NUMBER() OVER (PARTITION BY r.id ORDER BY n DESC) AS place "
        "FROM l JOIN r ON l.id = r.id) WHERE place <= 2"
    )
    plan = env.explain_sql(query, ExplainDetail.JSON_EXECUTION_PLAN)
    nodes = json.loads(plan[plan.rindex('{\n  "nodes"') :])["nodes"]
    hashed = [
        each["ship_strategy"] for node in nodes for each in node.get("predecessors", ())
    ].count("HASH")
    assert hashed == 2
    with MiniCluster(mode):
        found = _final(env, query)
    expected: Counter[Any] = Counter()
    for key, value in right:
        numbers = sorted((n for each, n in left if each == key), reverse=True)[:2]
        expected.update((key, number, value) for number in numbers)
    assert found == expected
