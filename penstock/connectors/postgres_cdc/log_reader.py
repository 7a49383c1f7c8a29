"""Reads the log: messages of the receiving thread become batches of records, each with the position after it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.connectors.base.source import (
    MalformedRecord,
    NonBlockingReadLimits,
    ReadLimits,
    SourceBatch,
)
from penstock.connectors.postgres_cdc.catalog import ServerUnavailableError
from penstock.connectors.postgres_cdc.changes import Change
from penstock.connectors.postgres_cdc.chunks import SnapshotFilter
from penstock.connectors.postgres_cdc.log_receiver import (
    LogReceiver,
    ReachedPosition,
    ReceivedMessage,
)
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.pgoutput import (
    PgOutputBegin,
    PgOutputCommit,
    PgOutputDelete,
    PgOutputInsert,
    PgOutputLogicalMessage,
    PgOutputOrigin,
    PgOutputRelation,
    PgOutputTruncate,
    PgOutputType,
    PgOutputUpdate,
    decode,
)
from penstock.connectors.postgres_cdc.positions import StreamPosition, format_lsn
from penstock.connectors.postgres_cdc.table_changes import BadValueError, TableChanges
from penstock.errors import RecordError

_PAUSE_S: Final = 0.2  # between two attempts to reach the server


class LogReader:
    """Reads one slot. The connection stays open between two calls of `read` if the second one resumes where the first ended."""

    def __init__(self, options: CdcOptions, owner: str, wake: Callable[[], None]) -> None:
        self._options = options
        self._owner = owner
        self._wake = wake
        #: None while there is no connection.
        self._receiver: LogReceiver | None = None
        #: After the last message that was taken; None before the first `read`.
        self._position: StreamPosition | None = None
        #: The position that the task knows: never after `_position`.
        self._given: StreamPosition | None = None
        #: When the server became unavailable (monotonic); None while messages arrive.
        self._away_since: float | None = None
        #: No connection is opened before this moment (monotonic).
        self._try_at = 0.0
        #: Log positions of complete checkpoints, oldest first; the first may be confirmed.
        self._durable: deque[int] = deque(maxlen=options.confirm_delay + 1)
        #: The server may drop the log before this position; it never goes back.
        self._confirmed = 0
        #: By relation, of this connection; None: the table is not captured.
        self._tables: dict[int, TableChanges | None] = {}
        #: By schema and table: which changes the snapshot already has.
        self._filters: dict[tuple[str, str], SnapshotFilter] = {}
        #: Of the transaction whose changes arrive; None between transactions.
        self._begin: PgOutputBegin | None = None
        #: Of the last change within the transaction.
        self._number = 0
        #: Metric: from the commit of the last transaction to its arrival.
        self.fetch_lag_ms = 0
        #: Metric: when the last transaction began to arrive.
        self.active_ms = int(time.time() * 1000)

    # Called by the runtime

    def read(self, position: StreamPosition, limits: ReadLimits) -> Iterator[SourceBatch]:
        """Yield available records; wait for more only if that is allowed and there are none."""
        waits = not isinstance(limits, NonBlockingReadLimits)
        if self._position != position:
            self.stop()
            self._position = position
        self._given = position
        found = False
        while True:
            batch = self._next_batch(limits.batch_size)
            assert self._position is not None
            if batch.records or batch.malformed:
                found = True
                self._given = self._position
                yield batch
                if waits and limits.expired:
                    return
                continue
            if found or not waits or not self._wait(limits):
                break
        if self._given < self._position:
            self._given = self._position
            yield SourceBatch([], self._position)

    def _wait(self, limits: ReadLimits) -> bool:
        """Wait for a message; return False on timeout."""
        if limits.expired:
            return False
        left = limits.remaining
        seconds = 0.5 if left is None else min(0.5, left)
        if self._receiver is None:
            time.sleep(min(seconds, 0.02))
        else:
            self._receiver.mailbox.wait(seconds)
        return True

    def next_ready(self) -> float:
        """Return the number of seconds until there may be records: infinite while the thread runs, as it calls `wake`."""
        if self._receiver is None:
            return max(0.0, self._try_at - time.monotonic())
        if self._given != self._position:
            return 0.0
        return float("inf") if self._receiver.mailbox.sleeps() else 0.0

    def confirm(self, position: StreamPosition) -> None:
        """Confirm a durable checkpoint's position. An older checkpoint may still be restored, those before the delay may not."""
        self._durable.append(position.lsn)
        if len(self._durable) > self._options.confirm_delay:
            self._confirmed = max(self._confirmed, self._durable[0])
            if self._receiver is not None:
                self._receiver.confirm(self._confirmed)

    def stop(self) -> None:
        """Close the connection; the next `read` opens one."""
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.stop()

    # Messages

    def _next_batch(self, size: int) -> SourceBatch:
        """Take messages until there are enough records, or no more messages for now."""
        records: list[Any] = []
        timestamps: list[int] = []
        malformed: list[MalformedRecord] = []
        receiver = self._connected()
        if receiver is not None:
            receiver.attended_s = time.monotonic()
        while receiver is not None and len(records) < size:
            item = receiver.mailbox.take()
            if item is None:
                break
            if isinstance(item, Exception):
                self._on_error(item)
                break
            self._away_since = None
            if isinstance(item, ReachedPosition):
                self._on_reached(item)
            else:
                self._on_message(item, records, timestamps, malformed)
        return SourceBatch(records, self._position, timestamps, malformed=malformed)

    def _connected(self) -> LogReceiver | None:
        if self._receiver is None and time.monotonic() >= self._try_at:
            assert self._position is not None
            self._tables = {}
            self._begin = None
            self._filters = {
                (each.schema, each.table): SnapshotFilter(each) for each in self._position.snapshots
            }
            self._receiver = LogReceiver(
                self._options, self._owner, self._position, self._confirmed, self._wake
            )
        return self._receiver

    def _on_error(self, error: Exception) -> None:
        """Retry if the server may come back; else raise."""
        # Not `retry`: the reader must not sleep. Later calls reconnect, from `_try_at` on, and meanwhile other splits are read.
        self.stop()
        if not isinstance(error, ServerUnavailableError):
            raise error
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since > self._options.connect_timeout_s:
            raise error
        self._try_at = now + _PAUSE_S

    def _on_reached(self, reached: ReachedPosition) -> None:
        """Advance although there was no change, so that the server need not keep log that it has sent completely."""
        assert self._position is not None
        if self._begin is None and reached.lsn > self._position.lsn:
            self._position = self._position.at(reached.lsn)

    def _on_message(
        self,
        got: ReceivedMessage,
        records: list[Any],
        timestamps: list[int],
        malformed: list[MalformedRecord],
    ) -> None:
        message = decode(got.data)
        match message:
            case PgOutputBegin():
                self._begin, self._number = message, 0
                self.active_ms = got.at_ms
                self.fetch_lag_ms = got.at_ms - message.commit_us // 1000
            case PgOutputCommit():
                self._on_commit(message)
            case PgOutputRelation():
                self._on_relation(message)
            case PgOutputInsert() | PgOutputUpdate() | PgOutputDelete():
                begin = self._next_number()
                if self._is_new(begin):
                    self._emit(message, begin, records, timestamps, malformed)
                    self._advance(begin)
            case PgOutputTruncate():
                begin = self._next_number()
                if self._is_new(begin):
                    for oid in message.relations:
                        self._emit_truncation(oid, begin, records, timestamps, malformed)
                    self._advance(begin)
            case PgOutputType() | PgOutputOrigin() | PgOutputLogicalMessage():
                pass  # the receiving thread has loaded the types; the other messages are not changes

    def _next_number(self) -> PgOutputBegin:
        self._number += 1
        if self._begin is None:
            raise RecordError(
                f"the log of {self._options.server} has a change outside of a transaction",
                detail=f"replication slot '{self._options.slot}'",
            )
        return self._begin

    def _is_new(self, begin: PgOutputBegin) -> bool:
        """Whether the change is after the position: the server starts with whole transactions, and sometimes with older ones."""
        assert self._position is not None
        return self._position.order < (begin.lsn, self._number)

    def _advance(self, begin: PgOutputBegin) -> None:
        assert self._position is not None
        self._position = self._position.at(begin.lsn, self._number)

    def _on_commit(self, commit: PgOutputCommit) -> None:
        assert self._position is not None
        self._begin = None
        if commit.end_lsn > self._position.lsn:
            self._position = self._position.at(commit.end_lsn)

    def _on_relation(self, relation: PgOutputRelation) -> None:
        receiver, oid = self._receiver, relation.oid
        assert receiver is not None
        if not self._options.wants(relation.schema, relation.name):
            self._tables[oid] = None  # the publication has tables that are not captured
            return
        known = self._filters.get((relation.schema, relation.name))
        key = receiver.primary_keys.get(oid, ())
        self._tables[oid] = TableChanges(self._options, relation, receiver.types, known, key)

    def _emit(
        self,
        message: PgOutputInsert | PgOutputUpdate | PgOutputDelete,
        begin: PgOutputBegin,
        records: list[Any],
        timestamps: list[int],
        malformed: list[MalformedRecord],
    ) -> None:
        table = self._table(message.relation, begin)
        if table is None:
            return
        try:
            change = table.changes(message, begin, self._number, filtered=self._filtered(begin))
            if change is not None:
                self._deserialize(change, records, timestamps)
        except Exception as error:  # noqa: BLE001 - the deserialiser may be the user's
            malformed.append(self._malformed(message, error, table, begin))

    def _emit_truncation(
        self,
        oid: int,
        begin: PgOutputBegin,
        records: list[Any],
        timestamps: list[int],
        malformed: list[MalformedRecord],
    ) -> None:
        table = self._table(oid, begin)
        if table is None:
            return
        try:
            change = table.truncated(begin, self._number, filtered=self._filtered(begin))
            if change is not None:
                self._deserialize(change, records, timestamps)
        except Exception as error:  # noqa: BLE001 - the deserialiser may be the user's
            malformed.append(self._malformed(PgOutputTruncate((oid,)), error, table, begin))

    def _deserialize(self, change: Change, records: list[Any], timestamps: list[int]) -> None:
        found = self._options.deserializer.deserialize(change)
        records += found
        timestamps += [change.commit_ms] * len(found)

    def _filtered(self, begin: PgOutputBegin) -> bool:
        assert self._position is not None
        return begin.lsn < self._position.caught_up

    def _table(self, oid: int, begin: PgOutputBegin) -> TableChanges | None:
        if oid not in self._tables:
            raise RecordError(
                f"the log of {self._options.server} has a change of an unknown table",
                detail=f"relation {oid} at {format_lsn(begin.lsn)}, replication slot '{self._options.slot}'",
            )
        return self._tables[oid]

    def _malformed(
        self, message: object, error: Exception, table: TableChanges, begin: PgOutputBegin
    ) -> MalformedRecord:
        origin = {
            "server": self._options.server,
            "table": str(table.relation),
            "lsn": format_lsn(begin.lsn),
            "change": self._number,
        }
        if isinstance(error, BadValueError):
            origin["column"] = error.column
        return MalformedRecord.of(message, error, origin, timestamp=begin.commit_us // 1000)
