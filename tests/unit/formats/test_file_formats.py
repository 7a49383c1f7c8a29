"""CSV, JSON lines, Parquet and ORC: what is written is what is read."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
import string
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.connectors.base.sink import CommitRequest
from penstock.connectors.filesystem.buckets import BucketAssigner
from penstock.connectors.filesystem.rolling import FileCompactor, FileCompactStrategy, RollingPolicy
from penstock.connectors.filesystem.sink import FileSink
from penstock.connectors.filesystem.source import FileSource
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.formats.base.field_types import FieldType, field_type
from penstock.formats.columnar.files import (
    OrcBulkWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)
from penstock.formats.csv.files import CsvBulkWriters, CsvReaderFormat
from penstock.formats.csv.messages import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.formats.csv.schema import CsvSchema
from penstock.formats.json.rows import (
    JsonLinesFormat,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from penstock.table import DataTypes
from tests.builders.connector_helpers import open_writer, read_all, read_resuming, read_split
from tests.builders.examples import examples

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def person_schema(**options):
    builder = CsvSchema.builder().add_string_column("name").add_number_column("age")
    for name, value in options.items():
        getattr(builder, name)(*value)
    return builder.build()


def csv_source(path, schema, split_size=None, **options):
    builder = FileSource.for_record_stream_format(
        CsvReaderFormat.for_schema(schema, **options), path
    )
    if split_size:
        builder.set_split_size(split_size)
    return builder.build()


def flat(parts):
    return [record for part in parts for record in part]


@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        pytest.param("a,1\nb,2\n", {}, [("a", 1), ("b", 2)], id="plain"),
        pytest.param("a,1\r\nb,2", {}, [("a", 1), ("b", 2)], id="CRLF, no end"),
        pytest.param("a,1\n\nb,2\n\n", {}, [("a", 1), ("b", 2)], id="empty lines"),
        pytest.param('"a,b",1\n"say ""x""",2\n', {}, [("a,b", 1), ('say "x"', 2)], id="quotes"),
        pytest.param('"a\nb",1\nc,2\n', {}, [("a\nb", 1), ("c", 2)], id="line feed in quotes"),
        pytest.param("a;1\n", {"set_column_separator": (";",)}, [("a", 1)], id="separator"),
        pytest.param("'a,b',1\n", {"set_quote_char": ("'",)}, [("a,b", 1)], id="quote char"),
        pytest.param('"a,1\n', {"disable_quote_char": ()}, [('"a', 1)], id="no quotes"),
        pytest.param("a\\,b,1\n", {"set_escape_char": ("\\",)}, [("a,b", 1)], id="escape"),
        pytest.param("x,-\n-,1\n", {"set_null_value": ("-",)}, [("x", None), (None, 1)], id="null"),
        pytest.param(
            "# no\na,1\n# no\nb,2\n",
            {"set_allow_comments": ()},
            [("a", 1), ("b", 2)],
            id="comments",
        ),
        pytest.param("name,age\na,1\n", {"set_use_header": ()}, [("a", 1)], id="header"),
        pytest.param(
            "junk\na,1\n", {"set_skip_first_data_row": ()}, [("a", 1)], id="skip first row"
        ),
        pytest.param(
            "name,age\njunk\na,1\n",
            {"set_use_header": (), "set_skip_first_data_row": ()},
            [("a", 1)],
            id="header and skip",
        ),
    ],
)
def test_csv_files_are_read_as_rows(tmp_path, text, options, rows):
    (tmp_path / "f.csv").write_bytes(text.encode())
    source = csv_source(tmp_path, person_schema(**options))
    expected = [Row(name=name, age=age) for name, age in rows]
    assert flat(read_all(source)) == expected
    assert read_resuming(source, batch_size=1) == expected


