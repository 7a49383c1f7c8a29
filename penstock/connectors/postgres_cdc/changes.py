"""A change of a row, and its deserialization: Rows with a RowKind, or dictionaries in Debezium's format."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.common.types import Row, RowKind
from penstock.connectors.postgres_cdc.positions import format_lsn
from penstock.errors import ArgumentError, UnsupportedOperationError

CREATE: Final = "c"
UPDATE: Final = "u"
DELETE: Final = "d"
READ: Final = "r"
TRUNCATE: Final = "t"

# Metadata columns that a row may have, with Flink CDC's names.
METADATA: Final = ("database_name", "schema_name", "table_name", "op_ts", "row_kind")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one row, or (`READ`) a row of the snapshot.

    `before` and `after` are values in the order of `columns`. `before` is None for new rows, and for updates without a before
    image; `before_is_key` says that it has the columns of the key only, the others being None. `commit_ms` is 0 for rows of the
    snapshot.
    """

    op: str
    database: str
    schema: str
    table: str
    columns: tuple[str, ...]
    before: tuple[Any, ...] | None
    after: tuple[Any, ...] | None
    before_is_key: bool = False
    lsn: int = 0
    xid: int = 0
    number: int = 0  # within the transaction, from 1
    commit_ms: int = 0


class ChangeDeserializationSchema(ABC):
    """Turns changes into records."""

    @abstractmethod
    def deserialize(self, change: Change) -> Sequence[Any]:
        """Return the records of a change, in order."""


class RowDeserializationSchema(ChangeDeserializationSchema):
    """Deserializes to Rows with the table's column names and a RowKind: +I, -U, +U, -D.

    `metadata` adds fields at the end of each row: database_name, schema_name, table_name, op_ts (the commit time in
    milliseconds; 0 in the snapshot), row_kind. Without before images there is no -U, and a change of the key is a -D and a +I.
    """

    def __init__(self, metadata: Sequence[str] = ()) -> None:
        unknown = [name for name in metadata if name not in METADATA]
        if unknown:
            raise ArgumentError(
                f"unknown metadata {', '.join(map(repr, unknown))}",
                hint=f"use some of {', '.join(METADATA)}",
            )
        self.metadata = tuple(metadata)

    def deserialize(self, change: Change) -> Sequence[Any]:
        """Return one row, or two for an update with a before image."""
        if change.op in {CREATE, READ}:
            return [self._row(RowKind.INSERT, change, change.after)]
        if change.op == DELETE:
            return [self._row(RowKind.DELETE, change, change.before)]
        if change.op == UPDATE:
            return self._update(change)
        raise UnsupportedOperationError(
            f"a truncation of {change.schema}.{change.table} cannot be expressed as rows",
            detail=f"at {format_lsn(change.lsn)}",
            hint="delete the rows instead, send these to a side output with on_error, or use DebeziumDeserializationSchema, "
            "which has an event for it",
        )

    def _update(self, change: Change) -> Sequence[Any]:
        after = RowKind.UPDATE_AFTER
        if change.before is None:
            return [self._row(after, change, change.after)]
        before = RowKind.UPDATE_BEFORE
        if change.before_is_key:
            before, after = RowKind.DELETE, RowKind.INSERT
        return [self._row(before, change, change.before), self._row(after, change, change.after)]

    def _row(self, kind: RowKind, change: Change, values: tuple[Any, ...] | None) -> Row:
        assert values is not None
        names = change.columns
        if self.metadata:
            known = {
                "database_name": change.database,
                "schema_name": change.schema,
                "table_name": change.table,
                "op_ts": change.commit_ms,
                "row_kind": str(kind),
            }
            values = (*values, *(known[name] for name in self.metadata))
            names = (*names, *self.metadata)
        row = Row(*values)
        row.set_field_names(names)
        row.set_row_kind(kind)
        return row


class DebeziumDeserializationSchema(ChangeDeserializationSchema):
    """Deserializes to dictionaries in the format of Debezium's events: before, after, op (r, c, u, d, t), ts_ms, source."""

    def deserialize(self, change: Change) -> Sequence[Any]:
        """Return one dictionary."""
        return [
            {
                "before": _named(change.columns, change.before),
                "after": _named(change.columns, change.after),
                "op": change.op,
                "ts_ms": int(time.time() * 1000),
                "source": {
                    "connector": "postgresql",
                    "db": change.database,
                    "schema": change.schema,
                    "table": change.table,
                    "txId": change.xid or None,
                    "lsn": change.lsn or None,
                    "ts_ms": change.commit_ms,
                    "snapshot": "true" if change.op == READ else "false",
                },
            }
        ]


def _named(columns: Sequence[str], values: Sequence[Any] | None) -> dict[str, Any] | None:
    return None if values is None else dict(zip(columns, values, strict=True))
