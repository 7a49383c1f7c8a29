"""The types of DataFrames in SQL and back. Spark need not run: a schema is data."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as s

from penstock.errors import ArgumentError, RecordError, UnsupportedOperationError
from penstock.runtime.columnar.arrow_columns import arrow_schema
from penstock.spark.data_frame_types import (
    quoted,
    row_type_of,
    spark_arrow_schema,
    spark_schema,
    spark_table,
)
from penstock.sql import types as t
from penstock.sql.parse.types import data_type_of
from tests.builders.cases import check_all

# Spark's type, and ours; both ways unless there is a third: what comes back.
CASES: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("boolean",),
    "TINYINT": ("tinyint",),
    "SMALLINT": ("smallint",),
    "INT": ("int",),
    "BIGINT": ("bigint",),
    "FLOAT": ("float",),
    "DOUBLE": ("double",),
    "DECIMAL(10, 2)": ("decimal(10,2)",),
    "DECIMAL(38, 38)": ("decimal(38,38)",),
    "STRING": ("string",),
    "CHAR(3)": ("string", "STRING"),
    "VARCHAR(10)": ("string", "STRING"),
    "BYTES": ("binary",),
    "BINARY(4)": ("binary", "BYTES"),
    "DATE": ("date",),
    "TIME(0)": ("time(0)",),
    "TIME(6)": ("time(6)",),
    "TIME(9)": ("time(6)", "TIME(6)"),
    "TIMESTAMP(6)": ("timestamp_ntz",),
    "TIMESTAMP(3)": ("timestamp_ntz", "TIMESTAMP(6)"),
    "TIMESTAMP(9)": ("timestamp_ntz", "TIMESTAMP(6)"),
    "TIMESTAMP_LTZ(6)": ("timestamp",),
    "TIMESTAMP_LTZ(3)": ("timestamp", "TIMESTAMP_LTZ(6)"),
    "INTERVAL DAY TO SECOND": ("interval day to second",),
    "INTERVAL HOUR TO MINUTE": ("interval hour to minute",),
    "INTERVAL MINUTE": ("interval minute",),
    "INTERVAL YEAR TO MONTH": ("interval year to month",),
    "INTERVAL MONTH": ("interval month",),
    "ARRAY<BIGINT NOT NULL>": ("array<bigint>",),
    "MAP<STRING NOT NULL, ARRAY<DOUBLE>>": ("map<string,array<double>>",),
    "MAP<STRING, INT>": ("map<string,int>", "MAP<STRING NOT NULL, INT>"),
    "MULTISET<STRING>": ("map<string,int>", "MAP<STRING NOT NULL, INT NOT NULL>"),
    "ROW<`a` INT NOT NULL, `b` ROW<`c` STRING>>": ("struct<a:int,b:struct<c:string>>",),
}


def to_spark_and_back(kind: t.DataType) -> t.DataType:
    (field,) = row_type_of(spark_schema(["c"], [kind])).fields
    return field.data_type


def test_types_have_their_counterparts() -> None:
    def check(text: str) -> None:
        kind = data_type_of(text)
        shown, *back = CASES[text]
        (field,) = spark_schema(["c"], [kind]).fields
        assert field.dataType.simpleString() == shown
        assert field.nullable
        assert to_spark_and_back(kind) == data_type_of(back[0] if back else text)
        assert not to_spark_and_back(kind.not_null()).is_nullable

    check_all({text: text for text in CASES}, check)


def test_the_type_of_null_is_itself() -> None:
    assert spark_schema(["c"], [t.NullType()]).simpleString() == "struct<c:void>"
    assert to_spark_and_back(t.NullType()) == t.NullType()


LEAVES = st.sampled_from([data_type_of(text) for text, rest in CASES.items() if len(rest) == 1])
TYPES = st.recursive(
    st.builds(lambda kind, nullable: kind._with_nullable(nullable), LEAVES, st.booleans()),
    lambda inner: st.one_of(
        st.builds(t.ArrayType, inner, st.booleans()),
        st.builds(lambda value: t.MapType(t.VarCharType(t.LONGEST, nullable=False), value), inner),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: t.RowType([t.RowField(f"f{at}", each) for at, each in enumerate(kinds)])
        ),
    ),
    max_leaves=6,
)


@given(TYPES)
def test_nullability_survives_at_any_depth(kind: t.DataType) -> None:
    assert to_spark_and_back(kind) == kind


def test_the_length_of_a_column_that_spark_reads_as_a_string_is_kept() -> None:
    fields = [
        s.StructField(name, s.StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": length})
        for name, length in [("a", "varchar(7)"), ("b", "char(2)"), ("c", "array<varchar(3)>")]
    ]
    assert str(row_type_of(s.StructType(fields))) == "ROW<`a` VARCHAR(7), `b` CHAR(2), `c` STRING>"
    kept = s.StructType([s.StructField("a", s.VarcharType(7)), s.StructField("b", s.CharType(2))])
    assert str(row_type_of(kept)) == "ROW<`a` VARCHAR(7), `b` CHAR(2)>"


@pytest.mark.parametrize(
    ("kind", "where", "hint"),
    [
        pytest.param(s.VariantType(), "c", "to_json", id="variant"),
        pytest.param(s.CalendarIntervalType(), "c", "days to seconds", id="calendar interval"),
        pytest.param(s.ArrayType(s.VariantType()), "c[]", "to_json", id="in an array"),
        pytest.param(
            s.MapType(s.StringType(), s.VariantType()), "c.value", "to_json", id="in a map"
        ),
        pytest.param(
            s.StructType([s.StructField("d", s.VariantType())]), "c.d", "to_json", id="in a struct"
        ),
        pytest.param(s.StructType([]), "c", "withColumn", id="struct without fields"),
        pytest.param(s.GeometryType(4326), "c", "st_asbinary", id="geometry"),
    ],
)
def test_a_type_of_spark_without_counterpart_is_refused_by_its_column(kind, where, hint) -> None:
    with pytest.raises(UnsupportedOperationError, match="no counterpart in SQL") as refused:
        row_type_of(s.StructType([s.StructField("c", kind)]))
    assert refused.value.message.startswith(f"column '{where}' has Spark type ")
    assert hint in str(refused.value.hint)


def test_a_type_of_sql_without_counterpart_is_refused_by_its_column() -> None:
    inside = t.RowType([t.RowField("d", t.ListViewType(t.IntType()))])
    with pytest.raises(UnsupportedOperationError, match=r"column 'c\.d' has type"):
        spark_schema(["c"], [inside])


def test_columns_with_the_same_name_are_refused() -> None:
    twice = [s.StructField("a", s.LongType()), s.StructField("a", s.StringType())]
    with pytest.raises(ArgumentError, match="the DataFrame has several columns 'a'") as refused:
        row_type_of(s.StructType(twice))
    assert "toDF" in str(refused.value.hint)
    with pytest.raises(ArgumentError, match="column 'b' has several fields 'a'"):
        row_type_of(s.StructType([s.StructField("b", s.StructType(twice))]))
    with pytest.raises(ArgumentError, match="the table has several columns 'a'"):
        spark_schema(["a", "a"], [t.IntType(), t.IntType()])


def test_a_dataframe_without_columns_is_refused() -> None:
    with pytest.raises(ArgumentError, match="the DataFrame has no columns"):
        row_type_of(s.StructType([]))


def table_of(kinds: dict[str, t.DataType], *columns: list[object]) -> pa.Table:
    return pa.table(list(columns), schema=arrow_schema(list(kinds), list(kinds.values())))


def test_columns_are_given_to_spark_as_it_takes_them() -> None:
    kinds: dict[str, t.DataType] = {
        "at": t.LocalZonedTimestampType(3),
        "local": t.TimestampType(9),
        "span": t.DayTimeIntervalType(),
        "months": t.YearMonthIntervalType(),
        "clock": t.TimeType(3),
        "nested": data_type_of("MAP<STRING NOT NULL, ARRAY<TIMESTAMP(3)>>"),
    }
    noon = dt.datetime(2026, 3, 1, 12, 0, 0, 250_000)
    table = table_of(
        kinds,
        [noon.replace(tzinfo=dt.UTC), None],
        [noon, None],
        [dt.timedelta(days=1, milliseconds=3), None],
        [14, None],
        [dt.time(1, 2, 3), None],
        [[("k", [noon])], None],
    )
    schema = spark_schema(list(kinds), list(kinds.values()))
    given_to_spark = spark_table(table, schema)
    assert given_to_spark.schema == spark_arrow_schema(schema)
    assert given_to_spark.schema.field("months").type == pa.int32()
    assert given_to_spark.schema.field("at").type == pa.timestamp("us", "UTC")
    assert given_to_spark.to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        pytest.param(t.TimestampType(9), pa.scalar(1_001, pa.timestamp("ns")), id="timestamp"),
        pytest.param(t.TimeType(9), pa.scalar(1_001, pa.time64("ns")), id="time of day"),
    ],
)
def test_nanoseconds_are_not_dropped(kind: t.DataType, value: pa.Scalar) -> None:
    table = table_of({"at": kind}, [value])
    with pytest.raises(RecordError, match="column 'at' cannot be given to Spark") as refused:
        spark_table(table, spark_schema(["at"], [kind]))
    assert "CAST" in str(refused.value.hint)


def test_names_are_quoted() -> None:
    assert quoted("a`b.c") == "`a``b.c`"
