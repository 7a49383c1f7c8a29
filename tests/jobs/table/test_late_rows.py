"""Late rows of queries, against what Flink 2.3 answered: a watermark follows each row that raises it, one second behind it."""

from __future__ import annotations

import pytest

from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from tests.builders.cases import check_all

_COUNT = "COUNT(*) OVER (PARTITION BY k ORDER BY ts"
QUERIES = {
    "ORDER BY": "SELECT ts, n FROM t ORDER BY ts",
    "ROWS": f"SELECT ts, n, {_COUNT} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t",
    "RANGE": "SELECT ts, n, SUM(n) OVER (PARTITION BY k ORDER BY ts "
    "RANGE BETWEEN INTERVAL '4' SECOND PRECEDING AND CURRENT ROW) FROM t",
    "unbounded": f"SELECT ts, n, {_COUNT} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM t",
    "SESSION": "SELECT window_start, CAST(COUNT(*) AS INT) FROM TABLE(SESSION(TABLE t PARTITION BY k, "
    "DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end",
}
# Arrival (key and second), and by query what Flink emitted: the second and the other columns.
ANSWERS = {
    "a1 a2 a7 a7 a6": {
        "ORDER BY": [(1, 0), (2, 1), (6, 4), (7, 2), (7, 3)],
        "ROWS": [(1, 0, 1), (2, 1, 2), (6, 4, 3), (7, 2, 3), (7, 3, 3)],
        "RANGE": [(1, 0, 0), (2, 1, 1), (6, 4, 5), (7, 2, 9), (7, 3, 9)],
        "unbounded": [(1, 0, 1), (2, 1, 2), (7, 2, 3), (7, 3, 4)],
        "SESSION": [(1, 5)],
    },
    "a10 b20 a15 a12 b19 a25 a24": {
        "ORDER BY": [(10, 0), (12, 3), (15, 2), (19, 4), (20, 1), (24, 6), (25, 5)],
        "ROWS": [(10, 0, 1), (12, 3, 2), (15, 2, 3), (19, 4, 1), (20, 1, 2), (24, 6, 3), (25, 5, 3)],
        "RANGE": [(10, 0, 0), (12, 3, 3), (15, 2, 5), (19, 4, 4), (20, 1, 5), (24, 6, 6), (25, 5, 11)],
        "unbounded": [(10, 0, 1), (20, 1, 1), (25, 5, 2)],
        "SESSION": [(10, 1), (12, 2), (19, 2), (24, 2)],
    },
    "a1 b12 a2 a8 b30": {
        "ORDER BY": [(1, 0), (2, 2), (8, 3), (12, 1), (30, 4)],
        "SESSION": [(1, 1), (8, 1), (12, 1), (30, 1)],
    },
    "a10 b15 a13 a11 b40 a12 a30": {
        "ORDER BY": [(10, 0), (11, 3), (13, 2), (15, 1), (30, 6), (40, 4)],
        "RANGE": [(10, 0, 0), (11, 3, 3), (12, 5, 5), (13, 2, 5), (15, 1, 1), (30, 6, 6), (40, 4, 4)],
        "unbounded": [(10, 0, 1), (15, 1, 1), (40, 4, 2)],
        "SESSION": [(10, 3), (15, 1), (40, 1)],
    },
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with MiniCluster():
        yield


def _answer(home, arrivals, query):
    home.mkdir()
    lines = [
        f"{each[0]},1970-01-01 00:00:{int(each[1:]):02},{number}"
        for number, each in enumerate(arrivals.split())
    ]
    (home / "rows.csv").write_text("\n".join(lines) + "\n")
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", "1")
    tables.get_config().set("pipeline.auto-watermark-interval", "0")
    tables.execute_sql(
        "CREATE TABLE t (k STRING, ts TIMESTAMP(3), n INT, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = '{home}', 'format' = 'csv')"
    )
    with tables.execute_sql(query).collect() as rows:
        return [(row[0].second, *list(row)[1:]) for row in rows]


def test_rows_are_late_as_in_flink(tmp_path):
    cases = {
        f"{arrivals}: {query}": (arrivals, query, wanted)
        for arrivals, answers in ANSWERS.items()
        for query, wanted in answers.items()
    }

    def check(case):
        arrivals, query, wanted = case
        home = tmp_path / str(list(cases.values()).index(case))
        found = _answer(home, arrivals, QUERIES[query])
        assert (found if query == "ORDER BY" else sorted(found)) == wanted

    check_all(cases, check)
