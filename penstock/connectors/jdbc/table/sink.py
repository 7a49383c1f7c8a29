"""Writing a changing table to a database: the latest row of each key is put, or deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.common.types import RowKind
from penstock.common.user_types import StateValue
from penstock.connectors.base.sink import Sink, SinkWriter, WriterContext
from penstock.connectors.jdbc.failures import with_retries
from penstock.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions
from penstock.connectors.jdbc.session import JdbcSession, open_session
from penstock.connectors.jdbc.table.statements import delete, upsert
from penstock.errors import PenstockError
from penstock.time import clock

_GOES = (RowKind.DELETE, RowKind.UPDATE_BEFORE)


class JdbcUpsertSink(Sink):
    """Upserts and deletes by key. Delivery is at least once, and repeating it changes nothing: the table is as if rows came once."""

    def __init__(
        self,
        connection: JdbcConnectionOptions,
        execution: JdbcExecutionOptions,
        table: str,
        names: Sequence[str],
        keys: Sequence[str],
    ) -> None:
        dialect = connection.target.kind
        self._connection = connection
        self._execution = execution
        self._upsert = upsert(table, names, keys, dialect)
        self._delete = delete(table, keys, dialect)
        self._keys = [list(names).index(key) for key in keys]

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Connect when the first rows are sent."""
        sessions = [open_session(self._connection, sql) for sql in (self._upsert, self._delete)]
        return UpsertWriter(sessions[0], sessions[1], self._keys, self._execution)


class UpsertWriter(SinkWriter):
    """Keeps the latest row of each key until there are enough, the time is over, or a barrier comes."""

    def __init__(
        self,
        upserts: JdbcSession,
        deletes: JdbcSession,
        keys: Sequence[int],
        execution: JdbcExecutionOptions,
    ) -> None:
        self._upserts = upserts
        self._deletes = deletes
        self._keys = tuple(keys)
        self._size = execution.get_batch_size()
        self._interval = execution.get_batch_interval_ms()
        self._retries = execution.get_max_retries()
        self._rows: dict[tuple[Any, ...], tuple[Any, ...] | None] = {}
        self._since_ms = 0

    def write(self, values: list[Any], timestamps: Any, watermark: int) -> None:
        """Take rows."""
        if not self._rows:
            self._since_ms = clock.now_ms()
        for row in values:
            fields = tuple(row)
            key = tuple(fields[at] for at in self._keys)
            self._rows.pop(key, None)  # the order of the latest changes counts
            self._rows[key] = None if row.get_row_kind() in _GOES else fields
        if self._size and len(self._rows) >= self._size:
            self._send()

    def next_wakeup(self) -> int | None:
        """Return when the time of the collected rows is over."""
        return self._since_ms + self._interval if self._interval and self._rows else None

    def wake_up(self) -> None:
        """Flush the buffered rows."""
        self._send()

    def prepare_commit(self) -> list[Any]:
        """Flush the buffered rows; there is nothing to commit."""
        self._send()
        return []

    def close(self) -> None:
        """Leave the database."""
        self._upserts.leave()
        self._deletes.leave()

    def _send(self) -> None:
        gone = [key for key, row in self._rows.items() if row is None]
        there = [row for row in self._rows.values() if row is not None]
        self._put(self._deletes, gone)
        self._put(self._upserts, there)
        self._rows = {}

    def _put(self, session: JdbcSession, rows: list[tuple[Any, ...]]) -> None:
        if not rows:
            return
        try:
            with_retries(lambda: session.write(rows), self._retries, lambda _: session.leave())
        except PenstockError:
            raise
        except Exception as error:
            raise session.explain(error, rows) from error
