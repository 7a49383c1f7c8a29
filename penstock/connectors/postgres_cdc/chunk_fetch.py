"""Fetches the rows of a chunk in a thread, with one snapshot."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.connectors.postgres_cdc.bounded_queue import BoundedQueue
from penstock.connectors.postgres_cdc.catalog import connect, load_types
from penstock.connectors.postgres_cdc.chunks import SnapshotChunk
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.positions import Segment, parse_lsn
from penstock.connectors.postgres_cdc.values import PostgresTypes

_FETCHES_AHEAD: Final = 2


@dataclass(frozen=True, slots=True)
class Fetched:
    """Rows with values in PostgreSQL's text form, and the position after them."""

    rows: list[tuple[str | None, ...]]
    position: tuple[Segment, ...]


class ChunkFetch:
    """A thread that fetches the rest of a chunk. `types` are those of the table's columns, set once something was fetched."""

    def __init__(
        self,
        options: CdcOptions,
        chunk: SnapshotChunk,
        position: tuple[Segment, ...],
        wake: Callable[[], None],
    ) -> None:
        self._options = options
        self._chunk = chunk
        self._start = position
        self.types = PostgresTypes()
        self.mailbox: BoundedQueue[Fetched | Exception] = BoundedQueue(
            _FETCHES_AHEAD, wake, lambda: None
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-cdc-rows", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end soon."""
        self._stopped.set()

    def _run(self) -> None:
        try:
            with connect(self._options, "penstock-cdc") as connection:
                missing = self.types.missing(self._chunk.table.types)
                if missing:
                    self.types.add(load_types(connection, missing))
                self._fetch(connection)
        except Exception as error:  # noqa: BLE001 - the task raises it
            self.mailbox.put(error)

    def _fetch(self, connection: Any) -> None:
        chunk, width = self._chunk, len(self._chunk.table.key)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # The snapshot is taken before the functions run, so the log's end is after everything the snapshot sees.
        snapshot, lsn = connection.execute(
            "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
        ).fetchone()
        query, parameters = chunk.query(self._start[-1].upto if self._start else chunk.lower)
        import psycopg

        # DECLARE takes no server-side parameters, so the client writes them into the statement.
        cursor = psycopg.ClientCursor(connection)
        cursor.execute(f"DECLARE penstock_rows NO SCROLL CURSOR FOR {query}", parameters)
        size, last = self._options.fetch_size, False
        while not last and not self._stopped.is_set():
            connection_cursor = connection.execute(f"FETCH {size} FROM penstock_rows")
            rows = _raw_rows(connection_cursor.pgresult)
            last = len(rows) < size
            upto = None if last else tuple(str(value) for value in rows[-1][:width])
            segment = Segment(snapshot, parse_lsn(lsn), upto)
            fetched = Fetched([row[width:] for row in rows], (*self._start, segment))
            while self.mailbox.full and not self._stopped.is_set():
                self.mailbox.wait_for_room(0.5)
            self.mailbox.put(fetched)
        connection.execute("ROLLBACK")


def _raw_rows(result: Any) -> list[tuple[str | None, ...]]:
    get, columns = result.get_value, range(result.nfields)
    return [
        tuple(
            None if (value := get(row, column)) is None else bytes(value).decode()
            for column in columns
        )
        for row in range(result.ntuples)
    ]
