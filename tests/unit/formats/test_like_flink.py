"""What Flink's formats write and read, recorded with PyFlink 2.3 on Java 17.

The tables were made by jobs with FileSink.for_bulk_format and CsvBulkWriters, ParquetBulkWriters, OrcBulkWriters (types as in the
schemas here, values through Types.BIG_DEC() and so on), FileSource with CsvReaderFormat, and by calling the JVM's
CsvRowSerializationSchema, CsvRowDeserializationSchema and JsonRowSerializationSchema with rows. Parquet and ORC files were read with pyarrow.
"""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal

import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from penstock.common import Instant, Row, Types
from penstock.connectors.filesystem.source import FileSource
from penstock.errors import ArgumentTypeError, RecordError
from penstock.formats.columnar.files import OrcBulkWriters, ParquetBulkWriters
from penstock.formats.csv.files import CsvBulkWriters, CsvReaderFormat
from penstock.formats.csv.messages import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.formats.csv.schema import CsvSchema
from penstock.formats.json.rows import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.table import DataTypes
from tests.builders.connector_helpers import read_all

SMALL, MONEY, FINE = DataTypes.DECIMAL(2, 0), DataTypes.DECIMAL(5, 2), DataTypes.DECIMAL(38, 18)


def written(schema, *rows):
    out = io.BytesIO()
    writer = CsvBulkWriters.for_schema(schema).create(out)
    writer.add_elements(list(rows))
    writer.finish()
    return out.getvalue().decode().removesuffix("\n").split("\n")


# Decimals


@pytest.mark.parametrize(
    ("number", "line"),
    [
        ("1.5", "2,1.5,1.5"),
        ("2.5", "3,2.5,2.5"),
        ("-1.5", "-2,-1.5,-1.5"),
        ("0.49", "0,0.49,0.49"),
        ("1.005", "1,1.01,1.005"),
        ("123.456", ",123.46,123.456"),
        ("99.5", ",99.5,99.5"),
        ("999.995", ",,999.995"),
        ("1E+3", ",,1E+3"),
        ("10", "1E+1,1E+1,1E+1"),
        ("1E-10", "0,0,1E-10"),
        ("-0.0", "0,0,0"),
        (None, ",,"),
    ],
)
def test_a_decimal_in_csv_is_rounded_to_its_scale_or_null(number, line):
    builder = CsvSchema.builder()
    for name, kind in {"a": SMALL, "b": MONEY, "c": FINE}.items():
        builder.add_number_column(name, kind)
    value = None if number is None else Decimal(number)
    assert written(builder.build(), Row(value, value, value)) == [line]


def test_a_decimal_that_is_read_has_its_scale(tmp_path):
    (tmp_path / "f").write_text("1.5,1.005\n2.5,123.456\n99.5,7\n7,999.995\n-1.5,1e2\n")
    schema = CsvSchema.builder().add_number_column("a", SMALL).add_number_column("b", MONEY).build()
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), tmp_path)
    (rows,) = read_all(source.build())
    assert [tuple(map(str, row)) for row in rows] == [
        ("2", "1.01"),
        ("3", "123.46"),
        ("None", "7.00"),
        ("7", "None"),
        ("-2", "100.00"),
    ]


@pytest.mark.parametrize("text", ["x", "NaN", "Infinity", "", "1.5.5"])
def test_invalid_decimal_is_a_malformed_record(text):
    row = Types.ROW_NAMED(["a"], [Types.BIG_DEC()])
    for schema in (row, DataTypes.ROW([DataTypes.FIELD("a", MONEY)])):
        with pytest.raises(RecordError, match=r"cannot read .* as DECIMAL"):
            CsvRowDeserializationSchema.Builder(schema).build().deserialize(f'"{text}"'.encode())


@pytest.mark.parametrize("value", ["x", Decimal("NaN"), b"1"])
def test_invalid_number_is_not_written(value):
    schema = CsvSchema.builder().add_number_column("a", MONEY).build()
    with pytest.raises(RecordError, match="does not match its column"):
        written(schema, Row(value))


