"""Messages that a schema leaves out because they cannot be parsed are counted; those that have no record are not."""

from __future__ import annotations

from penstock.common import Types
from penstock.connectors.kafka.record import KafkaRecord
from penstock.connectors.kafka.table.records import ColumnSource, RecordRows
from penstock.formats.changelog.canal import CanalJsonDeserializationSchema
from penstock.formats.changelog.debezium import DebeziumJsonDeserializationSchema
from penstock.formats.csv.messages import CsvRowDeserializationSchema
from penstock.formats.csv.schema import CsvSchema
from penstock.formats.json.rows import JsonRowDeserializationSchema
from penstock.formats.json.table_rows import LenientJsonDeserializationSchema
from penstock.formats.json.values import JsonDeserializationSchema
from penstock.sql.types import IntType, RowField, RowType
from tests.builders.cases import check_all

ROW = Types.ROW_NAMED(["a"], [Types.INT()])
SCHEMAS = {
    "JSON rows": (
        JsonRowDeserializationSchema.builder().type_info(ROW).ignore_parse_errors().build(),
        b'{"a": 1}',
    ),
    "JSON values": (JsonDeserializationSchema(ignore_parse_errors=True), b'{"a": 1}'),
    "JSON of a table": (
        LenientJsonDeserializationSchema(RowType([RowField("a", IntType())])),
        b'{"a": 1}',
    ),
    "CSV": (
        CsvRowDeserializationSchema(
            CsvSchema.builder().add_number_column("a").build(), ignore_parse_errors=True
        ),
        b"1",
    ),
    "Debezium": (
        DebeziumJsonDeserializationSchema(ROW, ignore_parse_errors=True),
        b'{"op": "c", "before": null, "after": {"a": 1}}',
    ),
    "Canal": (
        CanalJsonDeserializationSchema(ROW, ignore_parse_errors=True),
        b'{"type": "INSERT", "data": [{"a": 1}]}',
    ),
}


def test_kafka_rows_count_skipped_values():
    value = LenientJsonDeserializationSchema(RowType([RowField("a", IntType())]))
    rows = RecordRows(value, None, [ColumnSource("value", 0)])
    messages = [b'{"a": 1}', b"{x", None]
    found = [rows.deserialize(KafkaRecord(None, each, [], "t", 0, 0, 0)) for each in messages]
    assert [row is None for row in found] == [False, True, True]
    assert rows.skipped == 1


def test_schemas_count_skipped_messages():
    def check(case):
        schema, good = case
        found = schema.deserialize_batch([good, b'{"a": ,', None, good, b"{x,"])
        assert len(found.records) == 2
        assert not found.failures
        assert schema.skipped == 2

    check_all(SCHEMAS, check)
