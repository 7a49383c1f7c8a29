"""Whole pipelined jobs, whose slots are threads: checkpoints, requests, failures, and their end."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.common import WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.connectors.base.sink import Committer, Sink, SinkWriter
from penstock.connectors.base.source import SourceBatch, SourceReader, SourceSplit
from penstock.datastream import KeyedProcessFunction, MapFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import ArgumentError, JobCancelledError, JobExecutionError
from penstock.graph.stage import ClusterCapacity
from penstock.jobmanager.execution.execution_state import ExecutionState
from penstock.jobmanager.modes import InsufficientSlotsError
from penstock.jobmanager.running import thread_cluster
from penstock.jobmanager.running.epochs.driver import EpochDriver
from penstock.jobmanager.running.pipelined.driver import PipelinedDriver
from penstock.testing import MiniCluster
from tests.builders.endless import EndlessSource
from tests.builders.environments import configured, restarts
from tests.builders.waiting import wait_until

TIMEOUT_S = 60
SWITCHES: dict[str, threading.Event] = {}
WRITTEN: list[Any] = []  # by sinks, also what was never committed
READ: set[int] = set()  # splits of which something was read
# What was committed, by sink and checkpoint.
COMMITTED: dict[str, dict[int, list[Any]]] = {}


class Committing(Sink):
    """Keeps what it commits in this process."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_writer(self, context, restored=None):
        return _Writer()

    def create_committer(self):
        return _Committer(self.name)


class _Writer(SinkWriter):
    def __init__(self):
        self.values = []

    def write(self, values, timestamps, watermark):
        self.values += values
        WRITTEN.extend(values)

    def prepare_commit(self):
        values, self.values = self.values, []
        return values


class _Committer(Committer):
    def __init__(self, name):
        self.name = name

    def commit(self, request):
        COMMITTED.setdefault(self.name, {})[request.checkpoint_id] = list(request.committables)


def committed(name: str) -> list[Any]:
    """Return all that a sink has committed."""
    return [value for values in COMMITTED.get(name, {}).values() for value in values]


class Ticks(EndlessSource):
    """Numbers from 0 on in each of its splits, up to a limit if there is one; slowly."""

    def __init__(self, splits: int = 2, limit: int | None = None) -> None:
        self._splits = splits
        self._limit = limit

    def splits(self):
        return [SourceSplit(f"s{n}", n, start=0) for n in range(self._splits)]

    def create_reader(self):
        return _TickReader(self._limit)


class _TickReader(SourceReader):
    def __init__(self, limit):
        self._limit = limit

    def read(self, split, position, limits):
        end = position + 5 if self._limit is None else min(position + 5, self._limit)
        READ.add(split.payload)
        if position < end:
            values = [(split.payload, n) for n in range(position, end)]
            yield SourceBatch(values, end, [n for _, n in values])
        time.sleep(0.001)