def test_csv_columns_of_all_kinds(tmp_path):
    schema = (
        CsvSchema.builder()
        .add_boolean_column("b")
        .add_number_column("d", Types.DOUBLE())
        .add_number_column("x", "DECIMAL")
        .add_array_column("l", "|", int)
        .add_column("t", dt.datetime)
        .build()
    )
    assert schema.size() == 5
    (tmp_path / "f").write_text(
        "true,1.5,0.10,1|2,2024-01-31 07:00:00\nFALSE,-2,3,,2024-01-31T07:00:00\n"
    )
    seven = dt.datetime(2024, 1, 31, 7)
    assert [list(row) for row in flat(read_all(csv_source(tmp_path, schema)))] == [
        [True, 1.5, Decimal("0.10"), [1, 2], seven],
        [False, -2.0, Decimal(3), [], seven],
    ]


@pytest.mark.parametrize(
    ("text", "offset", "why"),
    [
        pytest.param("a,1\nb\nc,3\n", 4, "1 columns instead of 2", id="too few"),
        pytest.param("a,1\nb,2,3\nc,3\n", 4, "3 columns instead of 2", id="too many"),
        pytest.param(
            "a,1\nb,two\nc,3\n",
            4,
            "column 'age': cannot read 'two' as BIGINT",
            id="not a number",
        ),
        pytest.param(
            "a,1\nb,\nc,3\n", 4, "column 'age': cannot read '' as BIGINT", id="empty number"
        ),
        pytest.param('"a",1\n"b"x,2\nc,3\n', 6, "expected after", id="text after a quote"),
        pytest.param(
            '"a",1\n"b,2\nc,3\n', 6, "unexpected end of data", id="a quote that stays open"
        ),
    ],
)
def test_bad_csv_rows_are_named_or_skipped_and_counted(tmp_path, text, offset, why):
    (tmp_path / "f").write_text(text)
    with pytest.raises(RecordError) as caught:
        read_all(csv_source(tmp_path, person_schema()))
    assert why in str(caught.value)
    assert f"{tmp_path}/f, at byte {offset}: " in str(caught.value)
    source = csv_source(tmp_path, person_schema(), on_error="skip")
    (split,) = source.create_enumerator(1).discover()
    reader = source.create_reader()
    assert [tuple(row) for row in read_split(reader, split)] == [("a", 1), ("c", 3)]
    assert reader.skipped == 1


@pytest.mark.parametrize("header", ["name,age", "who,years", "age,name"])
def test_columns_are_found_by_position_whatever_the_header_says(tmp_path, header):
    (tmp_path / "f").write_text(f"{header}\na,1\n")
    found = flat(read_all(csv_source(tmp_path, person_schema(set_use_header=()))))
    assert found == [Row(name="a", age=1)]


@pytest.mark.parametrize("header", ["who,years", "age,name", "name", "name,age,more"])
def test_a_strict_header_that_does_not_fit_is_an_error(tmp_path, header):
    (tmp_path / "f").write_text(f"{header}\na,1\n")
    with pytest.raises(RecordError, match="header"):
        read_all(csv_source(tmp_path, person_schema(set_use_header=(), set_strict_headers=())))


def test_csv_files_are_cut_only_if_no_value_spans_lines(tmp_path):
    (tmp_path / "f").write_text("name,age\n" + "".join(f"n{n},{n}\n" for n in range(100)))
    quoted = csv_source(tmp_path, person_schema(set_use_header=()), 50)
    assert len(quoted.create_enumerator(1).discover()) == 1
    expected = [Row(name=f"n{n}", age=n) for n in range(100)]
    for source in (
        csv_source(tmp_path, person_schema(set_use_header=()), 50, single_line=True),
        csv_source(tmp_path, person_schema(set_use_header=(), disable_quote_char=()), 50),
    ):
        assert len(source.create_enumerator(1).discover()) > 10
        assert flat(read_all(source)) == expected


