"""A query that resumes from the savepoint of a drained job keeps its state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from penstock.common import Configuration
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from tests.builders.modes import MODES

QUERIES = {
    "groups": "SELECT name, COUNT(*) AS n FROM orders GROUP BY name",
    "distinct": "SELECT name, COUNT(DISTINCT id) AS n FROM orders GROUP BY name",
    "join": "SELECT a.name, a.id + b.id AS n FROM orders a JOIN orders b ON a.name = b.name AND a.id < b.id",
    "first row": "SELECT name, id AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY seen) AS place FROM orders) WHERE place = 1",
    "top": "SELECT name, id AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY id) AS place FROM orders) WHERE place <= 1",
}
# What a query tells last about a name with the ids 1 and 2.
LAST = {"groups": 2, "distinct": 2, "join": 3, "first row": 1, "top": 1}
# What the second job tells about a third order, after one and two.
NEWS = {
    "groups": [("ann", 3)],
    "distinct": [("ann", 3)],
    "join": [("ann", 4), ("ann", 5)],
    "first row": [],
    "top": [],
}


def tables(directory: Path, mode: str, recovery: str | None) -> TableEnvironment:
    configuration = Configuration()
    configuration.set_string("penstock.execution.mode", mode)
    configuration.set_string("parallelism.default", "1")
    configuration.set_string("execution.checkpointing.interval", "20 ms")
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    if recovery is not None:
        configuration.set_string("execution.state-recovery.path", recovery)
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    found = TableEnvironment.create(settings.with_configuration(configuration).build())
    found.execute_sql(
        f"""CREATE TABLE orders (name STRING, id BIGINT, seen AS PROCTIME()) WITH ('connector' = 'filesystem',
        'path' = '{directory / "in"}', 'format' = 'csv', 'source.monitor-interval' = '20 ms')"""
    )
    return found


def run(directory: Path, mode: str, query: str, last: Any, recovery: str | None = None) -> Any:
    """Run a query until it has given a row, drain it; return its rows and its savepoint."""
    result = tables(directory, mode, recovery).execute_sql(query)
    client = result.get_job_client()
    assert client is not None
    rows = []
    with result.collect() as found:
        for row in found:
            rows.append((str(row.get_row_kind()), *row))
            if tuple(row) == last:
                break
        path = client.stop_with_savepoint(True, str(directory / "savepoints")).result(60)
        rows += [(str(row.get_row_kind()), *row) for row in found]
    return [row[1:] for row in rows if row[0] in {"+I", "+U"}], path


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", QUERIES)
def test_query_resumes_from_a_drained_savepoint(
    name: str, mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The last name of a file is there when all rows of the names before it have been read."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("ann,1\nann,2\nbob,1\nbob,2\n")
    with MiniCluster():
        _, savepoint = run(tmp_path, mode, QUERIES[name], ("bob", LAST[name]))
        (tmp_path / "in" / "2.csv").write_text("ann,3\ncat,1\ncat,2\n")
        rows, _ = run(tmp_path, mode, QUERIES[name], ("cat", LAST[name]), savepoint)
    assert sorted(row for row in rows if row[0] == "ann") == NEWS[name]
    assert ".uid(" not in caplog.text  # which statements cannot say


def test_a_savepoint_does_not_ask_for_uids_of_rows_that_the_program_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("ann,1\n")
    with MiniCluster():
        env = tables(tmp_path, "epochs", None)
        sizes = pd.DataFrame({"name": ["ann"], "size": [7]})
        env.create_temporary_view("sizes", env.from_pandas(sizes))
        env.create_temporary_view("places", env.from_elements([("ann", "X")], ["name", "place"]))
        result = env.execute_sql(
            "SELECT id, size, place FROM orders JOIN sizes ON orders.name = sizes.name JOIN places ON orders.name = places.name"
        )
        client = result.get_job_client()
        assert client is not None
        with result.collect() as found:
            assert tuple(next(found)) == (1, 7, "X")
            client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(60)
    assert ".uid(" not in caplog.text
