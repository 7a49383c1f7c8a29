"""Restarts, resuming, clean-up and error reports on Spark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.common import Configuration, Encoder, RestartStrategies, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import JobExecutionError


class FailOnce(MapFunction):
    """Fails on one record until a marker file is there."""

    def __init__(self, record, marker):
        self.record = record
        self.marker = marker

    def map(self, value):
        if value == self.record and not os.path.exists(self.marker):
            Path(self.marker).touch()
            raise ValueError(f"bad record {value}")
        return value


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", None))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{ctx.get_current_key()} {count}"


def file_sink(path):
    sink = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    return sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()


def lines(path: Path) -> list[str]:
    return sorted(
        line
        for file in path.rglob("*")
        if file.is_file() and not file.name.startswith(".")
        for line in file.read_text().splitlines()
    )


def counting_job(env, out, function=None, last=200):
    stream = env.from_source(
        NumberSequenceSource(1, last), WatermarkStrategy.no_watermarks(), "numbers"
    )
    if function is not None:
        stream = stream.map(function)
    stream.key_by(lambda x: x % 10).process(Count()).sink_to(file_sink(out)).uid("out")


EXPECTED = sorted(f"{key} {count}" for key in range(10) for count in range(1, 21))


@pytest.mark.ci
def test_a_failed_job_restarts_and_writes_everything_once(env, tmp_path, capfd):
    env.set_parallelism(2)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    counting_job(env, tmp_path / "out", FailOnce(150, str(tmp_path / "marker")))
    env.execute("restarts")
    assert lines(tmp_path / "out") == EXPECTED
    assert "bad record 150" in capfd.readouterr().err


@pytest.mark.ci
def test_a_job_that_fails_for_good_reports_the_users_exception_first(env, tmp_path):
    env.set_parallelism(2)
    counting_job(env, tmp_path / "out", lambda x: 1 // (x - 77))
    with pytest.raises(JobExecutionError) as failure:
        env.execute("fails")
    text = str(failure.value)
    assert text.startswith("Traceback (most recent call last):")
    assert "ZeroDivisionError" in text
    assert "in operator 'Map'" in text
    assert "record 77" in text
    assert "/penstock/runtime/" not in text
    assert isinstance(failure.value.__cause__, ZeroDivisionError)
    assert lines(tmp_path / "out") == []


def test_a_finished_job_is_not_run_again_when_resumed(tmp_path):
    def run(recover=None):
        options = {
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.checkpointing.interval": "1 min",  # so that one epoch reads it all
        }
        if recover is not None:
            options["execution.state-recovery.path"] = str(recover)
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
        env.set_parallelism(2)
        counting_job(env, tmp_path / "out")
        return env.execute("resumed").get_job_id()

    job_id = run()
    directory = tmp_path / "checkpoints" / str(job_id)
    assert lines(tmp_path / "out") == EXPECTED
    assert run(directory) == job_id
    assert lines(tmp_path / "out") == EXPECTED
    assert [path.name for path in directory.glob("chk-*")] == ["chk-1"]


def test_what_functions_print_reaches_standard_output_and_spark_stays_silent(env, capfd):
    env.set_parallelism(1)

    def shout(value):
        print(f"working on {value}", flush=True)
        return value

    env.from_collection([1, 2]).map(shout).print()
    env.execute("prints")
    captured = capfd.readouterr()
    printed = captured.out.splitlines()
    assert [line for line in printed if not line.startswith("working")] == ["1", "2"]
    start, end = [line for line in captured.err.splitlines() if "on the page" not in line]
    assert start.startswith("job 'prints' (")
    assert end.startswith("job 'prints' finished after")