texts = st.text(st.sampled_from('ab,"\n\r;# ' + "é"), max_size=8)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(texts, st.integers()), max_size=20), st.booleans(), st.integers(1, 5))
def test_csv_round_trip(tmp_path_factory, rows, header, batch_size):
    schema = person_schema(set_use_header=(header,))
    stream = io.BytesIO()
    writer = CsvBulkWriters.for_schema(schema).create(stream)
    writer.add_elements([Row(name=name, age=age) for name, age in rows])
    writer.finish()
    path = tmp_path_factory.mktemp("csv") / "f.csv"
    path.write_bytes(stream.getvalue())
    source = csv_source(path, schema)
    assert [tuple(row) for row in flat(read_all(source))] == rows
    assert [tuple(row) for row in read_resuming(source, batch_size=batch_size)] == rows


def test_csv_messages_round_trip():
    kind = Types.ROW_NAMED(["a", "b", "c"], [Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()])
    writer = (
        CsvRowSerializationSchema.Builder(kind)
        .set_null_literal("-")
        .set_field_delimiter(";")
        .build()
    )
    reader = (
        CsvRowDeserializationSchema.Builder(kind)
        .set_null_literal("-")
        .set_field_delimiter(";")
        .build()
    )
    row = Row(a="x;y", b=None, c=True)
    message = pickle.loads(pickle.dumps(writer)).serialize(row)
    assert message == b'"x;y";-;true\n'
    assert reader.deserialize(message) == row
    with pytest.raises(RecordError):
        reader.deserialize(b"1;2")
    ignoring = CsvRowDeserializationSchema.Builder(kind).set_ignore_parse_errors(True).build()
    assert ignoring.deserialize(b"1;2") == Row(a="1;2", b=None, c=None)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        pytest.param(lambda: CsvReaderFormat.for_schema("a,b"), ArgumentTypeError, id="no schema"),
        pytest.param(
            lambda: CsvReaderFormat.for_schema(CsvSchema.builder().build()),
            ArgumentTypeError,
            id="no columns",
        ),
        pytest.param(
            lambda: CsvSchema.builder().add_number_column("a", "STRING"),
            ArgumentTypeError,
            id="no number",
        ),
        pytest.param(
            lambda: CsvSchema.builder().add_string_column("a").add_string_column("a"),
            ArgumentError,
            id="twice",
        ),
        pytest.param(
            lambda: CsvSchema.builder().set_column_separator("::"), ArgumentError, id="separator"
        ),
        pytest.param(
            lambda: JsonRowDeserializationSchema.builder().build(), ArgumentError, id="no type"
        ),
        pytest.param(
            lambda: JsonRowDeserializationSchema.builder().type_info(Types.INT()),
            ArgumentTypeError,
            id="no row",
        ),
        pytest.param(
            lambda: (
                JsonRowDeserializationSchema.builder()
                .type_info(PERSON)
                .fail_on_missing_field()
                .ignore_parse_errors()
                .build()
            ),
            ArgumentError,
            id="fail and ignore",
        ),
        pytest.param(
            lambda: ParquetBulkWriters.for_row_type(Types.INT()), ArgumentTypeError, id="parquet"
        ),
        pytest.param(
            lambda: ParquetBulkWriters.for_row_type(Types.ROW([Types.PICKLED_BYTE_ARRAY()])),
            ArgumentTypeError,
            id="parquet of anything",
        ),
        pytest.param(lambda: field_type(object), ArgumentTypeError, id="unknown class"),
        pytest.param(lambda: field_type("WORD"), ArgumentTypeError, id="unknown name"),
    ],
)
def test_formats_are_checked_when_they_are_built(build, error):
    with pytest.raises(error):
        build()


