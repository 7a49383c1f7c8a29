"""Sources and sinks on Spark: the user's own, files that arrive while the job runs, generated records."""

from __future__ import annotations

import os
import re
import types
from collections import Counter
from pathlib import Path

import pytest

from penstock.common import Configuration, Duration, WatermarkStrategy
from penstock.connectors import Sink, SinkWriter
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.state import ValueStateDescriptor
from tests.builders.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "sources-and-sinks.md"


@pytest.fixture(scope="module")
def page():
    """The code of the documentation, as one module whose classes travel by value."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    module = types.ModuleType("__main__")
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_source_and_the_sink_of_the_documentation_work(env, tmp_path, page, parallelism):
    env.set_parallelism(parallelism)
    stream = env.from_source(page.Squares(1000), WatermarkStrategy.no_watermarks(), "squares")
    stream.key_by(lambda x: x % 10).map(lambda x: x).sink_to(page.LineFiles(str(tmp_path)))
    env.execute("documentation")
    files = list(tmp_path.iterdir())
    assert files
    assert not [file for file in files if file.name.startswith(".")]
    written = sorted(int(line) for file in files for line in file.read_text().split())
    assert written == [i * i for i in range(1000)]


def test_files_that_arrive_later_are_read(env, tmp_path):
    (tmp_path / "one.txt").write_text("1\n2\n")
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
        .monitor_continuously(Duration.of_millis(100))
        .build()
    )
    env.set_parallelism(2)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").map(int)
    found = stream.execute_and_collect()
    assert sorted([next(found), next(found)]) == [1, 2]
    (tmp_path / "two.txt").write_text("3\n4\n5\n")
    assert sorted([next(found), next(found), next(found)]) == [3, 4, 5]
    found.close()


def test_an_unbounded_job_can_be_cancelled(env, tmp_path):
    env.set_parallelism(2)
    arrived = tmp_path / "arrived"
    source = DataGeneratorSource(lambda index: index, rate_per_second=1000)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "gen")
    stream.add_sink(lambda value: arrived.touch())
    client = env.execute_async("endless")
    wait_until(arrived.exists)
    client.cancel().result(60)
    assert client.get_job_status().result().name == "CANCELED"


def counted(directory):
    """A sink whose writers note in files what is called, each process in its own."""

    def note(call, subtask):
        with (Path(directory) / f"{os.getpid()}").open("a") as file:
            file.write(f"{call} {subtask}\n")

    class Writer(SinkWriter):
        def __init__(self, subtask):
            self.subtask = subtask
            note("open", subtask)

        def begin(self, checkpoint):
            note("begin", self.subtask)

        def write(self, values, timestamps, watermark):
            pass

        def prepare_commit(self):
            return []

        def close(self):
            note("close", self.subtask)

    class Counted(Sink):
        def create_writer(self, context, restored=None):
            return Writer(context.subtask)

    return Counted()


def test_a_writer_is_opened_once_per_process_however_many_epochs_there_are(tmp_path):
    noted = tmp_path / "noted"
    noted.mkdir()
    options = {"execution.checkpointing.interval": "100 ms"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(2)
    source = DataGeneratorSource(lambda index: index, rate_per_second=400)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "gen")
    stream.sink_to(counted(str(noted)))

    def by_process():
        return [Counter(file.read_text().splitlines()) for file in noted.iterdir()]

    def count(call, subtask):
        return sum(calls[f"{call} {subtask}"] for calls in by_process())

    client = env.execute_async("writers")
    wait_until(lambda: all(count("begin", subtask) >= 8 for subtask in (0, 1)), seconds=120)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(120)
    client.get_job_execution_result().result(120)
    for subtask in (0, 1):
        assert count("close", subtask) >= 1
        # A slot that does not come back for six epochs finds its writer closed: one opening more, in few runs.
        assert count("open", subtask) <= len(by_process()) + 1


class Heartbeat(KeyedProcessFunction):
    """Emits once, half a second after the only record, by a processing-time timer."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", None))

    def process_element(self, value, ctx):
        self.value.update(value)
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 500)

    def on_timer(self, timestamp, ctx):
        yield f"{self.value.value()} for {ctx.get_current_key()}"


def test_processing_time_timers_fire_without_data(env):
    env.set_parallelism(2)
    silent = DataGeneratorSource(lambda index: index, rate_per_second=0.001)
    endless = env.from_source(silent, WatermarkStrategy.no_watermarks(), "silent")
    stream = env.from_collection([7]).union(endless)
    found = stream.key_by(lambda x: "key").process(Heartbeat()).execute_and_collect()
    assert next(found) == "7 for key"
    found.close()