NESTED = DataTypes.ROW(
    [
        DataTypes.FIELD("a", DataTypes.ARRAY(DataTypes.DECIMAL(4, 1))),
        DataTypes.FIELD("m", DataTypes.MAP(DataTypes.STRING(), DataTypes.DECIMAL(4, 1))),
        DataTypes.FIELD("r", DataTypes.ROW([DataTypes.FIELD("x", DataTypes.DECIMAL(4, 1))])),
    ]
)
DECIMALS = DataTypes.ROW(
    [
        DataTypes.FIELD("d", MONEY),
        DataTypes.FIELD("e", SMALL),
        DataTypes.FIELD("h", FINE),
        DataTypes.FIELD("c", DataTypes.CHAR(5)),
        DataTypes.FIELD("v", DataTypes.VARCHAR(3)),
    ]
)
DECIMAL_ROWS = [
    Row(Decimal("1.005"), Decimal("1.5"), Decimal("1.5"), "ab", "abcdef"),
    Row(Decimal("123.456"), Decimal("2.5"), Decimal("1E+3"), "abcdefgh", "x"),
    Row(Decimal("999.995"), Decimal("99.5"), Decimal("1E-10"), "", ""),
    Row(None, None, None, None, None),
]


def stored(factory, rows):
    out = io.BytesIO()
    writer = factory.create(out)
    writer.add_elements(rows)
    writer.finish()
    out.seek(0)
    if out.getvalue().startswith(b"PAR1"):
        return pq.read_table(out).to_pylist()
    return orc.ORCFile(out).read().to_pylist()


@pytest.mark.parametrize(
    ("writers", "texts"),
    [
        pytest.param(
            ParquetBulkWriters,
            [("ab", "abcdef"), ("abcdefgh", "x"), ("", ""), (None, None)],
            id="parquet",
        ),
        pytest.param(
            OrcBulkWriters,
            [("ab   ", "abc"), ("abcde", "x"), ("     ", ""), (None, None)],
            id="orc",
        ),
    ],
)
def test_columns_hold_decimals_of_their_scale_and_text_of_its_length(writers, texts):
    found = stored(writers.for_row_type(DECIMALS), DECIMAL_ROWS)
    assert [(row["d"], row["e"], row["h"]) for row in found] == [
        (Decimal("1.01"), Decimal(2), Decimal("1.500000000000000000")),
        (Decimal("123.46"), Decimal(3), Decimal("1000.000000000000000000")),
        (None, None, Decimal("1.00000000E-10")),
        (None, None, None),
    ]
    assert [(row["c"], row["v"]) for row in found] == texts


@pytest.mark.parametrize("writers", [ParquetBulkWriters, OrcBulkWriters])
def test_decimals_within_other_values_have_their_scale(writers):
    row = Row([Decimal("1.25"), Decimal(7)], {"k": Decimal("0.05")}, Row(Decimal("2.25")))
    assert stored(writers.for_row_type(NESTED), [row]) == [
        {
            "a": [Decimal("1.3"), Decimal("7.0")],
            "m": [("k", Decimal("0.1"))],
            "r": {"x": Decimal("2.3")},
        }
    ]


def test_a_decimal_without_a_declared_scale_has_18_digits_behind_the_point():
    row = Types.ROW_NAMED(["a", "b"], [Types.BIG_DEC(), Types.BIG_INT()])
    found = stored(ParquetBulkWriters.for_row_type(row), [Row(Decimal("1.5"), 10**20)])
    assert found == [{"a": Decimal("1.500000000000000000"), "b": Decimal(10**20)}]


@pytest.mark.parametrize("writers", [ParquetBulkWriters, OrcBulkWriters])
@pytest.mark.parametrize("utc", [False, True])
def test_an_instant_is_stored_as_a_point_in_time(writers, utc):
    row = Types.ROW_NAMED(["i"], [Types.INSTANT()])
    options = {"utc_timestamp": utc} if writers is ParquetBulkWriters else {}
    (found,) = stored(writers.for_row_type(row, **options), [Row(Instant(1709296496, 123_456_789))])
    moment = dt.datetime(2024, 3, 1, 12, 34, 56, 123456, tzinfo=dt.UTC)
    assert found["i"] == moment


# Text of numbers


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (0.0, "0.0,0.0"),
        (-0.0, "-0.0,-0.0"),
        (1.0, "1.0,1.0"),
        (1 / 3, "0.33333334,0.3333333333333333"),
        (9999999.0, "9999999.0,9999999.0"),
        (1e7, "1.0E7,1.0E7"),
        (
            123456789.0,
            "1.2345679E8,1.23456789E8",
        ),  # Java before 19: 1.23456792E8, one digit too many
        (1e22, "1.0E22,1.0E22"),
        (0.001, "0.001,0.001"),
        (0.0009, "9.0E-4,9.0E-4"),
        (1.7976931348623157e308, "Infinity,1.7976931348623157E308"),
        (float("nan"), "NaN,NaN"),
        (float("-inf"), "-Infinity,-Infinity"),
        (3.4028235e38, "3.4028235E38,3.4028235E38"),
    ],
)
def test_floats_in_csv_look_as_java_shows_them(number, line):
    schema = (
        CsvSchema.builder()
        .add_number_column("f", DataTypes.FLOAT())
        .add_number_column("d", DataTypes.DOUBLE())
        .build()
    )
    assert written(schema, Row(number, number)) == [line]


