"""Turns log messages about one table into changes, with the table's definition at that point of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.connectors.postgres_cdc.changes import (
    CREATE,
    DELETE,
    TRUNCATE,
    UPDATE,
    Change,
)
from penstock.connectors.postgres_cdc.chunks import SnapshotFilter
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.pgoutput import (
    UNCHANGED,
    PgOutputBegin,
    PgOutputDelete,
    PgOutputInsert,
    PgOutputRelation,
    PgOutputUpdate,
    Value,
)
from penstock.connectors.postgres_cdc.positions import format_lsn
from penstock.connectors.postgres_cdc.values import Converter, PostgresTypes
from penstock.errors import InvalidProgramError, RecordError


class BadValueError(RecordError):
    """A value of a column cannot be read."""

    def __init__(self, column: str, cause: Exception) -> None:
        super().__init__(f"a value of column '{column}' cannot be read: {cause}")
        self.column = column


class RowConverter:
    """Converts the text values of a row to Python values."""

    def __init__(self, columns: Sequence[str], types: Sequence[int], known: PostgresTypes) -> None:
        self.columns = tuple(columns)
        self._converters: list[Converter] = [known.converter(oid) for oid in types]

    def convert(self, values: Iterable[Any], unavailable: object = None) -> tuple[Any, ...]:
        """Return the values; raises BadValueError."""
        found: list[Any] = []
        for column, converter, value in zip(self.columns, self._converters, values, strict=True):
            if value is None:
                found.append(None)
            elif value is UNCHANGED:
                found.append(unavailable)
            else:
                try:
                    found.append(converter(value))
                except (ValueError, ArithmeticError) as error:
                    raise BadValueError(column, error) from error
        return tuple(found)


class TableChanges:
    """Turns messages about a relation into changes, without those that a snapshot already contains."""

    def __init__(
        self,
        options: CdcOptions,
        relation: PgOutputRelation,
        types: PostgresTypes,
        snapshot: SnapshotFilter | None,
        primary_key: Sequence[str] = (),
    ) -> None:
        self.relation = relation
        self._options = options
        self._snapshot = snapshot
        names = [column.name for column in relation.columns]
        self._rows = RowConverter(names, [column.type_oid for column in relation.columns], types)
        # With REPLICA IDENTITY FULL all columns are marked as key, and the log does not say which ones are the primary key.
        full = relation.identity == "f" and primary_key
        self._identity = [
            place
            for place, column in enumerate(relation.columns)
            if (column.name in primary_key if full else column.key)
        ]
        self._key: list[int] = []
        if snapshot is not None:
            self._key = self._places(snapshot.key, names)

    def _places(self, key: Sequence[str], names: list[str]) -> list[int]:
        missing = [name for name in key if name not in names]
        if missing:
            raise InvalidProgramError(
                f"the key of {self.relation} changed while its rows were read",
                detail=f"column {', '.join(missing)} no longer exists",
                hint="start the job without the checkpoint",
            )
        return [names.index(name) for name in key]

    def changes(
        self,
        message: PgOutputInsert | PgOutputUpdate | PgOutputDelete,
        begin: PgOutputBegin,
        number: int,
        *,
        filtered: bool,
    ) -> Change | None:
        """Return the change of a message, None if the snapshot contains it; raises BadValueError."""
        snapshot = self._snapshot if filtered else None
        if isinstance(message, PgOutputInsert):
            if snapshot is not None and self._has(snapshot, message.new, begin):
                return None
            return self._change(CREATE, begin, number, None, message.new)
        if isinstance(message, PgOutputDelete):
            before = message.old if message.old is not None else message.key
            assert before is not None
            if snapshot is not None and self._has(snapshot, before, begin):
                return None
            return self._change(DELETE, begin, number, before, None, key=message.old is None)
        return self._update(message, begin, number, snapshot)

    def _update(
        self,
        message: PgOutputUpdate,
        begin: PgOutputBegin,
        number: int,
        snapshot: SnapshotFilter | None,
    ) -> Change | None:
        before = message.old if message.old is not None else message.key
        new = message.new
        if (
            message.old is not None
        ):  # has all values, including those that the new row does not repeat
            new = tuple(
                old if value is UNCHANGED else value
                for old, value in zip(message.old, new, strict=True)
            )
        elif message.key is not None:
            new = tuple(
                old if value is UNCHANGED and old is not None else value
                for old, value in zip(message.key, new, strict=True)
            )
        if snapshot is not None:
            has_new = self._has(snapshot, new, begin)
            has_old = has_new if before is None else self._has(snapshot, before, begin)
            if has_old and has_new:
                return None
            if has_old:  # the snapshot contains the row under neither key
                return self._change(CREATE, begin, number, None, new)
            if has_new:  # the snapshot contains it under both
                key = message.old is None
                return self._change(DELETE, begin, number, before, None, key=key)
        if self._options.before_images:
            if message.old is None:
                raise RecordError(
                    f"an update of {self.relation} has no before image",
                    detail=f"at {format_lsn(begin.lsn)}, change {number}; the replica identity is no longer FULL",
                    hint=f"ALTER TABLE {self.relation} REPLICA IDENTITY FULL; changes written meanwhile can only be read with "
                    "include_before_image(False)",
                )
            return self._change(UPDATE, begin, number, message.old, new)
        if before is None or all(before[place] == new[place] for place in self._identity):
            return self._change(UPDATE, begin, number, None, new)
        key_only = tuple(
            value if place in self._identity else None for place, value in enumerate(before)
        )
        return self._change(UPDATE, begin, number, key_only, new, key=True)

    def truncated(self, begin: PgOutputBegin, number: int, *, filtered: bool) -> Change | None:
        """Return the truncation as a change, None if the snapshot contains it."""
        if filtered and self._snapshot is not None and self._snapshot.has_all(begin.xid):
            return None
        return self._change(TRUNCATE, begin, number, None, None)

    def _has(self, snapshot: SnapshotFilter, row: tuple[Value, ...], begin: PgOutputBegin) -> bool:
        key = [row[place] for place in self._key]
        if not all(isinstance(value, str) for value in key):
            raise RecordError(
                f"a change of {self.relation} does not contain the key of its row",
                detail=f"at {format_lsn(begin.lsn)}",
                hint="set REPLICA IDENTITY DEFAULT, with a primary key, or FULL",
            )
        return snapshot.has([str(value) for value in key], begin.xid)

    def _change(
        self,
        op: str,
        begin: PgOutputBegin,
        number: int,
        before: tuple[Value, ...] | None,
        after: tuple[Value, ...] | None,
        *,
        key: bool = False,
    ) -> Change:
        placeholder = self._options.unavailable_value
        return Change(
            op,
            self._options.database,
            self.relation.schema,
            self.relation.name,
            self._rows.columns,
            None if before is None else self._rows.convert(before),
            None if after is None else self._rows.convert(after, placeholder),
            key,
            begin.lsn,
            begin.xid,
            number,
            begin.commit_us // 1000,
        )
