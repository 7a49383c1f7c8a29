"""A DataFrame as a collection: refused, with the way to its rows."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ArgumentTypeError
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