def test_json_lines_are_read_as_values_or_as_rows(tmp_path):
    (tmp_path / "f").write_text('{"name": "a", "age": 1}\n\n{"age": 2, "x": [1]}\n')
    plain = FileSource.for_record_stream_format(JsonLinesFormat(), tmp_path).build()
    assert flat(read_all(plain)) == [{"name": "a", "age": 1}, {"age": 2, "x": [1]}]
    rows = FileSource.for_record_stream_format(JsonLinesFormat(PERSON), tmp_path).build()
    assert flat(read_all(rows)) == [Row(name="a", age=1), Row(name=None, age=2)]
    schema = JsonRowDeserializationSchema.builder().type_info(PERSON).build()
    lines = tmp_path / "g"
    lines.write_text('{"name": "a", "age": 1}\n')
    assert flat(read_all(FileSource.for_record_stream_format(schema, lines).build())) == [
        Row(name="a", age=1)
    ]


@pytest.mark.parametrize("kind", [None, PERSON], ids=["values", "rows"])
def test_bad_json_lines_are_named_or_skipped_and_counted(tmp_path, kind):
    (tmp_path / "f").write_text('{"name": "ä", "age": 1}\n\n{"name": \n{"name": "c", "age": 3}\n')
    source = FileSource.for_record_stream_format(JsonLinesFormat(kind), tmp_path).build()
    with pytest.raises(RecordError) as caught:
        read_all(source)
    assert f"{tmp_path}/f, at byte 26: '{{\"name\": '" in str(caught.value)
    source = FileSource.for_record_stream_format(
        JsonLinesFormat(kind, on_error="skip"), tmp_path
    ).build()
    (split,) = source.create_enumerator(1).discover()
    reader = source.create_reader()
    assert len(read_split(reader, split)) == 2
    assert reader.skipped == 1


NESTED = Types.ROW_NAMED(
    ["s", "i", "d", "n", "l", "m", "r", "day", "time"],
    [
        Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.BOOLEAN(), Types.LIST(Types.INT()),
        Types.MAP(Types.STRING(), Types.INT()), PERSON, Types.SQL_DATE(), Types.SQL_TIMESTAMP(),
    ],
)  # fmt: skip
NESTED_ROWS = [
    Row(s="ä\n", i=2**60, d=0.5, n=True, l=[1, 2], m={"k": 1}, r=Row(name="x", age=3),
        day=dt.date(2024, 1, 31), time=dt.datetime(2024, 1, 31, 7, 0, 0, 5)),
    Row(s=None, i=None, d=None, n=None, l=None, m=None, r=None, day=None, time=None),
]  # fmt: skip


def test_json_messages_round_trip():
    writer = pickle.loads(
        pickle.dumps(JsonRowSerializationSchema.builder().with_type_info(NESTED).build())
    )
    reader = pickle.loads(
        pickle.dumps(JsonRowDeserializationSchema.builder().type_info(NESTED).build())
    )
    for row in NESTED_ROWS:
        assert reader.deserialize(writer.serialize(row)) == row
    assert json.loads(writer.serialize(NESTED_ROWS[0]))["r"] == {"name": "x", "age": 3}


def test_json_messages_that_do_not_fit():
    build = JsonRowDeserializationSchema.builder().type_info(PERSON)
    for message in (b"{", b"[]", b'{"name": "a", "age": 1.5}'):
        with pytest.raises(RecordError, match="invalid JSON record"):
            build.build().deserialize(message)
    ignoring = (
        JsonRowDeserializationSchema.builder().type_info(PERSON).ignore_parse_errors().build()
    )
    assert ignoring.deserialize(b"{") is None
    strict = (
        JsonRowDeserializationSchema.builder().type_info(PERSON).fail_on_missing_field().build()
    )
    with pytest.raises(RecordError, match="is missing"):
        strict.deserialize(b'{"name": "a"}')


def test_a_json_schema_tells_the_row_type():
    text = '{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "string"}}}}'
    reader = JsonRowDeserializationSchema.builder().json_schema(text).build()
    assert reader.deserialize(b'{"a": 1, "b": ["x"]}') == Row(a=1, b=["x"])