# Quotes

TEXTS = {
    "": "", "plain": "plain", "with space": '"with space"', " lead": '" lead"', "a,b": '"a,b"', "a;b": "a;b",
    'q"q': '"q""q"', "cr\rx": '"cr\rx"', "tab\tx": '"tab\tx"', "#hash": '"#hash"', "'single'": "\"'single'\"",
    "back\\slash": '"back\\slash"', "ünï": "ünï", "1.5": "1.5", "a|b": "a|b", "a-b": "a-b", "a+b": '"a+b"', "a_b": "a_b",
    "a@b": "a@b", "(a)": '"(a)"', "[a]": "[a]", "{a}": "{a}", "%": '"%"', "x" * 24: "x" * 24, "x" * 25: '"' + "x" * 25 + '"',
    "\xa0": "\xa0", "-5": "-5", "=1+1": '"=1+1"', "\0": '"\0"', "~": "~", "ab\x1fc": '"ab\x1fc"',
}  # fmt: skip
TEXTS_WITH_PIPES = {
    "": '"z"', "plain": '"plain"', "1": '"1"', "{a}": '"{a}"', "\xa0": "\xa0", "~": "~", "ünï": '"ünï"', "a|b": '"a|b"',
}  # fmt: skip


def texts_schema(**options):
    builder = CsvSchema.builder().add_string_column("s").add_string_column("t")
    for name, value in options.items():
        getattr(builder, name)(*value)
    return builder.build()


@pytest.mark.parametrize(("text", "cell"), TEXTS.items(), ids=map(repr, TEXTS))
def test_texts_in_csv_are_quoted_where_flink_quotes_them(text, cell):
    assert written(texts_schema(), Row(text, "z")) == [f"{cell},z"]
    escaped = cell.replace("\\", "\\\\")
    assert written(texts_schema(set_escape_char=("\\",)), Row(text, "z")) == [f"{escaped},z"]


@pytest.mark.parametrize(("text", "cell"), list(TEXTS_WITH_PIPES.items())[1:])
def test_the_separator_decides_which_texts_are_quoted(text, cell):
    schema = texts_schema(set_column_separator=("|",), set_null_value=("n/a",), set_use_header=())
    assert written(schema, Row(text, "z"), Row(None, "z")) == ['"s"|"t"', f'{cell}|"z"', 'n/a|"z"']


def test_without_quotes_a_text_with_a_separator_is_refused_unless_it_can_be_escaped():
    with pytest.raises(RecordError, match="contains a separator"):
        written(texts_schema(disable_quote_char=()), Row("a,b", "z"))
    schema = texts_schema(disable_quote_char=(), set_escape_char=("\\",))
    assert written(schema, Row("a,b\\", "z")) == ["a\\,b\\\\,z"]


# Arrays and rows


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (Row(["a", "b c"], [1.0, 2.5], [Decimal("1.25"), Decimal(3)]), '"a;b c","1.0,2.5",1.3;3'),
        (Row([], [], []), ",,"),
        (Row(None, None, None), ",,"),
        (Row(["x;y", 'q"'], [1e10], [Decimal(10)]), '"x;y;q""",1.0E10,"1E+1"'),
        (Row([None, "a"], [3.0, 1.0], [Decimal(100)]), ';a,"3.0,1.0","1E+2"'),
    ],
)
def test_arrays_in_csv(row, line):
    schema = (
        CsvSchema.builder()
        .add_array_column("s")
        .add_array_column("d", ",", DataTypes.DOUBLE())
        .add_array_column("e", ";", DataTypes.DECIMAL(4, 1))
        .build()
    )
    assert written(schema, row) == [line]


INNER = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()])
OUTER = Types.ROW_NAMED(["a", "r"], [Types.STRING(), INNER])


@pytest.mark.parametrize(
    ("row", "options", "line"),
    [
        (Row("q", Row(1, "b c")), {}, b'q,"1;b c"\n'),
        (Row("q", Row(None, "b;c")), {}, b"q,;b;c\n"),
        (Row("q", None), {}, b"q,\n"),
        (
            Row("q", Row(1, "b")),
            {"set_array_element_delimiter": "|", "set_field_delimiter": ";"},
            b'q;"1|b"\n',
        ),
        (Row("q", Row(None, "b")), {"set_null_literal": "n/a"}, b"q,n/a;b\n"),
    ],
)
def test_rows_within_rows_are_written_as_arrays(row, options, line):
    builder = CsvRowSerializationSchema.Builder(OUTER)
    for name, value in options.items():
        getattr(builder, name)(value)
    assert builder.build().serialize(row) == line


