"""The enumerator: creates slot and publication, splits the tables into chunks, and assigns the log once all chunks are read.

The slot is created before the first chunk is read, so the log from there on has every change that a chunk may lack. Each
chunk is read with a snapshot of its own, at any time, and again if a task fails. A snapshot names the transactions that it
sees; the reader of the log skips changes of those transactions in the chunk. No chunk has to wait for another one, and
nothing but the slot has to survive a failure.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.connectors.base.source import SourceSplit, SplitEnumerator, SplitProgress
from penstock.connectors.postgres_cdc.catalog import (
    CdcTable,
    ServerUnavailableError,
    connect,
    find_tables,
    published,
)
from penstock.connectors.postgres_cdc.chunks import SnapshotChunk, boundary_query, table_snapshot
from penstock.connectors.postgres_cdc.options import CdcOptions, StartupMode
from penstock.connectors.postgres_cdc.positions import Segment, StreamPosition, parse_lsn
from penstock.connectors.postgres_cdc.slots import (
    check_plugin,
    check_server,
    check_slot,
    create_slot,
    ensure_publication,
    find_slot,
    wait_for_writers,
)
from penstock.errors import InvalidProgramError
from penstock.time import clock

_LOOK_S: Final = 0.5  # how long one call may look for chunks
LOG: Final = "log"  # the split id of the log


@dataclass(frozen=True, slots=True)
class LogPayload:
    """Payload of the log's split: the application name that distinguishes its reader from those of other jobs."""

    owner: str


@dataclass(frozen=True, slots=True)
class CdcState:
    """The enumerator's checkpointed state.

    `table`, `number` and `lower` say where the next chunk begins; `chunks` are the chunks found so far, by split id, and `ends`
    the snapshots with which the finished ones were read.
    """

    owner: str
    tables: tuple[CdcTable, ...] = ()
    start_lsn: int = 0
    started_ms: int = 0
    table: int = 0
    number: int = 0
    lower: tuple[str, ...] | None = None
    chunks: dict[str, SnapshotChunk] = field(default_factory=dict)
    ends: dict[str, tuple[Segment, ...]] = field(default_factory=dict)
    streaming: bool = False


