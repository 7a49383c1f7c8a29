"""State in RocksDB on Spark: several epochs in changing worker processes, a worker that dies, another parallelism."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.time.durations import Time

LAST = 600


class Count(KeyedProcessFunction):
    """Counts per key in a value and in a map. The worker dies once in the middle, if a marker is given."""

    def __init__(self, marker=None):
        self.marker = marker

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen"))

    def process_element(self, value, ctx):
        if self.marker is not None and value > LAST * 0.7 and not os.path.exists(self.marker):
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        self.count.update((self.count.value() or 0) + 1)
        self.seen.put(value, True)
        assert len(self.seen.keys()) == self.count.value()
        yield f"{ctx.get_current_key()} {self.count.value()}"


def sink(path):
    built = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    return built.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()


def lines(path):
    files = [file for file in path.rglob("*") if file.is_file() and not file.name.startswith(".")]
    return sorted(line for file in files for line in file.read_text().splitlines())


def configure(env, tmp_path, **options):
    settings = {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "penstock.state.inline-threshold": "0",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env.configure(Configuration.from_dict({**settings, **options}))


EXPECTED = sorted(f"{key} {n}" for key in range(10) for n in range(1, LAST // 10 + 1))


@pytest.mark.parametrize("dies", [False, True], ids=["undisturbed", "a worker dies"])
def test_keyed_state_in_the_database_counts_every_record_once(env, tmp_path, dies):
    env.set_parallelism(2)
    configure(env, tmp_path)
    numbers = NumberSequenceSource(1, LAST)
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    marker = str(tmp_path / "marker") if dies else None
    stream.key_by(lambda x: x % 10).process(Count(marker)).sink_to(sink(tmp_path / "out"))
    env.execute("rocksdb")
    assert lines(tmp_path / "out") == EXPECTED
    assert (tmp_path / "marker").exists() == dies
    assert list((tmp_path / "checkpoints").rglob("*.sst"))


def test_windows_in_the_database_fire_once(env, tmp_path):
    env.set_parallelism(2)
    configure(env, tmp_path)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda number, _: number
    )
    stream = env.from_source(NumberSequenceSource(1, LAST), strategy, "numbers")
    windows = stream.key_by(lambda x: x % 3).window(
        TumblingEventTimeWindows.of(Time.milliseconds(100))
    )
    with windows.reduce(lambda x, y: x + y).execute_and_collect() as found:
        totals = sorted(found)
    expected = {}
    for number in range(1, LAST + 1):
        window = number % 3, number // 100
        expected[window] = expected.get(window, 0) + number
    assert totals == sorted(expected.values())