class Count(KeyedProcessFunction):
    """Emits (key, how many of it so far)."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), self.count.value()


class FailsOnce(MapFunction):
    """Raises when its switch is on, which it turns off."""

    def __init__(self, switch: str) -> None:
        self.switch = switch

    def map(self, value):
        event = SWITCHES[self.switch]
        if event.is_set():
            event.clear()
            raise ValueError(f"told to fail by {self.switch}")
        return value


@pytest.fixture(autouse=True)
def clean():
    COMMITTED.clear()
    SWITCHES.clear()
    READ.clear()
    WRITTEN.clear()


@pytest.fixture
def cluster():
    with MiniCluster(mode="pipelined") as running:
        yield running
        for master in running.masters:
            master.cancel()


def environment(tmp_path, parallelism=2, interval="50 ms", **options):
    return configured(
        {
            "execution.checkpointing.interval": interval,
            "execution.checkpointing.dir": f"{tmp_path}/checkpoints",
            **{name.replace("__", ".").replace("_", "-"): text for name, text in options.items()},
            **restarts(3),
        },
        parallelism,
    )


def counts(env, source=None, *, name="counts", switch=None):
    """Count the numbers of each split; what fails when its switch is on is after the exchange."""
    numbers = env.from_source(source or Ticks(), WatermarkStrategy.no_watermarks(), f"{name}-in")
    numbers = numbers.uid(f"{name}-in")
    counted = numbers.key_by(lambda value: value[0]).process(Count()).uid(f"{name}-count")
    if switch is not None:
        SWITCHES[switch] = threading.Event()
        counted = counted.map(FailsOnce(switch)).uid(f"{name}-fails")
    counted.sink_to(Committing(name)).uid(f"{name}-out")


def check_exactly_once(name="counts", keys=2):
    """Of each key there is every number once, in order."""
    values = committed(name)
    by_key: dict[Any, list[int]] = {}
    for key, count in values:
        by_key.setdefault(key, []).append(count)
    assert len(by_key) == keys
    for found in by_key.values():
        assert found == list(range(1, len(found) + 1))
    return {key: len(found) for key, found in by_key.items()}


def start(env, cluster):
    client = env.execute_async("job")
    return client, cluster.masters[-1]


def has_more_than(n, name="counts"):
    return lambda: len(committed(name)) > n


def test_an_endless_job_commits_at_every_checkpoint(cluster, tmp_path):
    env = environment(tmp_path)
    counts(env)
    client, master = start(env, cluster)
    wait_until(lambda: len(COMMITTED.get("counts", {})) >= 5, "the fifth checkpoint")
    assert isinstance(master._driver, PipelinedDriver)
    assert master.status is JobStatus.RUNNING
    states = {e.current.state for v in master.execution_graph.vertices for e in v.subtasks}
    assert states == {ExecutionState.RUNNING}
    client.cancel().result()
    assert master.status is JobStatus.CANCELED
    check_exactly_once()


def test_a_job_whose_sources_end_takes_a_last_checkpoint_and_finishes(cluster, tmp_path):
    env = environment(tmp_path, interval="1 h")
    env.from_collection(list(range(100))).key_by(lambda n: n % 3).process(Count()).sink_to(
        Committing("bounded")
    )
    env.execute("bounded")
    (master,) = cluster.masters
    assert isinstance(master._driver, PipelinedDriver)
    assert master.status is JobStatus.FINISHED
    assert check_exactly_once("bounded", 3) == {0: 34, 1: 33, 2: 33}
    assert master.manifest.checkpoint_id == 1


def test_without_an_interval_the_only_checkpoint_is_the_last(cluster):
    env = configured({}, 2)
    env.from_collection(list(range(100))).key_by(lambda n: n % 3).process(Count()).sink_to(
        Committing("bounded")
    )
    env.execute("bounded")
    assert list(COMMITTED["bounded"]) == [1]
    check_exactly_once("bounded", 3)


def test_an_exception_of_user_code_restarts_the_job_from_the_last_checkpoint(cluster, tmp_path):
    env = environment(tmp_path)
    counts(env, switch="broken")
    client, master = start(env, cluster)
    wait_until(has_more_than(20))
    SWITCHES["broken"].set()
    wait_until(lambda: master.restarts == 1, "the restart")
    before = len(committed("counts"))
    wait_until(has_more_than(before + 50))
    client.cancel().result()
    check_exactly_once()
    assert len(master.recovery_seconds) == 1


def test_a_job_that_may_not_restart_fails_with_the_users_exception(cluster, tmp_path):
    env = environment(tmp_path, restart_strategy__type="none")
    env.configure(configured({"restart-strategy.type": "none"}).get_configuration())
    counts(env, switch="broken")
    client, master = start(env, cluster)
    SWITCHES["broken"].set()
    with pytest.raises(JobExecutionError, match="told to fail by broken") as error:
        client.get_job_execution_result().result()
    assert isinstance(error.value.__cause__, ValueError)
    assert "counts-fails" in str(error.value) or "Map" in str(error.value)
    assert master.status is JobStatus.FAILED


def test_only_the_region_of_the_failed_task_restarts(cluster, tmp_path):
    env = environment(tmp_path)
    counts(env, name="a", switch="broken")
    counts(env, name="b")
    client, master = start(env, cluster)
    wait_until(has_more_than(20, "a"))
    wait_until(has_more_than(20, "b"))
    SWITCHES["broken"].set()
    wait_until(lambda: master.restarts == 1, "the restart")
    before = len(committed("a"))
    wait_until(has_more_than(before + 50, "a"))
    attempts = {
        vertex.job_vertex.name: {each.current.attempt for each in vertex.subtasks}
        for vertex in master.execution_graph.vertices
    }
    assert {name: found for name, found in attempts.items() if "a-" in name or "b-" in name}
    by_region = {
        region: {n for name, found in attempts.items() for n in found if f"{region}-" in name}
        for region in "ab"
    }
    client.cancel().result()
    check_exactly_once("a")
    check_exactly_once("b")
    assert by_region == {"a": {1}, "b": {0}}


def test_a_savepoint_is_taken_while_the_job_goes_on(cluster, tmp_path):
    env = environment(tmp_path, interval="1 h")
    counts(env)
    client, master = start(env, cluster)
    wait_until(lambda: len(READ) == 2, "reading")
    path = client.trigger_savepoint(f"{tmp_path}/savepoints").result(TIMEOUT_S)
    assert Path(path).is_dir()
    assert master.status is JobStatus.RUNNING
    client.cancel().result()
    check_exactly_once()


@pytest.mark.parametrize("second", ["pipelined", "epochs"])
@pytest.mark.parametrize("first", ["pipelined", "epochs"])
def test_a_savepoint_of_one_mode_starts_the_other(first, second, tmp_path):
    def run(mode, **more):
        with MiniCluster(mode=mode) as cluster:
            env = environment(tmp_path, **more)
            env.configure(configured(more).get_configuration())
            counts(env)
            client, master = start(env, cluster)
            before = len(committed("counts"))
            wait_until(has_more_than(before + 30))
            path = client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result(TIMEOUT_S)
            client.get_job_execution_result().result(TIMEOUT_S)
            kind = PipelinedDriver if mode == "pipelined" else EpochDriver
            assert isinstance(master._driver, kind)
            return path

    path = run(first)
    seen = check_exactly_once()
    COMMITTED["counts"] = {-1: committed("counts")}  # numbers of checkpoints begin again
    run(second, **{"execution.state-recovery.path": path})
    after = check_exactly_once()
    assert all(after[key] > seen[key] for key in seen)


def test_a_drained_job_ends_with_all_that_it_has_read(cluster, tmp_path):
    env = environment(tmp_path, interval="1 h")
    counts(env)
    client, master = start(env, cluster)
    wait_until(lambda: master.status is JobStatus.RUNNING)
    client.stop_with_savepoint(True, f"{tmp_path}/savepoints").result(TIMEOUT_S)
    client.get_job_execution_result().result(TIMEOUT_S)
    assert master.status is JobStatus.FINISHED
    assert master.manifest.final


def test_nothing_is_read_after_a_stop(cluster, tmp_path):
    """What a sink has seen, also one that needs no commits, is what the savepoint holds."""
    env = environment(tmp_path, interval="1 h")
    counts(env)
    client, _ = start(env, cluster)
    wait_until(lambda: len(READ) == 2, "reading")
    client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result(TIMEOUT_S)
    client.get_job_execution_result().result(TIMEOUT_S)
    check_exactly_once()
    assert sorted(WRITTEN) == sorted(committed("counts"))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_rescaled_job_goes_on_from_a_checkpoint_taken_at_once(cluster, tmp_path, parallelism):
    env = environment(tmp_path, interval="1 h")
    counts(env, Ticks(4))
    client, master = start(env, cluster)
    wait_until(lambda: len(READ) == 4, "reading")
    READ.clear()
    rescaled = master.request_rescale(parallelism).result(TIMEOUT_S)
    assert set(rescaled.values()) == {parallelism}
    wait_until(lambda: len(READ) == 4, "reading")
    client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result(TIMEOUT_S)
    client.get_job_execution_result().result(TIMEOUT_S)
    check_exactly_once(keys=4)


def test_a_cancelled_job_leaves_no_thread(cluster, tmp_path):
    env = environment(tmp_path)
    counts(env)
    before = {*threading.enumerate()}  # a job of another test may be about to end
    client, _ = start(env, cluster)
    wait_until(has_more_than(20))
    client.cancel().result()
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    left = [thread.name for thread in {*threading.enumerate()} - before]
    assert [name for name in left if "stage" in name or "splits" in name] == []


def test_several_checkpoints_under_way_lose_nothing(cluster, tmp_path):
    env = environment(tmp_path, interval="5 ms")
    options = {"execution.checkpointing.max-concurrent-checkpoints": "3"}
    env.configure(configured(options).get_configuration())
    counts(env)
    client, master = start(env, cluster)
    wait_until(lambda: master.manifest is not None and master.manifest.checkpoint_id >= 30)
    client.cancel().result()
    check_exactly_once()


@pytest.fixture
def narrow(monkeypatch):
    """A cluster with two slots."""
    capacity = ClusterCapacity(2)
    monkeypatch.setattr(thread_cluster.ThreadCluster, "capacity", lambda *_: capacity)
    with MiniCluster(mode="auto") as running:
        yield running
        for master in running.masters:
            master.cancel()


def test_a_job_that_does_not_fit_runs_in_epochs_and_says_why(narrow, tmp_path, caplog):
    env = environment(tmp_path, 3)
    counts(env)
    client, master = start(env, narrow)
    wait_until(has_more_than(20))
    client.cancel().result()
    assert isinstance(master._driver, EpochDriver)
    said = [each.getMessage() for each in caplog.records if "epoch mode" in each.getMessage()]
    assert said == [
        "job 'job' runs in epoch mode: the job needs 3 slots to run in pipelined mode, but Spark has 2"
    ]


def test_a_job_that_must_be_pipelined_and_does_not_fit_is_refused(narrow, tmp_path):
    env = environment(tmp_path, 3, penstock__execution__mode="pipelined")
    counts(env)
    with pytest.raises(
        InsufficientSlotsError, match="needs 3 slots to run in pipelined mode, but Spark has 2"
    ):
        env.execute("job")


def test_a_job_that_is_rescaled_beyond_the_slots_goes_on_in_epochs_and_comes_back(narrow, tmp_path):
    env = environment(tmp_path)
    counts(env, Ticks(4))
    client, master = start(env, narrow)
    for parallelism, way in ((3, EpochDriver), (1, PipelinedDriver)):
        wait_until(has_more_than(len(committed("counts")) + 20))
        master.request_rescale(parallelism).result(TIMEOUT_S)
        wait_until(has_more_than(len(committed("counts")) + 20))
        assert isinstance(master._driver, way)
    client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result(TIMEOUT_S)
    client.get_job_execution_result().result(TIMEOUT_S)
    check_exactly_once(keys=4)


def test_a_pipelined_job_is_not_rescaled_beyond_the_slots(narrow, tmp_path):
    env = environment(tmp_path, penstock__execution__mode="pipelined")
    counts(env)
    client, master = start(env, narrow)
    wait_until(has_more_than(20))
    with pytest.raises(InsufficientSlotsError, match="needs 3 slots"):
        master.request_rescale(3).result(TIMEOUT_S)
    wait_until(has_more_than(len(committed("counts")) + 20))
    client.cancel().result()
    check_exactly_once()


def test_a_mini_cluster_has_three_modes():
    with pytest.raises(ArgumentError, match="unknown mode 'fast'"):
        MiniCluster(mode="fast")
