"""INSERT in a session: the statement is planned here, and runs there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.common import Configuration
from penstock.errors import UnsupportedOperationError
from penstock.jobmanager.resources.resource_manager import ResourceManager
from penstock.jobmanager.running.thread_cluster import ThreadCluster
from penstock.session.job_manager import JobManager, SessionCluster
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.udf import udf


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Where a session listens whose jobs run in threads of this process."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    resources = ResourceManager()
    place = SessionCluster(
        "threads", lambda _: ThreadCluster(4, resources), resources, capacity=lambda: 4
    )
    manager = JobManager(Configuration(), place)
    yield manager.start()
    manager.close(keeps_jobs=False)


def test_the_client_leaves_jobs_to_the_session(address: str, tmp_path: Path) -> None:
    text = (
        f"CREATE TABLE out (a INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv');"
        "SET 'table.dml-sync' = 'true'; INSERT INTO out SELECT 1"
    )
    assert main(["sql", f"--session={address}", "-e", text]) == 0
    written = [path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert "".join(written).split() == ["1"]


def test_insert_runs_in_the_session_and_select_is_refused(address: str, tmp_path: Path) -> None:
    options = {
        "execution.target": "remote",
        "rest.address": "127.0.0.1",
        "rest.port": address.rpartition(":")[2],
        "parallelism.default": "1",
    }
    settings = EnvironmentSettings.new_instance()
    settings = settings.with_configuration(Configuration.from_dict(options))
    env = TableEnvironment.create(settings.build())
    twice = udf(lambda number: 2 * number, result_type=DataTypes.BIGINT())
    env.create_temporary_function("twice", twice)
    env.create_temporary_view("t", env.from_elements([(1, "a"), (2, "b"), (3, "a")], ["id", "k"]))
    env.execute_sql(
        f"CREATE TABLE out (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', "
        "'format' = 'csv')"
    )
    result = env.execute_sql("INSERT INTO out SELECT k, twice(id) FROM t")
    result.wait()
    written = [path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert sorted("".join(written).split()) == ["a,2", "a,6", "b,4"]
    assert [row[2] for row in env.execute_sql("SHOW JOBS").collect()] == ["FINISHED"]
    with pytest.raises(UnsupportedOperationError, match="is not supported in a session"):
        env.execute_sql("SELECT * FROM t")
