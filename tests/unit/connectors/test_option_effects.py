"""Options in WITH (...): each has an effect, or a warning says that it has none."""

from __future__ import annotations

import ast
import datetime as dt
import pickle
import re
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.orc
import pyarrow.parquet
import pytest

import penstock
from penstock.catalogs.tables import PhysicalColumn, ResolvedTable, TablePath
from penstock.common import Configuration, Row
from penstock.connectors.kafka.serialization import FlinkFixedPartitioner
from penstock.connectors.kafka.table.factory import KafkaTable
from penstock.errors import ConfigurationError, RecordError
from penstock.options import option_checks
from penstock.sql.connector.formats import FORMATS, message_format
from penstock.sql.connector.options import (
    Option,
    checked,
    duration,
    flag,
)
from penstock.sql.connector.providers import TableContext
from penstock.sql.connector.registry import CONNECTORS
from penstock.sql.connector.watermark_options import WATERMARK_OPTIONS
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from tests.builders.cases import check_all

PACKAGES = [
    Path(penstock.__file__).parent / name for name in ("connectors", "formats", "sql/connector")
]
DECLARING = {"Option", "duration", "flag", "memory", "number", "text"}


def patterns_read() -> list[re.Pattern[str]]:
    """Return what the code of connectors reads options by: texts, and texts with a part that varies. Declarations are left out."""
    found = []
    for path in (path for package in PACKAGES for path in package.rglob("*.py")):
        tree = ast.parse(path.read_text())
        declared = {
            id(node.args[0])
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name)
            if node.func.id in DECLARING
        }
        parts = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for part in node.values
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                texts = [
                    re.escape(part.value) if isinstance(part, ast.Constant) else r"[\w.-]+"
                    for part in node.values
                ]
                if re.search("[a-z]{3}", "".join(texts)):  # not of variables only
                    found.append("".join(texts))
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in declared | parts
            ):
                found.append(re.escape(node.value))
    return [re.compile(each) for each in set(found)]


def declared_options() -> dict[str, Option]:
    factories = [CONNECTORS.find(name) for name in CONNECTORS.names()]
    lists = [each.options for each in factories]
    lists += [group.options for each in factories for group in each.option_groups]
    lists += [FORMATS.find(name).options for name in FORMATS.names()]
    return {option.name: option for each in (*lists, WATERMARK_OPTIONS) for option in each}


def test_code_reads_each_option_of_connectors_and_formats():
    read = patterns_read()
    known = declared_options()
    assert len(known) > 60

    def check(option):
        is_read = any(pattern.fullmatch(option.name) for pattern in read)
        assert is_read or option.no_effect or len(option.choices) == 1

    check_all(known, check)


def test_an_option_without_an_effect_is_named_once(caplog, monkeypatch):
    monkeypatch.setattr(option_checks, "_said", set())
    known = [
        duration("pause", "Pause.", default_ms=10, no_effect="nothing pauses"),
        flag("loud", "Print more."),
    ]
    for given in ({"pause": "10 ms"}, {"loud": "true"}):
        checked(given, known, "t")
    assert caplog.messages == []  # what is set happens anyway
    for _ in range(2):
        checked({"pause": "1 s"}, known, "t")
    assert caplog.messages == ["table t: option 'pause' has no effect: nothing pauses"]


def test_an_option_that_a_connector_does_not_have_is_refused_with_the_nearest():
    with pytest.raises(ConfigurationError, match="unknown option 'puase'") as refused:
        checked({"puase": "1 s"}, [duration("pause", "Pause."), flag("loud", "Print more.")], "t")
    assert refused.value.hint == "did you mean 'pause'?"


TOPIC = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'x:1', 'format' = 'json'"


def tables(options: str) -> TableEnvironment:
    found = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    found.execute_sql(f"CREATE TABLE t (id INT, v STRING) WITH ({TOPIC}{options})")
    return found


