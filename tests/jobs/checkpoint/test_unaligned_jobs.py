"""Jobs whose slow ends hold everything up: barriers overtake, and what was in flight is neither lost nor doubled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

from penstock import state
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.common import WatermarkStrategy
from penstock.connectors.base.sink import Committer, Sink, SinkWriter
from penstock.connectors.base.source import SourceBatch, SourceReader, SourceSplit
from penstock.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
)
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.errors import RestoreRefusedError
from penstock.testing import MiniCluster
from tests.builders.endless import EndlessSource
from tests.builders.environments import configured, restarts
from tests.builders.waiting import wait_until

TIMEOUT_S = 60
KEYS = 7
PARTS = 10
COMMITTED: dict[str, dict[int, list[Any]]] = {}
FAIL = threading.Event()
SLOW = threading.Event()


class Committing(Sink):
    """Keeps what it commits in this process; commits of one checkpoint, which a restore does again, replace each other."""

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

    def prepare_commit(self):
        values, self.values = self.values, []
        return values


class _Committer(Committer):
    def __init__(self, name):
        self.name = name

    def commit(self, request):
        COMMITTED.setdefault(self.name, {})[request.checkpoint_id] = list(request.committables)


class Fast(EndlessSource):
    """Numbers from 0 on in each of its splits, as fast as they are taken."""

    def __init__(self, splits: int = 2) -> None:
        self._splits = splits

    def splits(self):
        return [SourceSplit(f"s{n}", n, start=0) for n in range(self._splits)]

    def create_reader(self):
        return _FastReader()


class _FastReader(SourceReader):
    def read(self, split, position, limits):
        end = position + 20
        yield SourceBatch([(split.payload, n) for n in range(position, end)], end, None)


class Count(KeyedProcessFunction):
    """Emits (key, number) for the next numbers of the key: at once more than there is room for, so that some wait with the sender."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = self.count.value() or 0
        self.count.update(count + PARTS)
        for part in range(1, PARTS + 1):
            yield ctx.get_current_key(), count + part, "x" * 200


class Slow(MapFunction):
    """Takes a fifth of a millisecond for each record, and fails when it is told to."""

    processed = 0

    def map(self, value):
        Slow.processed += 1
        if FAIL.is_set():
            FAIL.clear()
            raise ValueError("told to fail")
        if SLOW.is_set():
            time.sleep(0.0002)
        return value


@pytest.fixture(autouse=True)
def _fresh():
    COMMITTED.clear()
    FAIL.clear()
    SLOW.set()


@pytest.fixture
def cluster():
    with MiniCluster(mode="pipelined") as running:
        yield running
        for master in running.masters:
            master.cancel()


def environment(tmp_path, parallelism=2, **options):
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    return configured(
        {
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": f"{tmp_path}/checkpoints",
            "execution.checkpointing.unaligned.enabled": "true",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "execution.checkpointing.num-retained": "1000",
            "taskmanager.memory.segment-size": "1 kb",
            "taskmanager.network.memory.buffers-per-channel": "1",
            "taskmanager.network.memory.floating-buffers-per-gate": "0",
            **restarts(20),
            **named,
        },
        parallelism,
    )


def counting(env, name="counts", source=None):
    """Count, and then be slow: in the same order for each key, and on an exchange without keys."""
    source = source or Fast()
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "in").uid("in")
    counted = numbers.key_by(lambda value: value[1] % KEYS).process(Count()).uid("count")
    again = counted.key_by(lambda pair: pair[0]).process(Checked()).uid("checked")
    again.rebalance().map(Slow()).uid("slow").sink_to(Committing(name)).uid("out")