def bulk_write(tmp_path, factory, rows):
    sink = (
        FileSink.for_bulk_format(tmp_path, factory)
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    writer = open_writer(pickle.loads(pickle.dumps(sink)), "/nowhere")
    for row in rows:
        writer.write([row], None, 0)
    (file,) = files = writer.prepare_commit()
    writer.close()
    assert file.size == (tmp_path / file.path).stat().st_size
    sink.create_committer().commit(CommitRequest(1, files))
    (path,) = Path(tmp_path).iterdir()
    return path


def test_parquet_round_trip(tmp_path):
    path = bulk_write(tmp_path, ParquetBulkWriters.for_row_type(NESTED), NESTED_ROWS)
    source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(NESTED), path).build()
    found = flat(read_all(source))
    assert [list(row)[:6] + list(row)[7:] for row in found] == [
        list(row)[:6] + list(row)[7:] for row in NESTED_ROWS
    ]
    assert found == NESTED_ROWS


def test_orc_files_are_written(tmp_path):
    from pyarrow import orc

    path = bulk_write(
        tmp_path, OrcBulkWriters.for_row_type(PERSON), [Row(name="a", age=1), ("b", None)]
    )
    assert orc.read_table(path).to_pylist() == [{"name": "a", "age": 1}, {"name": "b", "age": None}]


def test_csv_files_are_written_by_the_sink(tmp_path):
    path = bulk_write(
        tmp_path,
        CsvBulkWriters.for_schema(person_schema(set_use_header=())),
        [("a", 1), {"name": "b"}],
    )
    assert path.read_text() == "name,age\na,1\nb,\n"


@pytest.mark.parametrize("utc", [True, False])
def test_a_timestamp_comes_back_from_parquet_without_a_time_zone(tmp_path, utc):
    row = DataTypes.ROW(
        [
            DataTypes.FIELD("t", DataTypes.TIMESTAMP(3)),
            DataTypes.FIELD("l", DataTypes.TIMESTAMP_LTZ(3)),
            DataTypes.FIELD("a", DataTypes.ARRAY(DataTypes.TIMESTAMP(3))),
            DataTypes.FIELD("m", DataTypes.MAP(DataTypes.STRING(), DataTypes.TIMESTAMP(3))),
            DataTypes.FIELD("r", DataTypes.ROW([DataTypes.FIELD("x", DataTypes.TIMESTAMP(3))])),
        ]
    )
    local = dt.datetime(2024, 1, 2, 3, 4, 5, 600000)
    written = [(local, local.replace(tzinfo=dt.UTC), [local], {"k": local}, (local,))]
    path = bulk_write(tmp_path, ParquetBulkWriters.for_row_type(row, utc_timestamp=utc), written)
    format = ParquetColumnarRowInputFormat(row, is_utc_timestamp=utc)
    [found] = flat(read_all(FileSource.for_bulk_file_format(format, path).build()))
    assert found.t == local
    assert found.l == local.replace(tzinfo=dt.UTC)
    assert (found.a, found.m, found.r.x) == ([local], {"k": local}, local)


def test_a_value_that_does_not_fit_its_parquet_column_is_named(tmp_path):
    with pytest.raises(RecordError, match="does not match its column") as caught:
        bulk_write(tmp_path, ParquetBulkWriters.for_row_type(PERSON), [("a", "one")])
    assert "'age'" in str(caught.value)
    with pytest.raises(RecordError, match="does not match the schema"):
        bulk_write(tmp_path, ParquetBulkWriters.for_row_type(PERSON), [("a",)])


@pytest.mark.parametrize("batch_size", [7, 100, 4096])
@pytest.mark.parametrize("split_size", [1, 2000, 1 << 20])
def test_parquet_files_are_read_by_row_groups_and_resumed_at_any_row(
    tmp_path, split_size, batch_size
):
    table = pa.table({"n": list(range(1000)), "s": [str(n) for n in range(1000)]})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=130)
    source = (
        FileSource.for_bulk_file_format(
            ParquetColumnarRowInputFormat({"n": int}, batch_size=50), tmp_path
        )
        .set_split_size(split_size)
        .build()
    )
    splits = source.create_enumerator(1).discover()
    assert len(splits) == {1: 8, 1 << 20: 1}.get(split_size, len(splits))
    assert [row.n for row in flat(read_all(source))] == list(range(1000))
    assert [row.n for row in read_resuming(source, batch_size=batch_size)] == list(range(1000))
    assert read_split(source.create_reader(), splits[0], 3)[0] == Row(n=3)