def test_rows_within_rows_are_read():
    read = CsvRowDeserializationSchema.Builder(OUTER).build().deserialize
    assert read(b"q,1;b c") == Row(a="q", r=Row(x=1, y="b c"))
    assert read(b"q,") == Row(a="q", r=None)
    assert read(b"q,1;b;c") == Row(a="q", r=Row(x=1, y="b"))  # Flink leaves out what is too much
    for bad in (b"q,1", b"q,;b"):
        with pytest.raises(RecordError):
            read(bad)


def test_map_column_is_rejected_in_csv():
    with pytest.raises(ArgumentTypeError, match="unsupported type"):
        CsvRowSerializationSchema.Builder(
            Types.ROW_NAMED(["m"], [Types.MAP(Types.STRING(), Types.INT())])
        ).build()


# Dates and times

MOMENTS = Types.ROW_NAMED(
    ["d", "t", "s", "i"],
    [Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.INSTANT()],
)


def test_dates_and_times_in_csv():
    write = CsvRowSerializationSchema.Builder(MOMENTS).build().serialize
    moment = dt.datetime(2024, 3, 1, 12, 34, 56, 123456)
    row = Row(moment.date(), dt.time(12, 34, 56), moment, Instant(1709296496, 123_456_000))
    assert write(row) == (
        b'2024-03-01,12:34:56,"2024-03-01 12:34:56.123456","2024-03-01 12:34:56.123456Z"\n'
    )
    whole = Row(None, None, dt.datetime(2024, 3, 1, 12, 34), None)
    assert write(whole) == b',,"2024-03-01 12:34:00.0",\n'


def test_bytes_in_csv_are_base64():
    row = Types.ROW_NAMED(["b"], [Types.PRIMITIVE_ARRAY(Types.BYTE())])
    assert CsvRowSerializationSchema.Builder(row).build().serialize(Row(b"\1\2\xff")) == b"AQL/\n"


# JSON


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        (Types.BIG_DEC(), Decimal(100), "100"),
        (Types.BIG_DEC(), Decimal(1000), "1000"),
        (Types.BIG_DEC(), Decimal("1E-10"), "1E-10"),
        (
            Types.BIG_DEC(),
            Decimal("12345678901234567890.123456789"),
            "12345678901234567890.123456789",
        ),
        (Types.BIG_INT(), 12345678901234567890123, "12345678901234567890123"),
        (Types.INSTANT(), Instant(1709296496, 123_456_000), '"2024-03-01T12:34:56.123456Z"'),
        (Types.SQL_DATE(), dt.date(2024, 3, 1), '"2024-03-01"'),
        (Types.SQL_TIME(), dt.time(12, 34, 56), '"12:34:56Z"'),
        (
            Types.SQL_TIMESTAMP(),
            dt.datetime(2024, 3, 1, 12, 34, 56, 123456),
            '"2024-03-01T12:34:56.123456Z"',
        ),
        (Types.DOUBLE(), float("nan"), '"NaN"'),
        (Types.DOUBLE(), 0.1, "0.1"),
        (Types.STRING(), "é", '"é"'),
        (INNER, Row(x=None, y="y"), '{"x":null,"y":"y"}'),
    ],
)
def test_values_in_json(kind, value, text):
    row = Types.ROW_NAMED(["a"], [kind])
    data = JsonRowSerializationSchema(row).serialize(Row(value))
    assert data.decode() == f'{{"a":{text}}}'
    found = JsonRowDeserializationSchema(row).deserialize(data)[0]
    if kind == Types.INSTANT():
        assert found == dt.datetime(2024, 3, 1, 12, 34, 56, 123456, tzinfo=dt.UTC)
    else:
        assert repr(found) == repr(value)


def test_decimals_in_json_have_their_scale():
    row = DataTypes.ROW([DataTypes.FIELD("a", MONEY), DataTypes.FIELD("b", SMALL)])
    data = JsonRowSerializationSchema(row).serialize(Row(Decimal("1.005"), Decimal("99.5")))
    assert data == b'{"a":1.01,"b":null}'
    found = JsonRowDeserializationSchema(row).deserialize(b'{"a": 123.455, "b": 2.5}')
    assert tuple(map(str, found)) == ("123.46", "3")


def test_a_row_that_json_cannot_hold_is_named():
    row = Types.ROW_NAMED(["a"], [Types.BIG_DEC()])
    with pytest.raises(RecordError, match="cannot write a row as JSON"):
        JsonRowSerializationSchema(row).serialize(Row("x"))
