"""Canal's and Maxwell's change events as JSON, for MySQL tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.common.typeinfo import Types
from penstock.common.types import RowKind
from penstock.formats.changelog.change_events import (
    Change,
    ChangeEventSchema,
    ChangeEventWriter,
    Document,
    check_pattern,
    moment_at,
    replaced,
    table_row,
    text_at,
    texts_at,
)

_MAXWELL_WITHOUT_ROWS = ("bootstrap-", "table-", "database-")


class CanalJsonDeserializationSchema(ChangeEventSchema):
    """Deserializes Canal's change events to Rows with a RowKind. One message may contain many changes; DDL events are skipped.

    `database_include` and `table_include` are regular expressions; other events are skipped. `metadata` names fields of the
    envelope that are appended to each row: `database`, `table`, `sql-type`, `pk-names`, `ingestion-timestamp`, `event-timestamp`.

    >>> table = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    >>> event = b'{"data": [{"id": "1", "name": "b"}], "old": [{"name": "a"}], "type": "UPDATE"}'
    >>> rows = CanalJsonDeserializationSchema(table).deserialize_many(event)
    >>> [(str(row.get_row_kind()), row) for row in rows]
    [('-U', Row(id=1, name='a')), ('+U', Row(id=1, name='b'))]
    """

    name = "Canal"
    keys = {
        "database": text_at("database"),
        "table": text_at("table"),
        "sql-type": (
            Types.MAP(Types.STRING(), Types.INT()),
            lambda envelope: envelope.get("sqlType"),
        ),
        "pk-names": texts_at("pkNames"),
        "ingestion-timestamp": moment_at("ts"),
        "event-timestamp": moment_at("es"),
    }

    def __init__(
        self,
        type_info: Any,
        *,
        database_include: str | None = None,
        table_include: str | None = None,
        metadata: Sequence[str] | Mapping[str, str] = (),
        ignore_parse_errors: bool = False,
    ) -> None:
        super().__init__(type_info, metadata=metadata, ignore_parse_errors=ignore_parse_errors)
        self._wanted = [
            (key, pattern)
            for key, pattern in (
                ("database", check_pattern(database_include, "database_include")),
                ("table", check_pattern(table_include, "table_include")),
            )
            if pattern is not None
        ]

    def changes(self, envelope: Document) -> Iterable[Change]:
        """Return the changes of an event."""
        for key, pattern in self._wanted:
            if pattern.fullmatch(str(envelope.get(key))) is None:
                return []
        kind, data = envelope.get("type"), envelope.get("data")
        if envelope.get("isDdl") is True or (kind == "CREATE" and data is None):
            return []
        if kind not in {"INSERT", "UPDATE", "DELETE"}:
            raise ValueError(f"type is not INSERT, UPDATE or DELETE: {kind!r}")
        if not isinstance(data, list):
            raise ValueError(f"data is not a list: {data!r:.100}")  # noqa: TRY004 - the data is wrong
        rows = [table_row(each, "a row of data") for each in data]
        if kind == "UPDATE":
            return _updates(rows, envelope.get("old"))
        found = RowKind.INSERT if kind == "INSERT" else RowKind.DELETE
        return [(found, row) for row in rows]


def _updates(rows: list[Document], old: object) -> list[Change]:
    if not isinstance(old, list) or len(old) != len(rows):
        raise ValueError(f"old is not a list of {len(rows)} rows: {old!r:.100}")
    changes: list[Change] = []
    for row, before in zip(rows, old, strict=True):
        changes.append((RowKind.UPDATE_BEFORE, replaced(row, before)))
        changes.append((RowKind.UPDATE_AFTER, row))
    return changes


class CanalJsonSerializationSchema(ChangeEventWriter):
    """Serializes Rows as Canal's change events: +I and +U as INSERT, -U and -D as DELETE, like Flink.

    >>> table = Types.ROW_NAMED(["id"], [Types.LONG()])
    >>> CanalJsonSerializationSchema(table).serialize((1,))
    b'{"data":[{"id":1}],"type":"INSERT"}'
    """

    before = '{"data":[%s],"type":"DELETE"}'
    after = '{"data":[%s],"type":"INSERT"}'


class MaxwellJsonDeserializationSchema(ChangeEventSchema):
    """Deserializes Maxwell's change events to Rows with a RowKind; bootstrap rows are inserts, DDL events are skipped.

    `metadata` names fields of the envelope that are appended to each row: `database`, `table`, `primary-key-columns`,
    `ingestion-timestamp`.
    """

    name = "Maxwell"
    keys = {
        "database": text_at("database"),
        "table": text_at("table"),
        "primary-key-columns": texts_at("primary_key_columns"),
        "ingestion-timestamp": moment_at("ts", millis=1000),  # Maxwell's unit is seconds
    }

    def changes(self, envelope: Document) -> Iterable[Change]:
        """Return the changes of an event."""
        kind = envelope.get("type")
        if kind in {"insert", "bootstrap-insert"}:
            return [(RowKind.INSERT, table_row(envelope.get("data"), "data"))]
        if kind == "delete":
            return [(RowKind.DELETE, table_row(envelope.get("data"), "data"))]
        if kind == "update":
            after = table_row(envelope.get("data"), "data")
            return [
                (RowKind.UPDATE_BEFORE, replaced(after, envelope.get("old"))),
                (RowKind.UPDATE_AFTER, after),
            ]
        if isinstance(kind, str) and kind.startswith(_MAXWELL_WITHOUT_ROWS):
            return []
        raise ValueError(f"type is not insert, update or delete: {kind!r}")


class MaxwellJsonSerializationSchema(ChangeEventWriter):
    """Serializes Rows as Maxwell's change events: +I and +U as insert, -U and -D as delete, like Flink."""

    before = '{"data":%s,"type":"delete"}'
    after = '{"data":%s,"type":"insert"}'
