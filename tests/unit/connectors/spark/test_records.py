"""Batches of rows and of columns as Arrow tables for Spark."""

from __future__ import annotations

import datetime as dt
import pickle

import polars as pl
import pyarrow as pa
import pytest

from penstock.common import Row, Types
from penstock.connectors.spark.records import ROW_KIND, ColumnRecords, records_of
from penstock.errors import ArgumentError, ArgumentTypeError, InvalidProgramError, RecordError
from penstock.sql import types as t
from penstock.table import EnvironmentSettings, TableEnvironment

NUMBER = t.BigIntType(nullable=False)


def test_columns_get_their_names_and_the_types_of_spark():
    records = pickle.loads(pickle.dumps(ColumnRecords(["n", "at"], [NUMBER, t.TimestampType(3)])))
    at = dt.datetime(2026, 3, 1, 9)
    frame = pl.DataFrame({"c0": [1], "c1": [at]}, schema={"c0": pl.Int64, "c1": pl.Datetime("ms")})
    table = records.table(frame)
    assert table.schema == pa.schema(
        [pa.field("n", pa.int64(), nullable=False), ("at", pa.timestamp("us"))]
    )
    assert table.to_pylist() == [{"n": 1, "at": at}]
    assert [field.nullable for field in records.types] == [False, True]


def test_the_kinds_of_changes_are_a_column_if_they_are_asked_for():
    records = ColumnRecords(["n"], [NUMBER], row_kinds=True)
    changes = pl.DataFrame(
        {"c0": [1, 1, 2, 2], "$kind": [0, 1, 2, 3]}, schema={"c0": pl.Int64, "$kind": pl.Int8}
    )
    assert records.table(changes).to_pydict() == {
        ROW_KIND: ["+I", "-U", "+U", "-D"],
        "n": [1, 1, 2, 2],
    }
    inserts = changes.select("c0")
    assert records.table(inserts)[ROW_KIND].to_pylist() == ["+I"] * 4
    with pytest.raises(ArgumentError, match="column '_row_kind' exists"):
        ColumnRecords([ROW_KIND], [NUMBER], row_kinds=True)


def test_a_value_that_spark_cannot_have_is_refused_by_its_column():
    records = ColumnRecords(["at"], [t.TimestampType(9)])
    frame = pl.DataFrame({"c0": pl.Series([1], dtype=pl.Int64).cast(pl.Datetime("ns"))})
    with pytest.raises(RecordError, match="column 'at' cannot be given to Spark"):
        records.table(frame)


def test_a_record_that_does_not_fit_its_type_is_refused():
    records = records_of(Types.ROW_NAMED(["n"], [Types.LONG()]), "SparkSink")
    assert records.table([Row(n=1), (2,), {"n": None}])["n"].to_pylist() == [1, 2, None]
    with pytest.raises(RecordError, match="does not match its column type"):
        records.table([("text",)])
    with pytest.raises(ArgumentTypeError, match="SparkSink needs the type"):
        records_of(None, "SparkSink")


def test_an_unbounded_query_has_no_result_as_a_dataframe():
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.execute_sql("CREATE TABLE endless (n INT) WITH ('connector' = 'datagen')")
    endless = env.sql_query("SELECT * FROM endless")
    with pytest.raises(InvalidProgramError, match=r"to_spark\(\) would never end") as raised:
        endless.to_spark()
    assert "foreach_checkpoint" in str(raised.value)
    with pytest.raises(ArgumentTypeError, match="session must be a SparkSession"):
        endless.to_spark("local")
