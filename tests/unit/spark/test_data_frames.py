"""What is refused in place of a DataFrame. None of these needs Spark."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pytest

from penstock.errors import ArgumentTypeError, UnsupportedOperationError
from penstock.spark.data_frames import check_data_frame


def data_frame_of(package: str) -> Any:
    """Return an object of a class that has the name and the package of a DataFrame."""
    return type("DataFrame", (), {"__module__": package})()


@pytest.mark.parametrize(
    ("value", "shown", "hint"),
    [
        pytest.param([1], "[1] of type list", "pyspark.sql.DataFrame", id="a list"),
        pytest.param(None, "None", "pyspark.sql.DataFrame", id="None"),
        pytest.param(pd.DataFrame({"a": [1]}), "a pandas DataFrame", "from_pandas", id="pandas"),
        pytest.param(pl.DataFrame({"a": [1]}), "a polars DataFrame", "from_polars", id="polars"),
        pytest.param(
            data_frame_of("pyspark.pandas.frame"),
            "a pyspark.pandas DataFrame",
            "df.to_spark()",
            id="pandas on Spark",
        ),
    ],
)
def test_what_is_not_a_dataframe_of_spark_is_refused(value, shown, hint):
    with pytest.raises(ArgumentTypeError) as refused:
        check_data_frame(value, "from_spark")
    assert refused.value.message == f"from_spark() takes a DataFrame of Spark, got {shown}"
    assert hint in str(refused.value.hint)


def test_a_dataframe_of_spark_connect_is_refused():
    with pytest.raises(UnsupportedOperationError, match="Spark Connect") as refused:
        check_data_frame(data_frame_of("pyspark.sql.connect.dataframe"), "from_spark")
    assert "in another process" in str(refused.value.detail)
