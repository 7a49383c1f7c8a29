"""Jobs as barrier stages of Spark: workers, executors and drivers that are killed, cores that are held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.common import Configuration
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import JobExecutionError, PenstockError
from penstock.jobmanager.running.pipelined.driver import PipelinedDriver
from tests.builders.waiting import wait_until
from tests.spark import pipelined_jobs
from tests.spark.pipelined_jobs import (
    SHORT_HEARTBEATS,
    TIMEOUT_S,
    check_exactly_once,
    checkpoints,
    is_alive,
    master_of,
    process_of,
    start,
)


@pytest.fixture
def client(tmp_path):
    """A job with two regions, each in a stage of one slot."""
    running = start(tmp_path, "a", "b", **SHORT_HEARTBEATS)
    yield running
    running.cancel().result()


def attempts(master, name):
    """Return the attempts of all subtasks of a region."""
    return {
        each.current.attempt
        for vertex in master.execution_graph.vertices
        if {f"Source: {name}", f"Sink: {name}-out"} & set(vertex.job_vertex.name.split(" -> "))
        for each in vertex.subtasks
    }


@pytest.mark.ci
def test_only_the_region_of_a_killed_worker_restarts(client, tmp_path):
    checkpoints(client, 2)
    master = master_of(client)
    assert isinstance(master._driver, PipelinedDriver)
    before = process_of(tmp_path, "a"), process_of(tmp_path, "b")
    assert before[0] != before[1]
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: master.restarts == 1, "the restart")
    checkpoints(client, 3)
    assert process_of(tmp_path, "a") != before[0]
    assert process_of(tmp_path, "b") == before[1]
    assert master.status is JobStatus.RUNNING
    assert attempts(master, "a") == {1}
    assert attempts(master, "b") == {0}
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(TIMEOUT_S)
    client.get_job_execution_result().result(TIMEOUT_S)
    assert check_exactly_once(tmp_path / "a") > 0
    assert check_exactly_once(tmp_path / "b") > 0


def test_a_frozen_worker_is_noticed_and_replaced(client, tmp_path):
    checkpoints(client, 2)
    master = master_of(client)
    frozen = process_of(tmp_path, "a")
    os.kill(frozen, signal.SIGSTOP)
    wait_until(lambda: master.restarts == 1, "the restart")  # it never wakes up by itself
    checkpoints(client, 3)
    wait_until(lambda: not is_alive(frozen), "the end of the frozen worker")
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(TIMEOUT_S)
    client.get_job_execution_result().result(TIMEOUT_S)
    assert check_exactly_once(tmp_path / "a") > 0


def test_a_job_that_would_wait_for_held_cores_says_so(client, tmp_path):
    checkpoints(client, 1)
    options = Configuration.from_dict({"slot.request.timeout": "200 ms"})
    env = StreamExecutionEnvironment.get_execution_environment(options)
    env.set_parallelism(1)
    env.from_collection([1, 2, 3]).print()
    with pytest.raises(PenstockError, match=r"needs 1 slot .*, but only 0 of Spark's 2 are free"):
        env.execute("waiting")
    assert client.trigger_savepoint(str(tmp_path / "savepoints")).result(TIMEOUT_S)


def test_a_cancelled_job_frees_its_cores(tmp_path):
    running = start(tmp_path, "a", parallelism=2)
    checkpoints(running, 1)
    running.cancel().result(TIMEOUT_S)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    assert sorted(env.from_collection([1, 2, 3]).execute_and_collect()) == [1, 2, 3]


def test_a_worker_that_crashes_is_reported(tmp_path):
    configuration = Configuration.from_dict(
        {"penstock.execution.mode": "pipelined", "restart-strategy.type": "none"}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.from_collection([1, 2, 3]).map(lambda value: os._exit(3)).print()
    with pytest.raises(JobExecutionError, match="lost the process of slot 0") as error:
        env.execute("crashing")
    assert "Python worker exited unexpectedly" in str(error.value)


def run_program(directory: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", pipelined_jobs.__name__, str(directory), *arguments],
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )


def descendants(process: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            child = int(stat.parent.name)
            found += [child, *descendants(child)]
    return found


def last_checkpoint(directory: Path) -> int:
    found = directory.glob("checkpoints/*/chk-*")
    return max((int(path.name.split("-")[1]) for path in found), default=0)


def test_a_killed_driver_leaves_no_process(tmp_path):
    driver = run_program(tmp_path, "spark.master=local[2,4]", "a", "b")
    try:
        wait_until(lambda: (tmp_path / "a.pid").exists(), "the start")
        wait_until(lambda: (tmp_path / "b.pid").exists(), "the start")
        left = descendants(driver.pid)
        assert process_of(tmp_path, "a") in left
    finally:
        driver.kill()
        driver.wait()
    wait_until(lambda: not any(is_alive(each) for each in left), "the end of all processes")


def test_a_killed_executor_is_noticed_and_its_tasks_start_again(tmp_path):
    driver = run_program(tmp_path, "spark.master=local-cluster[2,1,1024]", "a", "b")
    try:
        wait_until(lambda: (tmp_path / "a.pid").exists() and (tmp_path / "b.pid").exists(), "start")
        wait_until(lambda: last_checkpoint(tmp_path) >= 3, "the third checkpoint")
        before = process_of(tmp_path, "a")
        (executor,) = [each for each in ancestors(before) if is_executor(each)]
        os.kill(executor, signal.SIGKILL)
        wait_until(lambda: process_of(tmp_path, "a") != before, "the restart")
        reached = last_checkpoint(tmp_path)
        wait_until(lambda: last_checkpoint(tmp_path) > reached + 2, "more checkpoints")
        (tmp_path / "stop").touch()
        assert driver.wait(TIMEOUT_S) == 0
        assert check_exactly_once(tmp_path / "a") > 0
        assert check_exactly_once(tmp_path / "b") > 0
    finally:
        left = descendants(driver.pid)
        driver.kill()
        driver.wait()
    wait_until(lambda: not any(is_alive(each) for each in left), "the end of all processes")


def test_a_stage_that_spark_tries_again_is_sent_away(tmp_path):
    options = ("spark.master=local[2,4]", "spark.stage.maxConsecutiveAttempts=4")
    driver = run_program(tmp_path, *options, "parallelism.default=2", "a")
    try:
        for kills in range(2):
            reached = last_checkpoint(tmp_path)
            wait_until(lambda: last_checkpoint(tmp_path) > reached + 2, "more checkpoints")
            before = process_of(tmp_path, "a")
            os.kill(before, signal.SIGKILL)
            wait_until(lambda: process_of(tmp_path, "a") != before, f"restart {kills + 1}")
        reached = last_checkpoint(tmp_path)
        wait_until(lambda: last_checkpoint(tmp_path) > reached + 2, "more checkpoints")
        (tmp_path / "stop").touch()
        assert driver.wait(TIMEOUT_S) == 0
        assert check_exactly_once(tmp_path / "a") > 0
    finally:
        driver.kill()
        driver.wait()


def ancestors(process: int) -> list[int]:
    """Return the processes that a process comes from."""
    found = []
    while process > 1:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        process = int(fields[1])
        found.append(process)
    return found


def is_executor(process: int) -> bool:
    return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes()
