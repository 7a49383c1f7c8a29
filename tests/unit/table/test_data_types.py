"""DataTypes: PyFlink's types of columns, and what formats make of them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock.errors import ArgumentError, ArgumentTypeError, UnsupportedOperationError
from penstock.formats.base.field_types import FieldType, field_type
from penstock.formats.csv.schema import CsvSchema
from penstock.pyflink_compat import pyflink_names
from penstock.sql.types import DataType
from penstock.table import DataTypes

D = DataTypes


@pytest.mark.parametrize(
    ("data_type", "shown"),
    [
        (D.INT(), "IntType(true)"),
        (D.INT(nullable=False), "IntType(false)"),
        (D.STRING(), "VarCharType(2147483647, true)"),
        (D.CHAR(3, False), "CharType(3, false)"),
        (D.BYTES(), "VarBinaryType(2147483647, true)"),
        (D.DECIMAL(10, 2), "DecimalType(10, 2, true)"),
        (D.TIME(), "TimeType(0, true)"),
        (D.TIMESTAMP(), "TimestampType(6, true)"),
        (D.TIMESTAMP_LTZ(3, False), "LocalZonedTimestampType(3, false)"),
        (D.ARRAY(D.INT()), "ArrayType(IntType(true), true)"),
        (D.MULTISET(D.INT()), "MultisetType(IntType(true), true)"),
        (
            D.MAP(D.STRING(), D.BIGINT()),
            "MapType(VarCharType(2147483647, true), BigIntType(true), true)",
        ),
        (
            D.ROW([D.FIELD("a", D.INT()), D.FIELD("b", D.DATE(), "born")]),
            "RowType(RowField(a, IntType(true), ...),RowField(b, DateType(true), born))",
        ),
        (D.NULL(), "NullType(true)"),
    ],
    ids=str,
)
def test_types_show_as_in_pyflink(data_type: DataType, shown: str) -> None:
    assert repr(data_type) == shown


@pytest.mark.parametrize(
    ("data_type", "shown"),
    [
        (D.BIGINT(False), "BIGINT NOT NULL"),
        (D.STRING(), "STRING"),
        (D.VARCHAR(3), "VARCHAR(3)"),
        (D.BYTES(), "BYTES"),
        (D.BINARY(2), "BINARY(2)"),
        (D.DECIMAL(10, 2), "DECIMAL(10, 2)"),
        (D.TIMESTAMP_LTZ(3), "TIMESTAMP_LTZ(3)"),
        (D.INTERVAL(D.DAY(), D.SECOND(3)), "INTERVAL DAY(2) TO SECOND(3)"),
        (D.INTERVAL(D.HOUR()), "INTERVAL HOUR"),
        (D.INTERVAL(D.YEAR(4), D.MONTH()), "INTERVAL YEAR(4) TO MONTH"),
        (D.INTERVAL(D.MONTH()), "INTERVAL MONTH"),
        (D.MAP(D.STRING(False), D.ARRAY(D.INT())), "MAP<STRING NOT NULL, ARRAY<INT>>"),
        (D.ROW([D.FIELD("a`b", D.INT())], False), "ROW<`a``b` INT> NOT NULL"),
    ],
)
def test_types_have_the_text_of_sql(data_type: DataType, shown: str) -> None:
    assert str(data_type) == shown


def test_types_are_equal_by_all_their_parts() -> None:
    assert D.DECIMAL(10, 2) == D.DECIMAL(10, 2)
    assert hash(D.DECIMAL(10, 2)) == hash(D.DECIMAL(10, 2))
    assert D.DECIMAL(10, 2) != D.DECIMAL(10, 3)
    assert D.INT() != D.INT(False)
    assert D.TIMESTAMP() != D.TIMESTAMP_LTZ()
    assert pickle.loads(pickle.dumps(D.ARRAY(D.INT()))) == D.ARRAY(D.INT())


def test_not_null_is_a_type_of_its_own() -> None:
    row = D.ROW([D.FIELD("a", D.INT())])
    required = row.not_null()
    required.add("b", D.STRING())
    assert (row.is_nullable, row.names) == (True, ["a"])
    assert (required.is_nullable, required.names) == (False, ["a", "b"])
    assert required.nullable().is_nullable


def test_fields_of_a_row_are_found_by_name_number_and_slice() -> None:
    row = D.ROW([D.FIELD("a", D.INT()), D.FIELD("b", D.STRING())])
    assert (len(row), row.field_names(), row.field_types()) == (
        2,
        ["a", "b"],
        [D.INT(), D.STRING()],
    )
    assert row["b"] is row[1]
    assert row[:1] == D.ROW([D.FIELD("a", D.INT())])
    assert str(row["a"]) == "RowField(a, INT)"
    with pytest.raises(KeyError, match="no field named c"):
        row["c"]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: D.DECIMAL(39, 2), ArgumentError),
        (lambda: D.DECIMAL(5, 6), ArgumentError),
        (lambda: D.TIMESTAMP(10), ArgumentError),
        (lambda: D.VARCHAR(0), ArgumentError),
        (lambda: D.CHAR("3"), ArgumentTypeError),
        (lambda: D.ARRAY(int), ArgumentTypeError),
        (lambda: D.ROW([("a", D.INT())]), ArgumentTypeError),
        (lambda: D.FIELD(1, D.INT()), ArgumentTypeError),
        (lambda: D.INTERVAL(D.YEAR(), D.DAY()), ArgumentError),
        (lambda: D.INT().bridged_to("java.lang.Integer"), UnsupportedOperationError),
    ],
)
def test_invalid_types_are_rejected(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [
        (D.VARCHAR(5), FieldType("STRING")),
        (D.TINYINT(), FieldType("TINYINT")),
        (D.BIGINT(), FieldType("BIGINT")),
        (D.VARBINARY(5), FieldType("BYTES")),
        (D.DECIMAL(10, 2), FieldType("DECIMAL", (), 10, 2)),
        (D.TIMESTAMP_LTZ(), FieldType("TIMESTAMP_LTZ")),
        (D.ARRAY(D.DATE()), FieldType("ARRAY", (("element", FieldType("DATE")),))),
        (
            D.ROW([D.FIELD("a", D.INT()), D.FIELD("b", D.TIME())]),
            FieldType("ROW", (("a", FieldType("INT")), ("b", FieldType("TIME")))),
        ),
    ],
    ids=str,
)
def test_formats_know_the_types(data_type: DataType, expected: FieldType) -> None:
    found = field_type(data_type)
    assert (found.kind, found.names) == (expected.kind, expected.names)
    if found.kind == "DECIMAL":
        assert (found.precision, found.scale) == (10, 2)
    if found.fields:
        assert [kind.kind for _, kind in found.fields] == [kind.kind for _, kind in expected.fields]


def test_no_format_has_bags() -> None:
    with pytest.raises(ArgumentTypeError, match="unknown column type"):
        field_type(D.MULTISET(D.INT()))


def test_a_csv_schema_is_made_of_data_types() -> None:
    schema = (
        CsvSchema.builder()
        .add_number_column("id", D.BIGINT())
        .add_array_column("tags", element_type=D.STRING())
        .build()
    )
    assert schema.size() == 2


def test_a_program_for_pyflink_imports_them() -> None:
    with pyflink_names():
        from pyflink.table import DataTypes as Theirs
        from pyflink.table import StreamTableEnvironment
        from pyflink.table.types import RowType
    assert Theirs is DataTypes
    assert RowType.__module__ == "penstock.sql.types"
    assert StreamTableEnvironment.__module__ == "penstock.table.stream_table_environment"