def test_parquet_columns_by_name_and_case(tmp_path):
    pq.write_table(pa.table({"Name": ["a"], "other": [1]}), tmp_path / "f")
    loose = ParquetColumnarRowInputFormat({"name": str}, is_case_sensitive=False)
    assert flat(read_all(FileSource.for_bulk_file_format(loose, tmp_path).build())) == [
        Row(name="a")
    ]
    strict = ParquetColumnarRowInputFormat({"name": str})
    with pytest.raises(RecordError, match="columns of the row type are missing"):
        read_all(FileSource.for_bulk_file_format(strict, tmp_path).build())
    everything = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(), tmp_path).build()
    assert flat(read_all(everything)) == [Row(Name="a", other=1)]


def test_invalid_parquet_file_is_named_in_the_error(tmp_path):
    (tmp_path / "f.txt").write_text("text")
    source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(), tmp_path).build()
    with pytest.raises(RecordError, match="as Parquet") as caught:
        read_all(source)
    assert "f.txt" in str(caught.value)


def test_bulk_formats_cannot_roll_or_be_concatenated():
    builder = FileSink.for_bulk_format("/x", ParquetBulkWriters.for_row_type(PERSON))
    with pytest.raises(ArgumentError, match="checkpoint"):
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy())
    strategy = FileCompactStrategy.builder().set_size_threshold(1).build()
    with pytest.raises(ArgumentError, match="concatenated"):
        builder.enable_compact(strategy, FileCompactor.concat_file_compactor())


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (Types.STRING(), "STRING"), (Types.LONG(), "BIGINT"), (Types.INT(), "INT"), (Types.SHORT(), "SMALLINT"),
        (Types.BYTE(), "TINYINT"), (Types.FLOAT(), "FLOAT"), (Types.BIG_DEC(), "DECIMAL"), (Types.BIG_INT(), "DECIMAL0"),
        (Types.SQL_TIME(), "TIME"), (Types.INSTANT(), "TIMESTAMP_LTZ"), (Types.PICKLED_BYTE_ARRAY(), "ANY"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "BYTES"), (Types.BASIC_ARRAY(Types.STRING()), "ARRAY"),
        (Types.TUPLE([Types.INT()]), "ROW"), (pa.int64(), "BIGINT"), (pa.list_(pa.string()), "ARRAY"),
        (pa.timestamp("ns"), "TIMESTAMP"), (pa.timestamp("us", "UTC"), "TIMESTAMP_LTZ"), (bytes, "BYTES"), ("varchar", "STRING"),
    ],
)  # fmt: skip
def test_types_of_columns(given, kind):
    assert field_type(given).kind == kind


def test_row_types_from_tables_and_schemas():
    class RowField:
        def __init__(self, name, data_type):
            self.name, self.data_type = name, data_type

    class BigIntType:
        pass

    class RowType:
        def __init__(self, fields):
            self.fields = fields

    expected = FieldType("ROW", (("a", FieldType("BIGINT")),))
    assert field_type(RowType([RowField("a", BigIntType())])) == expected
    assert field_type(pa.schema([("a", pa.int64())])) == expected
    assert field_type({"a": int}) == expected


def test_csv_values_may_be_long(tmp_path):
    value = string.ascii_letters * 1000
    (tmp_path / "f").write_text(f'"{value}",1\nb,2\n')
    assert [tuple(row) for row in flat(read_all(csv_source(tmp_path, person_schema())))] == [
        (value, 1),
        ("b", 2),
    ]
