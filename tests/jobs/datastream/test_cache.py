"""A cached stream is computed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common import WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource
from penstock.errors import InvalidProgramError, JobExecutionError
from penstock.testing import MiniCluster
from tests.builders.scripted import collect_sorted


class Count(MapFunction):
    """Leaves a mark in a file for each record."""

    def __init__(self, path: Path, fails: bool = False):
        self.path = str(path)
        self.fails = fails

    def map(self, value):
        with open(self.path, "a") as marks:
            marks.write("x")
        if self.fails and value == 3:
            raise ValueError("three")
        return value * value


@pytest.fixture
def env():
    with MiniCluster():
        environment = StreamExecutionEnvironment.get_execution_environment()
        environment.set_parallelism(2)
        yield environment


def calls(path):
    return len(path.read_text())


def test_later_jobs_read_cached_elements(env, tmp_path):
    squares = env.from_collection([1, 2, 3]).map(Count(tmp_path / "calls")).cache()
    assert collect_sorted(squares) == [1, 4, 9]
    assert collect_sorted(squares.map(lambda x: -x)) == [-9, -4, -1]
    assert collect_sorted(squares.cache()) == [1, 4, 9]
    assert calls(tmp_path / "calls") == 3


def test_timestamps_are_kept(env, tmp_path):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda v, _: v * 10
    )
    stamped = env.from_collection([1, 2]).assign_timestamps_and_watermarks(strategy).cache()
    assert collect_sorted(stamped) == [1, 2]

    from penstock.datastream import ProcessFunction

    class Stamp(ProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.timestamp()

    assert collect_sorted(stamped.process(Stamp())) == [10, 20]


def test_an_invalidated_stream_is_computed_again(env, tmp_path):
    squares = env.from_collection([1, 2, 3]).map(Count(tmp_path / "calls")).cache()
    assert collect_sorted(squares) == [1, 4, 9]
    squares.invalidate()
    assert collect_sorted(squares) == [1, 4, 9]
    assert calls(tmp_path / "calls") == 6


def test_a_failed_job_leaves_no_cache(env, tmp_path):
    squares = env.from_collection([1, 2, 3]).map(Count(tmp_path / "calls", fails=True)).cache()
    for _ in range(2):
        with pytest.raises(JobExecutionError, match="three"):
            collect_sorted(squares)
    assert calls(tmp_path / "calls") > 3


def test_a_program_that_does_not_use_the_stream_does_not_fill_it(env, tmp_path):
    squares = env.from_collection([1, 2, 3]).map(Count(tmp_path / "calls")).cache()
    env._transformations.clear()
    assert collect_sorted(env.from_collection([7])) == [7]
    assert collect_sorted(squares) == [1, 4, 9]
    assert collect_sorted(squares) == [1, 4, 9]
    assert calls(tmp_path / "calls") == 3


def test_an_endless_stream_is_refused(env):
    endless = env.from_source(
        DataGeneratorSource(lambda i: i), WatermarkStrategy.no_watermarks(), "endless"
    )
    with pytest.raises(InvalidProgramError, match="an unbounded stream"):
        endless.map(lambda x: x).cache()
