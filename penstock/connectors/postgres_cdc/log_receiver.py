"""Receives the log in a thread, which also confirms positions to the server, however busy the task is."""

from __future__ import annotations

import os
import select
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from penstock.connectors.postgres_cdc.bounded_queue import BoundedQueue
from penstock.connectors.postgres_cdc.catalog import (
    ServerUnavailableError,
    connect,
    load_types,
    primary_key,
    quoted,
)
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.pgoutput import POSTGRES_EPOCH_US, PgOutputRelation, decode
from penstock.connectors.postgres_cdc.positions import StreamPosition, format_lsn
from penstock.connectors.postgres_cdc.slots import check_slot, find_slot, free_slot
from penstock.connectors.postgres_cdc.values import PostgresTypes
from penstock.errors import ConfigurationError

QUEUE_BYTES: Final = 8 * 1024 * 1024
_LONGEST_SILENCE_S: Final = 5.0
# In epoch mode, a reader is not notified when its job ends or continues in another process. It must not hold the slot forever.
UNATTENDED_S = 60.0
_STATUS = struct.Struct(">cQQQqB")
_KEEPALIVE = struct.Struct(">QqB")
_HEADER: Final = 25  # of a message with log data
_OVERHEAD: Final = 100  # bytes of memory per message in addition to its data


