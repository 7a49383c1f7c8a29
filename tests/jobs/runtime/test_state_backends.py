"""Whole programs on either backend, in this process: restarts, rescaling, a damaged checkpoint."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from penstock.checkpoint.manifest_store import UnreadableCheckpointError
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import (
    KeyedProcessFunction,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing.faults import StepFault, protocol_faults
from penstock.time.durations import Duration, Time
from tests.builders.clusters import own_cluster
from tests.builders.environments import RESTARTS, stateful_environment
from tests.builders.scripted import Script

RECORDS = [(f"key {n % 7}", n) for n in range(120)]


pytestmark = pytest.mark.usefixtures("cluster")


def environment(backend, directory, parallelism=2, **options):
    inline = {"penstock.state.inline-threshold": "0", "execution.checkpointing.num-retained": "1"}
    return stateful_environment(
        backend, directory, parallelism, **{**RESTARTS, **inline, **options}
    )


class Everything(KeyedProcessFunction):
    """Keeps every kind of state, and counts once more with a timer."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))
        self.last = runtime_context.get_map_state(
            MapStateDescriptor("last", Types.INT(), Types.INT())
        )
        kept = ValueStateDescriptor("kept")
        kept.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_hours(1)).build())
        self.kept = runtime_context.get_state(kept)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(value[1])
        self.last.put(value[1] % 3, value[1])
        self.kept.update((self.kept.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 5)

    def on_timer(self, timestamp, ctx):
        state = self.count.value(), sorted(self.seen.get()), sorted(self.last.items())
        yield ctx.get_current_key(), timestamp, self.kept.value(), *state


def run(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda record, _: record[1]
    )
    stream = env.from_collection(RECORDS).assign_timestamps_and_watermarks(strategy)
    timers = stream.key_by(lambda record: record[0]).process(Everything())
    windows = (
        stream.key_by(lambda record: record[0])
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        .reduce(lambda x, y: (x[0], x[1] + y[1]))
    )
    with timers.map(repr).union(windows.map(repr)).execute_and_collect() as found:
        return sorted(found)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    with own_cluster():
        return run(environment("hashmap", tmp_path_factory.mktemp("expected")))


def test_a_program_gives_the_same(backend, tmp_path, expected):
    assert run(environment(backend, tmp_path)) == expected


@pytest.mark.parametrize("spill", ["1", "100000"], ids=["spilled", "kept"])
def test_a_program_gives_the_same_after_faults_in_its_checkpoints(
    backend, tmp_path, expected, spill
):
    env = environment(backend, tmp_path, **{"penstock.state.spill-entries": spill})
    with protocol_faults(
        StepFault("before write_manifest", 1),
        StepFault("after write_manifest", 1),
        StepFault("after run_pipe", 2),
    ) as faults:
        assert run(env) == expected
    assert faults.struck


def test_nothing_is_left_on_the_local_disk(tmp_path, expected):
    assert run(environment("rocksdb", tmp_path)) == expected
    assert not [path for path in Path(tmp_path, "local").rglob("*") if path.is_file()]


def test_temporary_options_are_read(tmp_path, cluster):
    env = environment(
        "rocksdb",
        tmp_path,
        **{
            "state.backend.rocksdb.block.cache-size": "16 mb",
            "state.backend.rocksdb.writebuffer.size": "4 mb",
            "state.backend.rocksdb.compaction.style": "LEVEL",
            "execution.checkpointing.incremental": "false",
        },
    )
    run(env)
    settings = cluster.masters[-1].job.settings.state_backend
    assert settings.local_dirs == (f"{tmp_path}/local",)
    assert (settings.block_cache_size, settings.write_buffer_size) == (16 << 20, 4 << 20)
    assert (settings.compaction_style, settings.incremental) == ("LEVEL", False)


class FailWhenRestored(KeyedProcessFunction):
    """Sums up. After some records it damages the newest checkpoint and fails, once."""

    damaged = False

    def __init__(self, directory):
        self.directory = directory

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element(self, value, ctx):
        if value[1] == 100 and not FailWhenRestored.damaged:
            FailWhenRestored.damaged = True
            files = Path(self.directory, "checkpoints").rglob("shared/*")
            newest = max(files, key=lambda path: int(path.name.partition("-")[0]))
            newest.write_bytes(newest.read_bytes()[:-1])
            for local in Path(self.directory, "local").rglob("snap-*"):
                local.rename(local.with_name("work-999999999-0" + local.name))
            raise RuntimeError("as planned")
        self.total.update((self.total.value() or 0) + value[1])
        yield value[0], self.total.value()


def damaged_while_it_runs(backend, tmp_path, **options):
    FailWhenRestored.damaged = False
    options["execution.checkpointing.num-retained"] = "3"
    env = environment(backend, tmp_path, 1, **options)
    source = Script([[(record, record[1])] for record in RECORDS])
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "script")
    summed = stream.key_by(lambda record: record[0]).process(FailWhenRestored(str(tmp_path)))
    with summed.execute_and_collect() as found:
        return dict(found)


def test_a_job_whose_last_checkpoint_is_damaged_while_it_runs_is_not_restarted(backend, tmp_path):
    with pytest.raises(UnreadableCheckpointError, match="cannot be") as raised:
        damaged_while_it_runs(backend, tmp_path)
    assert "is damaged. The last one before it is checkpoint" in raised.value.detail
    assert re.search(
        r"again and publishes again what (it has|they have) already published", raised.value.detail
    )


def test_a_damaged_checkpoint_is_left_for_the_one_before_it_if_that_is_allowed(
    backend, tmp_path, caplog
):
    caplog.set_level(logging.WARNING)
    totals = damaged_while_it_runs(
        backend, tmp_path, **{"penstock.recovery.allow-fallback": "true"}
    )
    expected = {}
    for key, number in RECORDS:
        expected[key] = expected.get(key, 0) + number
    assert totals == expected
    assert "Falling back to checkpoint" in caplog.text
    assert "is damaged" in caplog.text
