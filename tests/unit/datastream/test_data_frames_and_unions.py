"""Two mistakes that are easy to make: a DataFrame as a collection, and a union with a stream without timestamps."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from penstock.common import Time, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import ArgumentTypeError, InvalidProgramError
from penstock.table import StreamTableEnvironment

ROWS = [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("frame", "named", "rows"),
    [
        (pd.DataFrame(ROWS, columns=["n", "t"]), "pandas DataFrame", "df.itertuples("),
        (pl.DataFrame(ROWS, schema=["n", "t"], orient="row"), "polars DataFrame", "df.iter_rows()"),
        (pl.LazyFrame({"n": [1]}), "polars LazyFrame", "df.collect().iter_rows()"),
        (pa.table({"n": [1]}), "pyarrow Table", "df.to_pandas()"),
    ],
    ids=["pandas", "polars", "lazy polars", "pyarrow"],
)
def test_a_data_frame_is_refused_with_the_way_to_its_rows(
    frame: Any, named: str, rows: str
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    for method in (env.from_collection, StreamTableEnvironment.create(env).from_elements):
        with pytest.raises(ArgumentTypeError, match=f"got a {named}") as raised:
            method(frame)
        assert "from_pandas(" in raised.value.hint
        assert rows in raised.value.hint


def test_rows_of_a_data_frame_are_a_collection() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    frame = pd.DataFrame(ROWS, columns=["n", "t"])
    env.from_collection(frame.itertuples(index=False, name=None))
    env.from_collection(pl.from_pandas(frame).iter_rows())


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def numbers(env: StreamExecutionEnvironment, *, timed: bool, name: str) -> DataStream:
    stream = env.from_collection([1, 2]).map(lambda n: n).name(name)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return stream.assign_timestamps_and_watermarks(strategy) if timed else stream


def windowed(stream: DataStream) -> None:
    stream.key_by(lambda n: n).window(TumblingEventTimeWindows.of(Time.seconds(1)))


def test_a_union_names_the_input_without_timestamps(env: StreamExecutionEnvironment) -> None:
    timed = numbers(env, timed=True, name="clicks")
    bare = numbers(env, timed=False, name="views").rebalance()
    with pytest.raises(
        InvalidProgramError, match="input 2 of a union before it, 'views', has none"
    ):
        windowed(timed.union(bare).map(lambda n: n))
    with pytest.raises(
        InvalidProgramError, match="input 1 of a union before it, 'views', has none"
    ):
        windowed(timed.union(bare.union(timed)))


def test_a_union_of_streams_without_timestamps_is_refused_as_any_stream(
    env: StreamExecutionEnvironment,
) -> None:
    bare = numbers(env, timed=False, name="views")
    with pytest.raises(InvalidProgramError, match="no step before it assigns them"):
        windowed(bare.union(numbers(env, timed=False, name="clicks")))


def test_timestamps_may_be_assigned_after_a_union_or_in_each_input(
    env: StreamExecutionEnvironment,
) -> None:
    timed, bare = (numbers(env, timed=each, name="n") for each in (True, False))
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    windowed(timed.union(bare).assign_timestamps_and_watermarks(strategy))
    windowed(timed.union(numbers(env, timed=True, name="m")))
