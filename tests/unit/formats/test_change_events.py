"""Change events of Debezium, Canal and Maxwell, written by hand after the documentation of their envelopes."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.typeinfo import Types
from penstock.common.types import Row, RowKind
from penstock.datastream.formats.changelog import (
    CanalJsonDeserializationSchema,
    CanalJsonSerializationSchema,
    DebeziumJsonDeserializationSchema,
    DebeziumJsonSerializationSchema,
    MaxwellJsonDeserializationSchema,
    MaxwellJsonSerializationSchema,
)
from penstock.errors import ArgumentError, RecordError, UnsupportedOperationError
from penstock.time.durations import Instant

TABLE = Types.ROW_NAMED(["id", "name", "weight"], [Types.LONG(), Types.STRING(), Types.BIG_DEC()])
SOURCE = {
    "version": "2.7.0.Final", "connector": "mysql", "name": "shop", "ts_ms": 1589355606100, "snapshot": "false",
    "db": "inventory", "schema": "public", "table": "products", "server_id": 223344, "file": "mysql-bin.000003", "pos": 154, "row": 0,
    "thread": None,
}  # fmt: skip
OLD, NEW = (
    {"id": 111, "name": "scooter", "weight": 5.15},
    {"id": 111, "name": "scooter", "weight": 5.18},
)


def debezium(op, before, after, **more):
    return {
        "before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1589355606123, "transaction": None, **more,
    }  # fmt: skip


def canal(kind, data, old=None, **more):
    return {
        "data": data, "database": "inventory", "es": 1589373560000, "id": 9, "isDdl": False,
        "mysqlType": {"id": "INTEGER", "name": "VARCHAR(255)", "weight": "FLOAT"}, "old": old, "pkNames": ["id"], "sql": "",
        "sqlType": {"id": 4, "name": 12, "weight": 7}, "table": "products", "ts": 1589373560798, "type": kind, **more,
    }  # fmt: skip


def maxwell(kind, data, old=None, **more):
    event = {
        "database": "inventory", "table": "products", "type": kind, "ts": 1477053234, "xid": 23396, "commit": True,
        "primary_key_columns": ["id"], "data": data, **more,
    }  # fmt: skip
    return event if old is None else {**event, "old": old}


def texts(row):
    return {name: str(value) for name, value in row.items()}


DEBEZIUM = DebeziumJsonDeserializationSchema(TABLE)
CANAL = CanalJsonDeserializationSchema(TABLE)
MAXWELL = MaxwellJsonDeserializationSchema(TABLE)


def reported(schema, event):
    """The rows of an event, with their kinds in short."""
    message = event if isinstance(event, bytes) else json.dumps(event).encode()
    return [(str(row.get_row_kind()), *row) for row in schema.deserialize_many(message)]


BEFORE = (111, "scooter", Decimal("5.15"))
AFTER = (111, "scooter", Decimal("5.18"))


@pytest.mark.parametrize(
    ("schema", "event", "rows"),
    [
        pytest.param(DEBEZIUM, debezium("c", None, NEW), [("+I", *AFTER)], id="debezium insert"),
        pytest.param(DEBEZIUM, debezium("r", None, NEW), [("+I", *AFTER)], id="debezium snapshot"),
        pytest.param(DEBEZIUM, debezium("u", OLD, NEW), [("-U", *BEFORE), ("+U", *AFTER)], id="debezium update"),
        pytest.param(DEBEZIUM, debezium("d", OLD, None), [("-D", *BEFORE)], id="debezium delete"),
        pytest.param(DEBEZIUM, b"", [], id="debezium tombstone"),
        pytest.param(CANAL, canal("INSERT", [texts(OLD), texts(NEW)]), [("+I", *BEFORE), ("+I", *AFTER)], id="canal insert"),
        pytest.param(
            CANAL, canal("UPDATE", [texts(NEW)], [{"weight": "5.15"}]), [("-U", *BEFORE), ("+U", *AFTER)], id="canal update"
        ),
        pytest.param(
            CANAL, canal("UPDATE", [{"id": "1", "name": "a", "weight": "1"}] * 2, [{"name": None}, {}]),
            [("-U", 1, None, 1), ("+U", 1, "a", 1), ("-U", 1, "a", 1), ("+U", 1, "a", 1)], id="canal update from null",
        ),
        pytest.param(CANAL, canal("DELETE", [texts(OLD)]), [("-D", *BEFORE)], id="canal delete"),
        pytest.param(CANAL, canal("CREATE", None), [], id="canal create"),
        pytest.param(CANAL, canal("ALTER", None, isDdl=True, sql="alter table ..."), [], id="canal alter"),
        pytest.param(MAXWELL, maxwell("insert", NEW), [("+I", *AFTER)], id="maxwell insert"),
        pytest.param(MAXWELL, maxwell("bootstrap-insert", NEW), [("+I", *AFTER)], id="maxwell bootstrap"),
        pytest.param(MAXWELL, maxwell("bootstrap-start", {}), [], id="maxwell bootstrap starts"),
        pytest.param(MAXWELL, maxwell("update", NEW, {"weight": 5.15}), [("-U", *BEFORE), ("+U", *AFTER)], id="maxwell update"),
        pytest.param(MAXWELL, maxwell("delete", OLD), [("-D", *BEFORE)], id="maxwell delete"),
        pytest.param(MAXWELL, {"type": "table-alter", "database": "d", "table": "t", "sql": "..."}, [], id="maxwell alter"),
    ],
)  # fmt: skip
def test_an_event_is_rows_with_kinds(schema, event, rows):
    assert reported(pickle.loads(pickle.dumps(schema)), event) == rows


def test_events_of_debezium_may_come_with_their_schema():
    schema = {
        "type": "struct",
        "fields": [{"type": "int64", "field": "ts_ms"}],
        "name": "shop.Envelope",
    }
    read = DebeziumJsonDeserializationSchema(TABLE, schema_include=True, metadata=["schema"])
    wrapped = {"schema": schema, "payload": debezium("u", OLD, NEW)}
    text = json.dumps(schema, separators=(",", ":"))
    assert reported(read, wrapped) == [("-U", *BEFORE, text), ("+U", *AFTER, text)]
    assert reported(read, {"schema": None, "payload": None}) == []  # a tombstone
    with pytest.raises(RecordError, match="schema_include=True is for"):
        reported(read, debezium("c", None, NEW))
    with pytest.raises(RecordError, match="need schema_include=True"):
        reported(DEBEZIUM, wrapped)


def test_metadata_of_debezium_follows_the_tables_fields():
    keys = [key for key in DebeziumJsonDeserializationSchema.keys if key != "schema"]
    read = DebeziumJsonDeserializationSchema(TABLE, metadata=keys)
    [row] = read.deserialize_many(json.dumps(debezium("c", None, NEW)).encode())
    assert row["ingestion-timestamp"] == Instant.of_epoch_milli(1589355606123)
    assert row["source.timestamp"] == Instant.of_epoch_milli(1589355606100)
    found = (row["source.database"], row["source.schema"], row["source.table"])
    assert found == ("inventory", "public", "products")
    properties = row["source.properties"]
    assert (properties["connector"], properties["pos"], properties["thread"]) == (
        "mysql",
        "154",
        None,
    )
    assert read.get_produced_type().get_field_names() == ["id", "name", "weight", *keys]
    read.get_produced_type().validate(row)


def test_metadata_of_canal_and_maxwell_has_their_units():
    read = CanalJsonDeserializationSchema(TABLE, metadata=list(CanalJsonDeserializationSchema.keys))
    [(_, *values)] = reported(read, canal("INSERT", [texts(NEW)]))
    assert values[3:] == [
        "inventory", "products", {"id": 4, "name": 12, "weight": 7}, ["id"],
        Instant.of_epoch_milli(1589373560798), Instant.of_epoch_milli(1589373560000),
    ]  # fmt: skip
    read = MaxwellJsonDeserializationSchema(
        TABLE, metadata={"at": "ingestion-timestamp", "keys": "primary-key-columns"}
    )
    [row] = read.deserialize_many(json.dumps(maxwell("insert", NEW)).encode())
    assert (row.at, row.keys) == (Instant(1477053234), ["id"])


def test_metadata_that_an_event_has_not_is_none():
    read = DebeziumJsonDeserializationSchema(
        TABLE, metadata=["source.table", "source.timestamp", "source.properties"]
    )
    assert reported(read, {"op": "c", "after": NEW}) == [("+I", *AFTER, None, None, None)]


def test_events_of_other_tables_are_left_out():
    read = CanalJsonDeserializationSchema(TABLE, database_include="inv.*", table_include="prod")
    assert reported(read, canal("INSERT", [texts(NEW)])) == []  # whole names are compared
    read = CanalJsonDeserializationSchema(TABLE, database_include="inv.*", table_include="prod.*")
    assert len(reported(read, canal("INSERT", [texts(NEW)]))) == 1
    assert reported(read, canal("INSERT", [texts(NEW)], database="other")) == []


BAD = {
    DEBEZIUM: [
        (debezium("u", None, NEW), "REPLICA IDENTITY FULL"), (debezium("d", None, None), "REPLICA IDENTITY FULL"),
        (debezium("t", None, None), "op is not c"), (debezium("c", None, None), "after is not a JSON object"),
        (debezium("c", None, {"id": "x"}), "field 'id'"), ({}, "op is not c"),
    ],
    CANAL: [
        (canal("UPSERT", []), "type is not INSERT"), (canal("INSERT", None), "data is not a list"), (canal("INSERT", [5]), "not a JSON object"),
        (canal("UPDATE", [texts(NEW)], None), "old is not a list of 1 rows"), (canal("UPDATE", [texts(NEW)], [{}, {}]), "of 1 rows"),
        (canal("DELETE", [{"id": "x"}]), "field 'id'"),
    ],
    MAXWELL: [
        (maxwell("upsert", NEW), "type is not insert"), (maxwell("insert", None), "data is not a JSON object"),
        (maxwell("update", NEW), "old is not a JSON object"),
    ],
}  # fmt: skip
GOOD = {
    DEBEZIUM: json.dumps(debezium("u", OLD, NEW)).encode(),
    CANAL: json.dumps(canal("UPDATE", [texts(NEW)], [{"weight": "5.15"}])).encode(),
    MAXWELL: json.dumps(maxwell("update", NEW, {"weight": 5.15})).encode(),
}
CASES = [
    pytest.param(schema, event, match, id=f"{schema.name} {index}")
    for schema, cases in BAD.items()
    for index, (event, match) in enumerate(
        [*cases, (b"{", "change event"), (b"[]", "not a JSON object"), (b"\xff\xfe", "change event"), (b"[" * 99999, "change event")]
    )
]  # fmt: skip


@pytest.mark.parametrize(("schema", "event", "match"), CASES)
def test_one_malformed_event_is_reported_alone_wherever_it_stands(schema, event, match):
    bad = event if isinstance(event, bytes) else json.dumps(event).encode()
    good = GOOD[schema]
    for at in range(4):
        messages = [good, None, good]
        messages.insert(at, bad)
        found = schema.deserialize_batch(messages)
        assert [str(row.get_row_kind()) for row in found.records] == ["-U", "+U"] * 2
        assert [messages[index] for index in found.indexes] == [good] * 4
        [(index, error)] = found.failures
        assert index == at
        assert isinstance(error, RecordError)
        assert match in str(error)


@pytest.mark.parametrize(("schema", "event", "match"), CASES)
def test_malformed_events_are_left_out_where_parse_errors_are_ignored(schema, event, match):
    bad = event if isinstance(event, bytes) else json.dumps(event).encode()
    read = type(schema)(TABLE, ignore_parse_errors=True)
    found = read.deserialize_batch([bad, GOOD[schema], bad])
    assert (len(found.records), found.indexes, found.failures) == (2, [1, 1], [])


ROWS = st.builds(
    lambda kind, *values: Row.of_kind(kind, **dict(zip(["id", "name", "weight"], values, strict=True))),
    st.sampled_from(list(RowKind)),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    st.none() | st.decimals(allow_nan=False, allow_infinity=False, places=3),
)  # fmt: skip


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (DebeziumJsonSerializationSchema(TABLE), DEBEZIUM),
        (CanalJsonSerializationSchema(TABLE), CANAL),
        (MaxwellJsonSerializationSchema(TABLE), MAXWELL),
    ],
    ids=["debezium", "canal", "maxwell"],
)
@given(row=ROWS)
def test_roundtrip_with_updates_as_delete_and_insert(write, read, row):
    [found] = read.deserialize_many(pickle.loads(pickle.dumps(write)).serialize(row))
    gone = row.get_row_kind() in {RowKind.DELETE, RowKind.UPDATE_BEFORE}
    assert found.get_row_kind() is (RowKind.DELETE if gone else RowKind.INSERT)
    assert list(found) == list(row)


def test_a_row_that_json_cannot_hold_is_named():
    with pytest.raises(RecordError, match="cannot write a row as JSON"):
        DebeziumJsonSerializationSchema(TABLE).serialize((1, {1}, None))


def test_deserialize_rejects_messages_with_several_rows():
    assert DEBEZIUM.deserialize(json.dumps(debezium("c", None, NEW)).encode()) == Row(**dict(zip(["id", "name", "weight"], AFTER, strict=True)))  # fmt: skip
    assert DEBEZIUM.deserialize(b"") is None
    with pytest.raises(UnsupportedOperationError, match="deserialize_many"):
        DEBEZIUM.deserialize(GOOD[DEBEZIUM])


@pytest.mark.parametrize(
    "act",
    [
        lambda: DebeziumJsonDeserializationSchema(TABLE, metadata=["table"]),
        lambda: DebeziumJsonDeserializationSchema(TABLE, metadata="schema"),
        lambda: DebeziumJsonDeserializationSchema(TABLE, metadata={"id": "schema"}),
        lambda: CanalJsonDeserializationSchema(TABLE, table_include="("),
    ],
    ids=["unknown key", "a text", "a name twice", "pattern"],
)
def test_invalid_arguments_are_rejected_at_once(act):
    with pytest.raises(ArgumentError):
        act()
