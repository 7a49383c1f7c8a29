"""Reads chunks of tables: each existing row becomes an insertion."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.connectors.base.source import (
    MalformedRecord,
    NonBlockingReadLimits,
    ReadLimits,
    SourceBatch,
    SourceSplit,
)
from penstock.connectors.postgres_cdc.catalog import ServerUnavailableError
from penstock.connectors.postgres_cdc.changes import READ, Change
from penstock.connectors.postgres_cdc.chunk_fetch import ChunkFetch, Fetched
from penstock.connectors.postgres_cdc.chunks import SnapshotChunk
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.positions import Segment
from penstock.connectors.postgres_cdc.table_changes import BadValueError, RowConverter

_PAUSE_S: Final = 0.2  # between two attempts to reach the server


class ChunkReader:
    """Reads one chunk at a time. A chunk whose reading was interrupted resumes after its last key, with another snapshot."""

    def __init__(self, options: CdcOptions, wake: Callable[[], None]) -> None:
        self._options = options
        self._wake = wake
        self._split: str | None = None
        self._position: tuple[Segment, ...] = ()
        self._fetch: ChunkFetch | None = None
        self._away_since: float | None = None
        self._try_at = 0.0

    def read(
        self, split: SourceSplit, position: tuple[Segment, ...] | None, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Yield the rows from a position on, until the chunk is finished; an empty batch means that none are available yet."""
        position = position or ()
        if self._split != split.split_id or self._position != position:
            self.stop()
            self._split, self._position = split.split_id, position
        while not _is_complete(self._position):
            fetched = self._next(split.payload)
            if fetched is not None:
                self._position = fetched.position
                yield self._batch(split.payload, fetched)
            elif isinstance(limits, NonBlockingReadLimits) or limits.expired:
                yield SourceBatch([], self._position or None)
            else:
                self._wait(limits)
        self.stop()

    def _next(self, chunk: SnapshotChunk) -> Fetched | None:
        if self._fetch is None:
            if time.monotonic() < self._try_at:
                return None
            self._fetch = ChunkFetch(self._options, chunk, self._position, self._wake)
        found = self._fetch.mailbox.take()
        if isinstance(found, Exception):
            self._on_error(found)
            return None
        if found is not None:
            self._away_since = None
        return found

    def _on_error(self, error: Exception) -> None:
        """Try again with another snapshot if the server may come back."""
        # Not `retry`: the reader must not sleep. Later calls reconnect, from `_try_at` on, and meanwhile other splits are read.
        import psycopg

        self._stop_fetch()
        if not isinstance(error, ServerUnavailableError | psycopg.OperationalError):
            raise error
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since > self._options.connect_timeout_s:
            raise error
        self._try_at = now + _PAUSE_S

    def _wait(self, limits: ReadLimits) -> None:
        left = limits.remaining
        seconds = 0.5 if left is None else min(0.5, left)
        if self._fetch is None:
            time.sleep(min(seconds, 0.02))
        else:
            self._fetch.mailbox.wait(seconds)

    def next_ready(self) -> float:
        """Return the number of seconds until there may be rows; a finished chunk is ready at once."""
        if _is_complete(self._position):
            return 0.0
        if self._fetch is None:
            return max(0.0, self._try_at - time.monotonic())
        return float("inf") if self._fetch.mailbox.sleeps() else 0.0

    def _batch(self, chunk: SnapshotChunk, fetched: Fetched) -> SourceBatch:
        assert self._fetch is not None
        table, options = chunk.table, self._options
        rows = RowConverter(table.columns, table.types, self._fetch.types)
        records: list[Any] = []
        malformed: list[MalformedRecord] = []
        for row in fetched.rows:
            try:
                values = rows.convert(row)
                change = Change(
                    READ, options.database, table.schema, table.name, rows.columns, None, values
                )
                records += options.deserializer.deserialize(change)
            except Exception as error:  # noqa: BLE001 - the deserialiser may be the user's
                origin = {"server": options.server, "table": str(table), "lsn": "snapshot"}
                if isinstance(error, BadValueError):
                    origin["column"] = error.column
                malformed.append(MalformedRecord.of(row, error, origin, timestamp=chunk.started_ms))
        timestamps = [chunk.started_ms] * len(records)
        return SourceBatch(records, fetched.position, timestamps, malformed=malformed)

    def _stop_fetch(self) -> None:
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            fetch.stop()

    def stop(self) -> None:
        """Stop fetching."""
        self._stop_fetch()
        self._split = None


def _is_complete(position: tuple[Segment, ...]) -> bool:
    return bool(position) and position[-1].upto is None