@dataclass(frozen=True, slots=True)
class ReachedPosition:
    """The server has sent all that was committed before this position."""

    lsn: int


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A pgoutput message, and its arrival time in epoch milliseconds."""

    data: bytes
    at_ms: int


Item: TypeAlias = ReceivedMessage | ReachedPosition | Exception


class LogReceiver:
    """A thread that reads a slot from a position on, until it is stopped or the connection breaks.

    An error is the last item in the mailbox. `types` and `primary_keys` cover all relations that are in the mailbox.
    """

    def __init__(
        self,
        options: CdcOptions,
        owner: str,
        position: StreamPosition,
        confirmed: int,
        wake: Callable[[], None],
    ) -> None:
        self._options = options
        self._owner = owner
        #: Where the server starts sending.
        self._position = position
        #: What the task has confirmed; the thread reports it.
        self._confirmed = confirmed
        #: The position last confirmed to the server; never above `_confirmed`.
        self._reported = 0
        #: The end of the log, as the server has last sent it.
        self._received = 0
        #: Covers all relations that are in the mailbox.
        self.types = PostgresTypes()
        #: By relation, for all that are in the mailbox.
        self.primary_keys: dict[int, tuple[str, ...]] = {}
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        os.set_blocking(self._read_end, False)
        #: When the task last read (monotonic); the thread ends if that is too long ago.
        self.attended_s = time.monotonic()
        #: Set by `stop`; the thread ends soon after.
        self._stopped = threading.Event()
        #: Held while writing to the pipe, so that the pipe is not closed meanwhile.
        self._ended = threading.Lock()
        #: What has arrived, in order; an error is the last item.
        self.mailbox: BoundedQueue[Item] = BoundedQueue(QUEUE_BYTES, wake, self._poke)
        self._thread = threading.Thread(target=self._run, name="penstock-cdc-log", daemon=True)
        self._thread.start()

    def confirm(self, lsn: int) -> None:
        """Allow the server to discard all transactions that were committed before this position."""
        if lsn > self._confirmed:
            self._confirmed = lsn
            self._poke()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop the thread and release the slot."""
        self._stopped.set()
        self._poke()
        self._thread.join(timeout_s)

    def _poke(self) -> None:
        with self._ended:
            if self._write_end >= 0:
                with suppress(BlockingIOError):  # the pipe is full: the thread will wake anyway
                    os.write(self._write_end, b"!")

    # The thread

    def _run(self) -> None:
        try:
            silence = self._prepare()
            if not self._stopped.is_set():
                pgconn = connect(self._options, self._owner, replication=True).pgconn
                try:
                    self._start(pgconn)
                    self._receive(pgconn, silence)
                finally:
                    pgconn.finish()  # abort: a clean end would have to read everything in flight first
        except Exception as error:  # noqa: BLE001 - the task raises it
            if not self._stopped.is_set():
                self.mailbox.put(self._named(error))
        finally:
            with self._ended:
                os.close(self._read_end)
                os.close(self._write_end)
                self._write_end = -1

    def _named(self, error: Exception) -> Exception:
        import psycopg

        if isinstance(error, psycopg.OperationalError):
            return ServerUnavailableError(
                f"lost the connection to the PostgreSQL server {self._options.server}",
                detail=str(error).strip(),
            )
        return error

    def _prepare(self) -> float:
        """Check that the slot exists, still has the needed log and is free; return the interval of status updates in seconds."""
        with connect(self._options, f"{self._owner}-look") as connection:
            slot = find_slot(connection, self._options.slot)
            check_slot(slot, self._options, self._position)
            free_slot(connection, self._options, self._owner, self._stopped.is_set)
            # The previous reader may have confirmed more.
            check_slot(find_slot(connection, self._options.slot), self._options, self._position)
            (timeout,) = connection.execute(
                "SELECT setting::bigint FROM pg_settings WHERE name = 'wal_sender_timeout'"
            ).fetchone()
        return min(_LONGEST_SILENCE_S, timeout / 3000) if timeout else _LONGEST_SILENCE_S

    def _start(self, pgconn: Any) -> None:
        options = self._options
        publication = quoted(options.publication).replace("'", "''")
        statement = (
            f"START_REPLICATION SLOT {quoted(options.slot)} LOGICAL {format_lsn(self._position.lsn)} "
            f"(\"proto_version\" '1', \"publication_names\" '{publication}')"
        )
        result = pgconn.exec_(statement.encode())
        if result.status != _copy_both():
            message = result.error_message.decode(errors="replace").strip()
            if "is active" in message:  # another reader was faster; retried
                raise ServerUnavailableError(
                    f"the replication slot '{options.slot}' of {options.server} is in use",
                    detail=message,
                )
            raise ConfigurationError(
                f"the replication slot '{options.slot}' of {options.server} cannot be read",
                detail=message,
                hint="the user needs REPLICATION, and max_wal_senders must allow one more",
            )

    def _receive(self, pgconn: Any, silence: float) -> None:
        pgconn.nonblocking = 1
        poller = select.poll()
        poller.register(self._read_end, select.POLLIN)
        now = time.monotonic()
        status_due, heartbeat_due = now, now + self._options.heartbeat_s
        while not self._stopped.is_set():
            has_capacity = self._take_over(pgconn)
            now = time.monotonic()
            if now - self.attended_s > UNATTENDED_S and not self.mailbox.empty:
                raise ServerUnavailableError(
                    f"the task has not read the log of {self._options.server} for {UNATTENDED_S:g} s"
                )
            if now >= heartbeat_due:
                self._send_status(pgconn, reply=True)
                status_due, heartbeat_due = now + silence, now + self._options.heartbeat_s
            elif now >= status_due or self._reported != self._confirmed:
                self._send_status(pgconn)
                status_due = now + silence
            wanted = (select.POLLIN if has_capacity else 0) | (
                select.POLLOUT if pgconn.flush() else 0
            )
            poller.register(pgconn.socket, wanted)
            wait_s = min(status_due, heartbeat_due) - time.monotonic()
            for descriptor, _ in poller.poll(max(0.0, wait_s) * 1000):
                if descriptor == self._read_end:
                    with suppress(BlockingIOError):
                        os.read(self._read_end, 4096)
                elif has_capacity:
                    pgconn.consume_input()

    def _take_over(self, pgconn: Any) -> bool:
        """Move received messages to the mailbox; return whether it has capacity for more."""
        while not self.mailbox.full:
            length, data = pgconn.get_copy_data(1)
            if length == 0:
                return True
            if length < 0:
                result = pgconn.get_result()
                message = "" if result is None else result.error_message.decode(errors="replace")
                raise self._ended_by(message.strip() or pgconn.error_message.decode())
            self._take(pgconn, bytes(data))
        return False

    def _ended_by(self, message: str) -> Exception:
        options = self._options
        if f'publication "{options.publication}" does not exist' in message:
            return ConfigurationError(
                f"the log of the replication slot '{options.slot}' of {options.server} does not have the publication "
                f"'{options.publication}'",
                detail=message,
                hint="it was dropped, or created after the slot: drop the slot and start the job without a checkpoint",
            )
        return ServerUnavailableError(
            f"the server {options.server} ended the replication", detail=message or "no message"
        )

    def _take(self, pgconn: Any, data: bytes) -> None:
        if data[:1] == b"k":
            lsn, _, reply = _KEEPALIVE.unpack_from(data, 1)
            self._received = max(self._received, lsn)
            self.mailbox.put(ReachedPosition(lsn), _OVERHEAD)
            if reply:
                self._send_status(pgconn)
            return
        (self._received,) = struct.unpack_from(">Q", data, 9)
        message = data[_HEADER:]
        if message[:1] == b"R":
            self._learn(message)
        self.mailbox.put(
            ReceivedMessage(message, int(time.time() * 1000)), len(message) + _OVERHEAD
        )

    def _learn(self, message: bytes) -> None:
        """Load types and keys that the log does not contain before the task gets the relation, as the task must not block."""
        relation = decode(message)
        assert isinstance(relation, PgOutputRelation)
        missing = self.types.missing(column.type_oid for column in relation.columns)
        wants_key = relation.identity == "f" and not self._options.before_images
        if not missing and not wants_key:
            return
        with connect(self._options, f"{self._owner}-look") as connection:
            self.types.add(load_types(connection, missing))
            if wants_key:
                self.primary_keys[relation.oid] = primary_key(connection, relation.oid)

    def _send_status(self, pgconn: Any, *, reply: bool = False) -> None:
        self._reported = self._confirmed
        now = int(time.time() * 1_000_000) - POSTGRES_EPOCH_US
        status = _STATUS.pack(
            b"r",
            max(self._received, self._reported),
            self._reported,
            self._reported,
            now,
            int(reply),
        )
        pgconn.put_copy_data(status)
        pgconn.flush()


def _copy_both() -> object:
    import psycopg

    return psycopg.pq.ExecStatus.COPY_BOTH
