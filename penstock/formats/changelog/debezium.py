"""Debezium's change events as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.common.typeinfo import Types
from penstock.common.types import RowKind
from penstock.formats.changelog.change_events import (
    Change,
    ChangeEventSchema,
    ChangeEventWriter,
    Document,
    moment_at,
    table_row,
    text_at,
)


def _properties(envelope: Document) -> dict[str, str | None] | None:
    """Return all fields of the source struct, as str."""
    source = envelope.get("source")
    if not isinstance(source, dict):
        return None
    return {
        name: value if value is None or isinstance(value, str) else json.dumps(value, default=str)
        for name, value in source.items()
    }


class DebeziumJsonDeserializationSchema(ChangeEventSchema):
    """Deserializes Debezium's change events to Rows: c and r are +I, u is -U and +U, d is -D. Tombstones are skipped.

    `type_info` is the type of the table's rows; `schema_include` is for events of Kafka Connect's JSON converter with schemas.
    `metadata` names fields of the envelope that are appended to each row (a dict renames them): `schema`,
    `ingestion-timestamp`, `source.timestamp`, `source.database`, `source.schema`, `source.table`, `source.properties`.

    >>> table = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    >>> read = DebeziumJsonDeserializationSchema(table, metadata={"origin": "source.table"})
    >>> event = b'{"before": null, "after": {"id": 1, "name": "a"}, "source": {"table": "users"}, "op": "c"}'
    >>> [(str(row.get_row_kind()), row) for row in read.deserialize_many(event)]
    [('+I', Row(id=1, name='a', origin='users'))]
    """

    name = "Debezium"
    keys = {
        "schema": (Types.STRING(), lambda envelope: envelope.get("schema text")),
        "ingestion-timestamp": moment_at("ts_ms"),
        "source.timestamp": moment_at("source", "ts_ms"),
        "source.database": text_at("source", "db"),
        "source.schema": text_at("source", "schema"),
        "source.table": text_at("source", "table"),
        "source.properties": (Types.MAP(Types.STRING(), Types.STRING()), _properties),
    }

    def __init__(
        self,
        type_info: Any,
        *,
        schema_include: bool = False,
        metadata: Sequence[str] | Mapping[str, str] = (),
        ignore_parse_errors: bool = False,
    ) -> None:
        super().__init__(type_info, metadata=metadata, ignore_parse_errors=ignore_parse_errors)
        self._schema_include = schema_include

    def changes(self, envelope: Document) -> Iterable[Change]:
        """Return the changes of an event."""
        if self._schema_include and not self._unwrap(envelope):
            return []
        operation = envelope.get("op")
        if operation in {"c", "r"}:
            return [(RowKind.INSERT, table_row(envelope.get("after"), "after"))]
        if operation == "u":
            return [
                (RowKind.UPDATE_BEFORE, _before(envelope, "an update")),
                (RowKind.UPDATE_AFTER, table_row(envelope.get("after"), "after")),
            ]
        if operation == "d":
            return [(RowKind.DELETE, _before(envelope, "a delete"))]
        if operation is None and not self._schema_include and "payload" in envelope:
            raise ValueError(
                "the event has a payload: events with a schema need schema_include=True"
            )
        raise ValueError(f"op is not c, r, u or d: {operation!r}")

    @staticmethod
    def _unwrap(envelope: Document) -> bool:
        """Replace the envelope with its payload, with the schema as text; False if there is no payload."""
        schema, event = envelope.get("schema"), envelope.get("payload")
        if event is None and "payload" in envelope:  # a tombstone
            return False
        if not isinstance(event, dict):
            raise ValueError(  # noqa: TRY004 - the data is wrong
                "the event has no payload: schema_include=True is for events with a schema"
            )
        envelope.clear()
        envelope.update(event)
        if schema is not None:
            envelope["schema text"] = json.dumps(schema, separators=(",", ":"), default=str)
        return True


def _before(envelope: Document, what: str) -> Document:
    before = envelope.get("before")
    if before is None:
        raise ValueError(
            f"before is null in {what}: the database must log the whole old row "
            "(in PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL)"
        )
    return table_row(before, "before")


class DebeziumJsonSerializationSchema(ChangeEventWriter):
    """Serializes Rows as Debezium's change events: +I and +U as c, -U and -D as d, like Flink.

    >>> table = Types.ROW_NAMED(["id"], [Types.LONG()])
    >>> DebeziumJsonSerializationSchema(table).serialize((1,))
    b'{"before":null,"after":{"id":1},"op":"c"}'
    """

    before = '{"before":%s,"after":null,"op":"d"}'
    after = '{"before":null,"after":%s,"op":"c"}'
