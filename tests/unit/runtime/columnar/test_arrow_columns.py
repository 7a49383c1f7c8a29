"""Columns to Arrow and back: every type, with NULLs and without, in the same memory where the types are the same."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common.types import Row, RowKind
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError, UnsupportedOperationError
from penstock.graph.operator_specs.columnar.common import KIND
from penstock.runtime.columnar.arrow_columns import arrow_schema, arrow_table, frame_of_arrow
from penstock.runtime.columnar.arrow_types import arrow_field, arrow_type, type_of_arrow
from penstock.runtime.columnar.changelogs import final_frame
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.sql import types as t
from penstock.sql.execution.data_frames import _type_of
from penstock.sql.results.pandas_results import final_rows
from tests.builders.column_types import column_types, values_of
from tests.builders.examples import examples

STRING = t.VarCharType(t.LONGEST)


@st.composite
def tables(draw):
    """A table with columns of some types, and the types."""
    types = draw(st.lists(column_types, min_size=1, max_size=3))
    height = draw(st.integers(0, 4))
    columns = [draw(st.lists(values_of(each), min_size=height, max_size=height)) for each in types]
    schema = arrow_schema([f"a{at}" for at in range(len(types))], types)
    arrays = [pa.array(*pair) for pair in zip(columns, schema.types, strict=True)]
    return pa.table(arrays, schema=schema), types


@settings(max_examples=examples(300))
@given(tables())
def test_a_table_comes_back_as_it_was(made) -> None:
    table, types = made
    frame = frame_of_arrow(table, types)
    assert [frame[name].dtype for name in frame.columns] == list(map(dtype_of, types))
    back = arrow_table(frame, table.column_names, types)
    back.validate(full=True)
    assert back.schema.equals(table.schema, check_metadata=True)
    assert back.to_pylist() == table.to_pylist()


@settings(max_examples=examples(300))
@given(tables(), st.data())
def test_a_part_of_a_table_comes_back_too(made, data) -> None:
    table, types = made
    part = table.slice(data.draw(st.integers(0, table.num_rows)), 2)
    back = arrow_table(frame_of_arrow(part, types), table.column_names, types)
    assert back.to_pylist() == part.to_pylist()


@settings(max_examples=examples(300))
@given(column_types)
def test_a_field_says_of_which_type_it_was(kind) -> None:
    field = arrow_field("a", kind)
    assert _type_of(field) == kind
    assert arrow_type(type_of_arrow(field)) == arrow_type(kind)


def test_what_was_noted_does_not_count_any_more_once_the_column_is_another_one() -> None:
    field = arrow_field("a", t.VarCharType(10))
    assert str(_type_of(field)) == "VARCHAR(10)"
    assert str(_type_of(field.with_type(pa.int32()))) == "INT"
    assert str(_type_of(field.with_nullable(False))) == "VARCHAR(10) NOT NULL"


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us")]
)
def test_columns_of_the_same_type_share_their_memory(kind) -> None:
    array = pa.array(range(1000), pa.int64() if kind.bit_width == 64 else pa.int32()).view(kind)
    table = pa.table({"a": array})
    types = [type_of_arrow(field) for field in table.schema]
    back = arrow_table(frame_of_arrow(table, types), ["a"], types).column(0).chunk(0)
    assert back.buffers()[1].address == array.buffers()[1].address


MEANINGS = [
    (pa.uint8(), [1, 255], "SMALLINT"),
    (pa.uint16(), [1, 2**16 - 1], "INT"),
    (pa.uint32(), [1, 2**32 - 1], "BIGINT"),
    (pa.uint64(), [1, 2**64 - 1], "DECIMAL(20, 0)"),
    (pa.float16(), [1.5, None], "FLOAT"),
    (pa.large_string(), ["a", None], "STRING"),
    (pa.string_view(), ["a", None], "STRING"),
    (pa.large_binary(), [b"a", None], "BYTES"),
    (pa.binary_view(), [b"a", None], "BYTES"),
    (pa.binary(2), [b"ab", None], "BINARY(2)"),
    (pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"], "STRING"),
    (pa.decimal256(38, 2), [Decimal("1.25"), None], "DECIMAL(38, 2)"),
    (pa.decimal64(10, 2), [Decimal("1.25"), None], "DECIMAL(10, 2)"),
    (pa.date64(), [dt.date(2024, 2, 29), None], "DATE"),
    (pa.time32("s"), [dt.time(1, 2, 3), None], "TIME(0)"),
    (pa.time32("ms"), [dt.time(1, 2, 3, 4000), None], "TIME(3)"),
    (pa.timestamp("s"), [dt.datetime(2024, 1, 1), None], "TIMESTAMP(0)"),
    (pa.timestamp("us", "Europe/Berlin"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)], "TIMESTAMP_LTZ(6)"),
    (pa.duration("s"), [dt.timedelta(seconds=5), None], "INTERVAL DAY(2) TO SECOND(6)"),
    (pa.list_(pa.int8(), 2), [[1, 2], None], "ARRAY<TINYINT>"),
    (pa.large_list(pa.uint8()), [[1, None], None], "ARRAY<SMALLINT>"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values", "wanted"), MEANINGS, ids=[str(each[0]) for each in MEANINGS]
)
def test_types_that_arrow_has_besides_become_the_next_larger_one(kind, values, wanted) -> None:
    field = pa.field("a", kind)
    assert str(type_of_arrow(field)) == wanted
    found = [type_of_arrow(field)]
    table = pa.table([pa.array(values, kind)], schema=pa.schema([field]))
    assert arrow_table(frame_of_arrow(table, found), ["a"], found)["a"].to_pylist() == values


@pytest.mark.parametrize(
    "kind",
    [
        pa.month_day_nano_interval(),
        pa.decimal256(60, 2),
        pa.decimal128(5, -2),
        pa.dense_union([pa.field("x", pa.int8())]),
        pa.struct([]),
        pa.uuid(),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_types_without_counterpart_are_named(kind, inside) -> None:
    with pytest.raises(UnsupportedOperationError, match="column 'price' has Arrow type") as raised:
        type_of_arrow(pa.field("price", pa.list_(kind) if inside else kind))
    assert str(kind) in str(raised.value)


def refused(error, message, values, kind, wanted):
    with pytest.raises(error, match=message):
        frame_of_arrow(pa.table({"a": pa.array(values, kind)}), [wanted])


def test_values_that_do_not_fit_the_schema_are_refused() -> None:
    no_fit = "column 'a' of Arrow type .* does not fit"
    refused(ArgumentTypeError, no_fit, [300], pa.int64(), t.TinyIntType())
    refused(ArgumentTypeError, no_fit, ["x"], pa.string(), t.IntType())
    refused(ArgumentTypeError, no_fit, [1.5], pa.float64(), t.IntType())
    refused(
        ArgumentTypeError, no_fit, [Decimal("1000.5")], pa.decimal128(9, 1), t.DecimalType(4, 1)
    )
    refused(ArgumentTypeError, no_fit, [1], pa.duration("ns"), t.DayTimeIntervalType())
    refused(
        ArgumentTypeError,
        no_fit,
        [{"x": 1}],
        pa.struct({"x": pa.int8()}),
        t.MapType(STRING, STRING),
    )
    zone = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    refused(ArgumentTypeError, no_fit, [zone], pa.timestamp("us", "UTC"), t.TimestampType(6))
    refused(ArgumentTypeError, no_fit, [zone], pa.timestamp("us"), t.LocalZonedTimestampType(6))


def test_null_is_refused_where_the_type_has_none_also_inside() -> None:
    refused(
        ArgumentError, "column 'a' has 1 NULLs", [1, None], pa.int64(), t.BigIntType(nullable=False)
    )
    never = t.BigIntType(nullable=False)
    refused(
        ArgumentError,
        "column 'a' has 1 NULLs",
        [[1], [None]],
        pa.list_(pa.int64()),
        t.ArrayType(never),
    )
    row = t.RowType([t.RowField("x", never)])
    refused(
        ArgumentError, "column 'a.x' has 1 NULLs", [{"x": None}], pa.struct({"x": pa.int64()}), row
    )
    made = frame_of_arrow(pa.table({"a": pa.array([None], pa.struct({"x": pa.int64()}))}), [row])
    assert made["c0"].to_list() == [None]


def test_a_map_with_a_null_key_is_refused() -> None:
    kind = t.MapType(STRING, t.IntType())
    frame = pl.DataFrame({"c0": [[{"key": None, "value": 1}]]}, schema={"c0": dtype_of(kind)})
    with pytest.raises(RecordError, match="column 'm' cannot be given as map"):
        arrow_table(frame, ["m"], [kind])


# Changelogs

CHANGES = st.lists(
    st.tuples(st.sampled_from(list(RowKind)), st.sampled_from([(1, "a"), (1, "b"), (None, "a")])),
    max_size=12,
)


@settings(max_examples=examples(300))
@given(CHANGES)
def test_columns_are_left_as_rows_are(changes) -> None:
    kinds = list(RowKind)
    frame = pl.DataFrame(
        {
            "c0": [row[0] for _, row in changes],
            "c1": [row[1] for _, row in changes],
            KIND: [kinds.index(kind) for kind, _ in changes],
        },
        schema={"c0": pl.Int64(), "c1": pl.String(), KIND: pl.Int8()},
    )
    left = final_rows([Row.of_kind(kind, *row) for kind, row in changes])
    assert final_frame(frame, [t.BigIntType(), STRING]).rows() == [tuple(row) for row in left]


def test_equal_rows_are_found_whatever_is_in_them() -> None:
    kind = t.MapType(STRING, t.IntType())
    entries = [{"key": "a", "value": 1}, {"key": "b", "value": 2}]
    frame = pl.DataFrame(
        {
            "c0": [entries, entries[::-1], None, None],
            "c1": [float("nan"), float("nan"), 0.0, -0.0],
            "c2": [[{"x": None}], [{"x": None}], [], []],
            KIND: [0, 3, 0, 3],
        },
        schema={"c0": dtype_of(kind), "c1": pl.Float64, "c2": pl.List(pl.Struct({"x": pl.Int8})), KIND: pl.Int8},
    )  # fmt: skip
    row = t.RowType([t.RowField("x", t.TinyIntType())])
    assert final_frame(frame, [kind, t.DoubleType(), t.ArrayType(row)]).height == 0