REFUSED = {
    "fields of keys without a format": (", 'key.fields' = 'id'", "'key.fields' needs 'key.format'"),
    "a format of keys without fields": (", 'key.format' = 'raw'", "'key.format' needs 'key.fields'"),
    "a Java class as partitioner": (", 'sink.partitioner' = 'org.example.Mine'", "for option 'sink.partitioner'"),
    "round-robin with keys": (
        ", 'key.fields' = 'id', 'key.format' = 'json', 'sink.partitioner' = 'round-robin'",
        "cannot be 'round-robin' with 'key.fields'",
    ),
    "a prefix that a key column lacks": (
        ", 'key.fields' = 'id', 'key.format' = 'json', 'key.fields-prefix' = 'k_'",
        "key column 'id' does not start with 'k_'",
    ),
    "a prefix of columns that are in the value, too": (
        ", 'key.fields' = 'id', 'key.format' = 'json', 'key.fields-prefix' = 'i'",
        "needs 'value.fields-include' = 'EXCEPT_KEY'",
    ),
    "a topic and a pattern": (", 'topic-pattern' = 't.*'", "both 'topic' and 'topic-pattern'"),
}  # fmt: skip


def test_options_of_kafka_tables_that_others_would_hide_are_refused():
    def check(case):
        options, message = case
        with pytest.raises(ConfigurationError, match=re.escape(message)):
            tables(options).explain_sql("SELECT * FROM t")

    check_all(REFUSED, check)


def topic_with(**options: str) -> KafkaTable:
    given = {"topic": "t", "properties.bootstrap.servers": "x:1", "format": "json", **options}
    path = TablePath("default_catalog", "default_database", "t")
    table = ResolvedTable(path, (PhysicalColumn("v", DataTypes.STRING()),))
    return KafkaTable(TableContext(table, given, Configuration()), upserts=False)


@pytest.mark.parametrize(
    ("options", "milliseconds"),
    [
        ({}, 300_000),
        ({"scan.topic-partition-discovery.interval": "10 s"}, 10_000),
        ({"scan.topic-partition-discovery.interval": "0 s"}, None),
        ({"properties.partition.discovery.interval.ms": "7"}, 7),
    ],
)
def test_the_interval_of_discovery_reaches_the_source(options, milliseconds):
    source: Any = topic_with(**options).scan().source
    assert source._plan.options.discovery_ms == milliseconds


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, type(None)),
        ({"sink.partitioner": "round-robin"}, type(None)),  # as librdkafka does by itself
        ({"sink.partitioner": "fixed"}, FlinkFixedPartitioner),
    ],
)
def test_the_partitioner_reaches_the_sink(options, kind):
    sink: Any = topic_with(**options).write(overwrite=False, partition={}).sink
    assert type(sink._serializer._partitioner) is kind


def files_with(path: Path, form: str, **options: str) -> TableEnvironment:
    """An environment with the table `t` of files."""
    found = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    given = {"path": str(path), "format": form, **options}
    written = "".join(f", '{key}' = '{value}'" for key, value in given.items())
    found.execute_sql(
        f"CREATE TABLE t (id INT, v STRING) WITH ('connector' = 'filesystem'{written})"
    )
    return found


@pytest.mark.parametrize(
    ("form", "option"),
    [
        ("parquet", "parquet.compresion"),
        ("orc", "orc.compres"),
        ("avro", "avro.codek"),
        ("csv", "csv.feild-delimiter"),
        ("json", "json.ignore-parse-error"),
        ("json", "csv.field-delimiter"),
        ("parquet", "json.ignore-parse-errors"),
    ],
)
def test_options_that_the_format_of_a_file_does_not_have_are_refused(tmp_path, form, option):
    for statement in ("SELECT * FROM t", "INSERT INTO t VALUES (1, 'a')"):
        with pytest.raises(ConfigurationError, match="unknown option"):
            files_with(tmp_path, form, **{option: "x"}).explain_sql(statement)


@pytest.mark.parametrize(
    "options",
    [
        ", 'csv.field-delimiter' = ';'",
        ", 'key.json.ignore-parse-errors' = 'true'",
        ", 'value.csv.field-delimiter' = ';'",
    ],
)
def test_options_of_a_format_that_a_topic_does_not_have_are_refused(options):
    with pytest.raises(ConfigurationError, match="unknown option"):
        tables(options).explain_sql("SELECT * FROM t")


COMPRESSIONS = {
    ("parquet", "parquet.compression"): {"": "SNAPPY", "GZIP": "GZIP", "uncompressed": "UNCOMPRESSED"},
    ("orc", "orc.compress"): {"": "UNCOMPRESSED", "ZLIB": "ZLIB", "snappy": "SNAPPY"},
    ("avro", "avro.codec"): {"": "snappy", "deflate": "deflate", "null": "null"},
}  # fmt: skip