class Checked(KeyedProcessFunction):
    """Passes on what it gets, and whether that came in order."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value, ctx):
        key, number, _ = value
        in_order = number == (self.last.value() or 0) + 1
        self.last.update(number)
        yield key, number, in_order


def check(name="counts", at_least=1):
    """Of each key there is every number once, and all came in order."""
    values = [value for values in COMMITTED[name].values() for value in values]
    doubled = [
        value for value, times in Counter(value[:2] for value in values).items() if times > 1
    ]
    assert doubled == []
    assert all(in_order for *_, in_order in values)
    for key in range(KEYS):
        found = sorted(number for each, number, _ in values if each == key)
        assert found == list(range(1, len(found) + 1))
    assert len(values) >= at_least


def completed(master):
    return 0 if master.manifest is None else master.manifest.checkpoint_id


def stop(client, tmp_path, at_least=500):
    """Stop the job when so many records are committed."""
    wait_until(lambda: sum(map(len, list(COMMITTED["counts"].values()))) >= at_least, "output")
    SLOW.clear()
    path = client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result(TIMEOUT_S)
    client.get_job_execution_result().result(TIMEOUT_S)
    return path


def in_flight(master):
    return master.manifest is not None and master.manifest.has_in_flight_data


def last_with_data_in_flight(master):
    """Return the last such checkpoint: that of a cancelled job need not have any."""
    store = ManifestStore.at(CheckpointFileSystem(master.store.storage.base))
    manifests = (
        store.read(checkpoint_id) for checkpoint_id in reversed(store.list_checkpoint_ids())
    )
    return next(manifest for manifest in manifests if manifest.has_in_flight_data)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("timeout", ["0 ms", "30 ms"])
def test_in_flight_records_are_restored_after_a_failure(cluster, tmp_path, timeout, backend):
    env = environment(
        tmp_path,
        state__backend__type=backend,
        execution__checkpointing__aligned_checkpoint_timeout=timeout,
    )
    counting(env)
    client = env.execute_async("job")
    (master,) = cluster.masters
    for failures in range(1, 4):
        before = completed(master)
        wait_until(lambda at=before: completed(master) > at + 1, "the next checkpoint")
        wait_until(lambda: in_flight(master), "data in flight")
        FAIL.set()
        wait_until(lambda n=failures: master.restarts == n, "the restart")
    before = completed(master)
    wait_until(lambda: completed(master) > before, "a checkpoint after the last restart")
    stop(client, tmp_path)
    assert not master.manifest.has_in_flight_data
    check(at_least=500)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_in_flight_records_are_redistributed_on_rescale(cluster, tmp_path, parallelism):
    env = environment(tmp_path)
    counting(env)
    client = env.execute_async("job")
    (master,) = cluster.masters
    wait_until(lambda: in_flight(master), "data in flight")
    master.request_rescale(parallelism).result(TIMEOUT_S)
    before = completed(master)
    wait_until(lambda: completed(master) > before, "a checkpoint")
    master.request_rescale(2).result(TIMEOUT_S)
    before = completed(master)
    wait_until(lambda: completed(master) > before, "a checkpoint")
    stop(client, tmp_path)
    check(at_least=500)


LAST = MapStateDescriptor("last")


class Follow(KeyedBroadcastProcessFunction):
    """Passes records on; of a broadcast stream it tells whether each came after the one before."""

    def process_element(self, value, ctx):
        if SLOW.is_set():
            time.sleep(0.0002)
        yield "record", value[1]

    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(LAST)
        yield "broadcast", value[1] == (state.get("n") if state.contains("n") else -1) + 1
        state.put("n", value[1])


@pytest.mark.parametrize("parallelisms", [(3, 1), (1, 3)])
def test_every_subtask_gets_each_broadcast_record_once_over_changes_of_parallelism(
    cluster, tmp_path, parallelisms
):
    env = environment(tmp_path)
    rules = env.from_source(Fast(1), WatermarkStrategy.no_watermarks(), "rules").uid("rules")
    numbers = env.from_source(Fast(3), WatermarkStrategy.no_watermarks(), "in").uid("in")
    keyed = numbers.key_by(lambda value: value[1] % KEYS)
    followed = keyed.connect(rules.broadcast(LAST)).process(Follow()).uid("follow")
    followed.sink_to(Committing("counts")).uid("out")
    client = env.execute_async("job")
    (master,) = cluster.masters
    for parallelism in (*parallelisms, 2):
        wait_until(lambda: in_flight(master), "data in flight")
        master.request_rescale(parallelism).result(TIMEOUT_S)
        before = completed(master)
        wait_until(lambda at=before: completed(master) > at, "a checkpoint")
    wait_until(lambda: count_of_broadcasts() > 100, "output")
    stop(client, tmp_path)
    values = [value for values in COMMITTED["counts"].values() for value in values]
    assert all(ok for kind, ok in values if kind == "broadcast")
    counts = Counter(n for kind, n in values if kind == "record")
    assert set(counts.values()) <= {1, 2, 3}


def count_of_broadcasts():
    """Return how many broadcast records are committed."""
    epochs = list(COMMITTED["counts"].values())
    return sum(kind == "broadcast" for values in epochs for kind, _ in values)


@pytest.mark.parametrize("mode", ["epochs", "pipelined"])
@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_checkpoint_with_data_in_flight_starts_a_job_in_either_mode(tmp_path, mode, parallelism):
    with MiniCluster(mode="pipelined") as cluster:
        env = environment(tmp_path)
        counting(env)
        client = env.execute_async("job")
        (master,) = cluster.masters
        wait_until(lambda: in_flight(master), "data in flight")
        client.cancel().result(TIMEOUT_S)
        directory = master.store.storage.base
    manifest = last_with_data_in_flight(master)
    shown = {
        checkpoint_id: values
        for checkpoint_id, values in COMMITTED["counts"].items()
        if checkpoint_id <= manifest.checkpoint_id
    }
    COMMITTED["counts"] = shown
    with MiniCluster(mode=mode) as cluster:
        env = environment(
            tmp_path,
            parallelism,
            execution__state_recovery__path=f"{directory}/chk-{manifest.checkpoint_id}",
        )
        counting(env)
        client = env.execute_async("job")
        (master,) = cluster.masters
        wait_until(lambda: completed(master) > manifest.checkpoint_id, "a checkpoint")
        stop(client, tmp_path, at_least=100)
    check(at_least=100)


@pytest.fixture
def retained(cluster, tmp_path):
    """The path of a checkpoint with data in flight."""
    env = environment(tmp_path)
    counting(env)
    client = env.execute_async("job")
    (master,) = cluster.masters
    wait_until(lambda: in_flight(master), "data in flight")
    client.cancel().result(TIMEOUT_S)
    manifest = last_with_data_in_flight(master)
    return f"{master.store.storage.base}/chk-{manifest.checkpoint_id}"


def test_snapshot_text_mentions_in_flight_data(retained):
    snapshot = state.read(retained)
    assert "bytes of in-flight records (unaligned checkpoint), which are not shown" in str(snapshot)
    assert {row[0] for row in snapshot.state("count", "count")} <= set(range(KEYS))


def test_no_savepoint_is_made_of_a_checkpoint_with_data_in_flight(retained):
    with pytest.raises(RestoreRefusedError, match="cannot be turned into a savepoint"):
        state.edit(retained)


def test_a_program_without_the_exchange_that_records_were_in_flight_on_is_refused(
    cluster, retained, tmp_path
):
    env = environment(
        tmp_path,
        execution__state_recovery__path=retained,
        execution__state_recovery__ignore_unclaimed_state="true",
    )
    numbers = env.from_source(Fast(), WatermarkStrategy.no_watermarks(), "in").uid("in")
    numbers.map(Slow()).uid("slow").sink_to(Committing("counts")).uid("out")
    with pytest.raises(RestoreRefusedError, match="in-flight records of vertex"):
        env.execute("another")
