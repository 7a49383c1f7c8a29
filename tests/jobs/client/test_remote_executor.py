"""A program's handle of its job in a session: everything that a JobClient can do goes over REST."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from penstock.common import Configuration, JobStatus, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import (
    JobCancelledError,
    JobExecutionError,
    JobRequestError,
    UnsupportedOperationError,
)
from penstock.jobmanager.resources.resource_manager import ResourceManager
from penstock.jobmanager.running.thread_cluster import ThreadCluster
from penstock.session.job_manager import JobManager, SessionCluster
from tests.builders.counting_job import Slowly
from tests.builders.waiting import wait_until


@pytest.fixture
def address(monkeypatch, tmp_path):
    """Where a session listens whose jobs run in threads of this process."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    resources = ResourceManager()
    place = SessionCluster(
        "threads", lambda _: ThreadCluster(4, resources), resources, capacity=lambda: 4
    )
    manager = JobManager(Configuration(), place)
    yield manager.start()
    manager.close(keeps_jobs=False)


@pytest.fixture
def env(address, tmp_path):
    options = {
        "execution.target": "remote",
        "rest.address": "127.0.0.1",
        "rest.port": address.rpartition(":")[2],
        "parallelism.default": "1",
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "penstock.execution.mode": "pipelined",
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))


def endless(env):
    source = env.from_source(Slowly(), WatermarkStrategy.no_watermarks(), "numbers")
    source.key_by(lambda number: number % 3).map(lambda number: number).uid("step")
    return env.execute_async("endless")


def wait_for(client, status):
    wait_until(lambda: client.get_job_status().result() is status)


def test_a_job_that_ends_gives_its_result(env):
    env.from_collection([1, 2, 3]).map(lambda number: number)

    result = env.execute("short")

    assert result.get_net_runtime() >= 0


def lines_of(capsys):
    """The lines that the client printed: each a second time, after the session, which is in this process."""
    lines = Counter(capsys.readouterr().err.splitlines())
    assert set(lines.values()) <= {2}
    return list(lines)


def test_a_client_prints_the_same_lines_as_for_a_job_of_its_own_process(env, capsys, address):
    env.configure(Configuration.from_dict({"penstock.progress.checkpoints": "true"}))
    env.from_collection([1, 2, 3]).map(lambda number: number)

    env.execute("short")

    start, *checkpoints, end = lines_of(capsys)
    mode = r"pipelined mode \(set by penstock.execution.mode\), parallelism 1, page http://"
    place = "starts in the process of the session in"
    assert re.fullmatch(rf"job 'short' \([0-9a-f]{{32}}\) {place} {mode}{address}", start)
    assert checkpoints
    for number, line in enumerate(checkpoints, 1):
        assert line.startswith(f"job 'short': checkpoint {number} completed in ")
    assert re.match(r"job 'short' finished after \d+\.\d s: 3 records in", end)


def test_a_restart_is_reported_even_without_progress(env, capsys, tmp_path):
    marker = str(tmp_path / "failed")

    def fail_once(number):
        if not Path(marker).exists():
            Path(marker).touch()
            raise LookupError("the first time")
        return number

    restarts = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "penstock.progress": "never",
    }
    env.configure(Configuration.from_dict(restarts))
    env.from_collection([1, 2, 3]).map(fail_once)

    env.execute("failing once")

    first, *cause = lines_of(capsys)
    assert first == "job failed, restart 1 in 1 ms:"
    assert any("LookupError: the first time" in line for line in cause)


def test_a_detached_client_says_where_the_job_runs_on(env, capsys):
    env.configure(Configuration.from_dict({"execution.attached": "false"}))
    source = env.from_source(Slowly(), WatermarkStrategy.no_watermarks(), "numbers")
    source.map(lambda number: number)

    env.execute("endless")

    said = capsys.readouterr()
    assert "starts in the process of the session in pipelined mode" in said.err
    assert re.search(r"was sent to .* and runs on there; to end it: penstock cancel", said.out)


def test_options_of_the_session_have_no_effect_in_a_job_and_a_warning_names_them(env, caplog):
    ignored = {
        "jobmanager.web.submit.enable": "false",  # an older name
        "metrics.reporters": "prom",
        "spark.executor.memory": "2g",
        "taskmanager.numberOfTaskSlots": "9",
    }
    env.configure(Configuration.from_dict({**ignored, "state.backend.type": "rocksdb"}))
    env.from_collection([1]).map(lambda number: number)

    with caplog.at_level("WARNING", "penstock.client.remote_executor"):
        env.execute("short")

    lines = [
        record.getMessage()
        for record in caplog.records
        if "it belongs to the session" in record.message
    ]
    assert [line.split("'")[1] for line in lines] == sorted(ignored)


def test_a_job_that_fails_raises_what_the_user_wrote(env):
    env.from_collection([1, 2, 3]).map(lambda number: number // 0)
    env.configure(Configuration.from_dict({"restart-strategy.type": "none"}))

    with pytest.raises(JobExecutionError, match="ZeroDivisionError"):
        env.execute("failing")


def test_a_job_is_looked_at_saved_rescaled_and_cancelled(env, tmp_path):
    client = endless(env)
    wait_for(client, JobStatus.RUNNING)

    path = client.trigger_savepoint(str(tmp_path / "savepoints")).result()
    assert Path(path, "_metadata").exists() or any(Path(path).iterdir())
    assert set(client.rescale(2).result().values()) == {2}
    client.cancel().result()

    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()


def test_a_job_is_stopped_with_a_savepoint(env, tmp_path):
    client = endless(env)
    wait_for(client, JobStatus.RUNNING)

    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()

    assert any(Path(path).iterdir())
    client.get_job_execution_result().result()
    assert client.get_job_status().result() is JobStatus.FINISHED


def test_a_rejected_request_is_reported(env):
    client = endless(env)
    wait_for(client, JobStatus.RUNNING)

    with pytest.raises(JobRequestError, match=r"no vertex|unknown|nothing"):
        client.rescale({"no such step": 2}).result()
    client.cancel().result()


def test_records_are_not_brought_back(env):
    with pytest.raises(UnsupportedOperationError, match="is not supported in a session"):
        list(env.from_collection([1]).execute_and_collect())


def test_without_a_session_the_error_says_how_to_start_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    options = Configuration.from_dict({"execution.target": "session"})
    env = StreamExecutionEnvironment.get_execution_environment(options)
    env.from_collection([1]).map(lambda number: number)

    with pytest.raises(JobRequestError, match="no session is running on this machine"):
        env.execute("nowhere")
