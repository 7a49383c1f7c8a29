"""Flink's own command line against our REST API: it lists, saves, stops and cancels jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.rest.routing.routes import Services
from penstock.rest.server.rest_server import RestServer
from penstock.testing import MiniCluster
from tests.builders import page_jobs
from tests.builders.flink_home import flink_home

TOKEN = "the token of this test"
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def home():
    return flink_home()


@pytest.fixture
def start(tmp_path):
    """Starts jobs that a server tells about, and ends them."""
    services, jobs = Services(), []
    server = RestServer(services, TOKEN)
    server.start()

    def start():
        with MiniCluster("pipelined"):
            job = page_jobs.fraud_detection(
                {"execution.checkpointing.dir": tmp_path / "c"}, rate=50
            )
        services.jobs.publish(job._controller)
        jobs.append(job)
        return job

    start.address = server.client_address
    yield start
    for job in jobs:
        if not job.get_job_status().result().is_terminal_state():
            job.cancel()
        job._controller._ended.result(TIMEOUT_S)
    server.close()


def test_flinks_command_line_lists_saves_stops_and_cancels_jobs(home, start, tmp_path):
    def flink(command, *arguments):
        return home.run(tmp_path, command, "-m", start.address, *arguments, token=TOKEN)

    first, second = start(), start()
    ids = [str(job.get_job_id()) for job in (first, second)]
    listed = flink("list", "-a")
    for job_id in ids:
        assert f" : {job_id} : fraud detection (RUNNING)" in listed

    stopped = flink("stop", "-p", str(tmp_path / "stopped"), ids[0])
    path = re.search(r"Savepoint completed\. Path: (\S+)", stopped)[1]
    assert Path(path.removeprefix("file:")).exists()
    first._controller._ended.result(TIMEOUT_S)
    assert first.get_job_status().result().name == "FINISHED"

    assert "Cancelled job" in flink("cancel", ids[1])
    second._controller._ended.result(TIMEOUT_S)
    assert second.get_job_status().result().name == "CANCELED"


def test_flinks_command_line_takes_savepoints_and_deletes_them(home, start, tmp_path):
    def flink(command, *arguments):
        return home.run(tmp_path, command, "-m", start.address, *arguments, token=TOKEN)

    job_id = str(start().get_job_id())
    saved = flink("savepoint", job_id, str(tmp_path / "saved"))
    path = re.search(r"Savepoint completed\. Path: (\S+)", saved)[1]
    assert Path(path.removeprefix("file:")).exists()
    assert "triggerId: " in flink("savepoint", "-detached", job_id, str(tmp_path / "later"))
    assert "disposed" in flink("savepoint", "-dispose", path)
    assert not Path(path.removeprefix("file:")).exists()
    cancelled = flink("cancel", "-s", str(tmp_path / "last"), job_id)
    assert re.search(r"Savepoint stored in (\S+)\.", cancelled)
