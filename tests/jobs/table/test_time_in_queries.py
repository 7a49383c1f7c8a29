"""Queries by event time: windows in one phase and in two, joins with the versions of a table, against plain Python."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter, defaultdict

import pytest

from penstock.common import RowKind
from penstock.sql.errors import UnsupportedQueryError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster

BEGIN = dt.datetime(2024, 1, 1)


def rows_of(seed):
    chance, time, rows = random.Random(seed), 0, []
    for number in range(120):
        time += chance.randrange(900)
        at = time + chance.randrange(-300, 300) + 5000
        rows.append((number, chance.randrange(4), chance.choice([1, 2, 5, 9]), at))
    return rows


ROWS = rows_of(3)


def at(ms):
    return BEGIN + dt.timedelta(milliseconds=ms)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with MiniCluster():
        yield


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    home = tmp_path_factory.mktemp("rows")
    lines = [f"{i},{k},{v},{at(m).isoformat(' ', 'milliseconds')}" for i, k, v, m in ROWS]
    (home / "rows.csv").write_text("\n".join(lines) + "\n")
    found = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    found.get_config().set("parallelism.default", "2")
    found.execute_sql(
        "CREATE TABLE s (id INT, k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = '{home}', 'format' = 'csv')"
    )
    found.execute_sql(
        "CREATE TEMPORARY VIEW versions AS SELECT k, v, ts FROM ("
        "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS rn FROM s WHERE v > 4) WHERE rn = 1"
    )
    return found


def table_of(tables, query):
    found: Counter[tuple] = Counter()
    with tables.execute_sql(query).collect() as rows:
        for row in rows:
            adds = row.get_row_kind() in {RowKind.INSERT, RowKind.UPDATE_AFTER}
            found[tuple(row)] += 1 if adds else -1
    return +found


def hops():
    """The rows of each key and window of 3 s, one every second."""
    found = defaultdict(list)
    for number, key, value, time in ROWS:
        start = time // 1000 * 1000
        for begin in (start, start - 1000, start - 2000):
            found[key, begin].append((number, value))
    return found


HOP = "TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '3' SECOND))"


@pytest.mark.parametrize("phase", ["ONE_PHASE", "TWO_PHASE"])
def test_windows_are_aggregated_in_slices(tables, phase):
    tables.get_config().set("table.optimizer.agg-phase-strategy", phase)
    query = f"SELECT window_end, k, SUM(v), MAX(id) FROM {HOP} WHERE v > 1 GROUP BY window_start, window_end, k"
    wanted = Counter()
    for (key, begin), found in hops().items():
        kept = [(number, value) for number, value in found if value > 1]
        if kept:
            most = max(number for number, _ in kept)
            wanted[at(begin + 3000), key, sum(value for _, value in kept), most] += 1
    assert table_of(tables, query) == wanted


def test_what_windows_give_is_grouped_by_window_again(tables):
    query = (
        "SELECT window_start, MAX(n) FROM (SELECT k, window_start, window_end, COUNT(*) AS n "
        f"FROM {HOP} GROUP BY k, window_start, window_end) GROUP BY window_start, window_end"
    )
    most: dict[int, int] = defaultdict(int)
    for (_, begin), found in hops().items():
        most[begin] = max(most[begin], len(found))
    assert table_of(tables, query) == Counter((at(begin), n) for begin, n in most.items())


def test_a_row_meets_the_version_that_was_valid_at_its_time(tables):
    query = "SELECT a.id, b.v FROM s AS a LEFT JOIN versions FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k"
    versions = defaultdict(list)
    for _, key, value, time in ROWS:  # one that comes after a later one is not a version
        if value > 4 and (not versions[key] or time >= versions[key][-1][0]):
            versions[key].append((time, value))
    wanted = [
        (number, next((v for since, v in reversed(versions[key]) if since <= time), None))
        for number, key, _, time in ROWS
    ]
    assert table_of(tables, query) == Counter(wanted)


def test_watermarks_of_a_source_are_declared_but_not_read(tables, tmp_path):
    (tmp_path / "rows.csv").write_text("1,2024-01-01 00:00:01.000\n2,2024-01-01 00:00:09.000\n")
    table = (
        "CREATE TABLE declared (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS SOURCE_WATERMARK()) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    )
    tables.execute_sql(table)
    [row] = tables.execute_sql("SHOW CREATE TABLE declared").collect()
    assert "WATERMARK FOR `ts` AS SOURCE_WATERMARK()" in row[0]
    with pytest.raises(UnsupportedQueryError, match="does not emit watermarks"):
        tables.execute_sql("SELECT id FROM declared")
    batch = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    batch.execute_sql(table)
    query = (
        "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE((SELECT * FROM declared), DESCRIPTOR(ts), "
        "INTERVAL '5' SECOND)) GROUP BY window_start, window_end"
    )
    assert table_of(batch, query) == {(at(0), 1): 1, (at(5000), 1): 1}