class CdcEnumerator(SplitEnumerator):
    """Finds chunks, then the log."""

    def __init__(self, options: CdcOptions, restored: CdcState | None) -> None:
        self._options = options
        self._state: CdcState | None = restored
        self._checked = restored is None  # whether the slot of a restored job was checked
        self._connection: Any = None
        self._away_since: float | None = None

    def discover(self) -> Iterable[SourceSplit]:
        """Return newly found chunks, or the log once all chunks are read."""
        if self._state is not None and self._state.streaming:
            self.close()
            return []
        try:
            found = self._look()
        except self._away_errors() as error:
            return self._wait(error)
        self._away_since = None
        return found

    @staticmethod
    def _away_errors() -> tuple[type[Exception], ...]:
        import psycopg

        return (ServerUnavailableError, psycopg.OperationalError)

    def _wait(self, error: Exception) -> list[SourceSplit]:
        """Retry later, unless the server has been unreachable for too long or was never reachable."""
        # Not `retry`: the caller must not wait, and asks again soon.
        self.close()
        now = time.monotonic()
        self._away_since = self._away_since or now
        if self._state is None or now - self._away_since > self._options.connect_timeout_s:
            raise error
        return []

    def _look(self) -> list[SourceSplit]:
        if self._connection is None:
            self._connection = connect(self._options, "penstock-cdc")
        if self._state is None:
            return self._begin()
        if not self._checked:
            self._check_restored(self._state)
        found = self._chunks()
        state = self._state
        if (
            not found
            and not self._more_chunks
            and len(state.ends) == len(state.chunks)
            and self._options.startup.mode is not StartupMode.SNAPSHOT
        ):
            return [self._log(state)]
        return found

    # Start

    def _begin(self) -> list[SourceSplit]:
        options, mode = self._options, self._options.startup.mode
        tables = find_tables(self._connection, options)
        owner = f"penstock-cdc-{uuid.uuid4().hex}"
        if mode in {StartupMode.INITIAL, StartupMode.SNAPSHOT}:
            _check_keys(tables, options)
        if mode is StartupMode.SNAPSHOT:
            self._state = CdcState(owner, tuple(tables), started_ms=clock.now_ms())
            return self._chunks()
        start = self._prepare_log(tables, owner)
        if mode is StartupMode.INITIAL:
            kept = [published(self._connection, options.publication, table) for table in tables]
            self._state = CdcState(owner, tuple(kept), start, clock.now_ms())
            return self._chunks()
        return [self._log(CdcState(owner, start_lsn=start))]

    def _prepare_log(self, tables: Sequence[CdcTable], owner: str) -> int:
        """Create publication and slot, and return the position from which the log is read."""
        options, connection = self._options, self._connection
        check_server(connection, options)
        if options.before_images:
            _check_identities(tables, options)
        slot = find_slot(connection, options.slot)
        if slot is None and options.startup.mode is StartupMode.COMMITTED_OFFSET:
            raise InvalidProgramError(
                f"replication slot '{options.slot}' does not exist in {options.server}",
                hint="use StartupOptions.initial() or latest(), which create it",
            )
        # The log is decoded with the catalog of that time: a publication created after the slot does not exist there yet.
        changed = ensure_publication(connection, options, tables)
        if slot is None:
            return create_slot(options, owner)
        check_plugin(slot, options)
        check_slot(slot, options, StreamPosition(slot.confirmed))
        if changed:
            wait_for_writers(connection, options.connect_timeout_s)
        if options.startup.mode is StartupMode.LATEST_OFFSET:
            (now,) = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            return max(slot.confirmed, parse_lsn(now))
        return slot.confirmed

    def _check_restored(self, state: CdcState) -> None:
        if self._options.startup.mode is not StartupMode.SNAPSHOT:
            slot = find_slot(self._connection, self._options.slot)
            check_slot(slot, self._options, StreamPosition(state.start_lsn))
        self._checked = True

    # Chunks

    @property
    def _more_chunks(self) -> bool:
        return self._state is not None and self._state.table < len(self._state.tables)

    def _chunks(self) -> list[SourceSplit]:
        """Find chunks for a while; the next call finds the rest."""
        found: list[SourceSplit] = []
        end = time.monotonic() + _LOOK_S
        while self._more_chunks and (not found or time.monotonic() < end):
            found.append(self._next_chunk())
        return found

    def _next_chunk(self) -> SourceSplit:
        state = self._state
        assert state is not None
        table = state.tables[state.table]
        upper = self._boundary(table, state.lower) if table.chunkable else None
        chunk = SnapshotChunk(table, state.lower, upper, state.started_ms)
        split_id = f"{table}:{state.number}"
        state.chunks[split_id] = chunk
        if upper is None:
            self._state = replace(state, table=state.table + 1, number=0, lower=None)
        else:
            self._state = replace(state, number=state.number + 1, lower=upper)
        return SourceSplit(split_id, chunk, None, bounded=True)

    def _boundary(self, table: CdcTable, lower: tuple[str, ...] | None) -> tuple[str, ...] | None:
        query, parameters = boundary_query(table, lower)
        row = self._connection.execute(
            query, [*parameters, self._options.chunk_size - 1]
        ).fetchone()
        return None if row is None else tuple(row)

    def observe_finished(self, finished: Sequence[SplitProgress]) -> None:
        """Record the snapshots that finished chunks were read with."""
        state = self._state
        if state is None:
            return
        for each in finished:
            if each.split.split_id in state.chunks:
                state.ends[each.split.split_id] = tuple(each.position)

    # The log

    def _log(self, state: CdcState) -> SourceSplit:
        """Return the split of the log; the chunks are dropped from the state."""
        snapshots = tuple(
            table_snapshot(
                table,
                [
                    (chunk, state.ends[name])
                    for name, chunk in state.chunks.items()
                    if (chunk.table.schema, chunk.table.name) == (table.schema, table.name)
                ],
            )
            for table in state.tables
        )
        caught_up = max(
            (segment.lsn for segments in state.ends.values() for segment in segments), default=0
        )
        self._state = CdcState(state.owner, streaming=True)
        start = StreamPosition(state.start_lsn, 0, caught_up, snapshots)
        return SourceSplit(LOG, LogPayload(state.owner), start)

    def no_more_splits(self) -> bool:
        """Whether a snapshot-only source has found all its chunks; the log never ends."""
        only_rows = self._options.startup.mode is StartupMode.SNAPSHOT
        return only_rows and self._state is not None and not self._more_chunks

    def snapshot(self) -> CdcState | None:
        """Return the chunks and their snapshots, for a checkpoint."""
        state = self._state
        if state is None:
            return None
        return replace(state, chunks=dict(state.chunks), ends=dict(state.ends))

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _check_keys(tables: Sequence[CdcTable], options: CdcOptions) -> None:
    without = [str(table) for table in tables if not table.key]
    if without:
        raise InvalidProgramError(
            "tables without a primary key cannot be split into chunks",
            detail=f"{', '.join(without)} of {options.server}",
            hint="add a primary key, or set REPLICA IDENTITY USING INDEX; StartupOptions.latest() reads changes only",
        )


def _check_identities(tables: Sequence[CdcTable], options: CdcOptions) -> None:
    partial = [table for table in tables if table.identity != "f"]
    if partial:
        raise InvalidProgramError(
            "the log will not contain before images",
            detail=f"{', '.join(map(str, partial))} of {options.server}: the replica identity is not FULL",
            hint=f"ALTER TABLE {partial[0].sql} REPLICA IDENTITY FULL, or include_before_image(False): updates have no -U then, "
            "and deletes contain the key only",
        )