def compression_in(path: Path, form: str) -> str:
    (file,) = (each for each in path.rglob(f"*.{form}"))
    if form == "parquet":
        return pyarrow.parquet.ParquetFile(file).metadata.row_group(0).column(0).compression
    if form == "orc":
        return pyarrow.orc.ORCFile(str(file)).compression
    with file.open("rb") as stream:
        return fastavro.reader(stream).codec


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize(("form", "option"), COMPRESSIONS)
def test_files_are_compressed_as_their_table_says(tmp_path, form, option, compacts):
    def check(case):
        given, wanted = case
        options = {option: given} if given else {}
        if compacts:
            options["auto-compaction"] = "true"
        path = tmp_path / (given or "default")
        with MiniCluster():
            files_with(path, form, **options).execute_sql("INSERT INTO t VALUES (1, 'a')").wait()
        assert compression_in(path, form) == wanted

    check_all({each[0] or "default": each for each in COMPRESSIONS[form, option].items()}, check)


@pytest.mark.parametrize(("form", "option"), [*COMPRESSIONS, ("avro", "avro.encoding")])
def test_unknown_compression_is_rejected(tmp_path, form, option):
    with pytest.raises(ConfigurationError, match="invalid value 'lzo'"):
        files_with(tmp_path, form, **{option: "lzo"}).explain_sql("INSERT INTO t VALUES (1, 'a')")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"csv.quote-character": "|"}, '1,|a,"b|\n'),
        ({"csv.quote-character": "|", "csv.field-delimiter": ";"}, '1;a,"b\n'),
        ({"csv.escape-character": "/"}, '1,"a,""b"\n'),
        ({"csv.disable-quote-character": "true"}, '1,a,"b\n'),
        ({}, '1,"a,""b"\n'),
    ],
)
def test_lines_are_quoted_as_their_table_says(tmp_path, options, line):
    with MiniCluster():
        env = files_with(tmp_path, "csv", **options)
        env.execute_sql("INSERT INTO t VALUES (1, 'a,\"b')").wait()
        (file,) = (each for each in tmp_path.rglob("*.csv"))
        assert file.read_text() == line
        if "csv.disable-quote-character" not in options:
            with env.execute_sql("SELECT v FROM t").collect() as rows:
                assert [row[0] for row in rows] == ['a,"b']


@pytest.mark.parametrize("form", ["debezium-json", "canal-json", "maxwell-json"])
def test_values_of_changes_are_written_as_those_of_rows(form):
    columns = {
        "at": DataTypes.TIMESTAMP(3),
        "n": DataTypes.INT(),
        "m": DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()),
    }
    row = Row(dt.datetime(2024, 5, 1, 9, 30), None, {None: 1})

    def written(**options: str) -> str:
        given = {f"{form}.{key}": value for key, value in options.items()}
        made = message_format(form, given, [f"{form}."], columns, "t")
        return pickle.loads(pickle.dumps(made.writer())).serialize(row).decode()

    drop = {"map-null-key.mode": "DROP"}
    assert '{"at":"2024-05-01 09:30:00","n":null,"m":{}}' in written(**drop)
    assert '"at":"2024-05-01T09:30:00"' in written(
        **drop, **{"timestamp-format.standard": "ISO-8601"}
    )
    assert "null" not in written(**drop, **{"encode.ignore-null-fields": "true"})
    with pytest.raises(RecordError):
        written()


@pytest.mark.parametrize(
    "option",
    [
        "'fields.id.length' = '3'",
        "'fields.id.max-past' = '3 s'",
        "'fields.v.min' = '3'",
        "'fields.id.start' = '3'",
        "'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '2', 'fields.id.min' = '3'",
    ],
)
def test_options_of_made_up_columns_that_their_type_does_not_have_are_refused(option):
    found = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    found.execute_sql(f"CREATE TABLE t (id INT, v STRING) WITH ('connector' = 'datagen', {option})")
    with pytest.raises(ConfigurationError, match="unknown option"):
        found.explain_sql("SELECT * FROM t")


def test_offsets_that_another_mode_leaves_out_are_named(caplog, monkeypatch):
    monkeypatch.setattr(option_checks, "_said", set())
    tables(", 'scan.bounded.timestamp-millis' = '1'").explain_sql("SELECT * FROM t")
    (line,) = caplog.messages
    assert line.endswith(
        "'scan.bounded.timestamp-millis' has no effect: 'scan.bounded.mode' is 'unbounded'"
    )
