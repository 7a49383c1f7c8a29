"""A source that reads from a TCP socket.

A thread receives into a queue that is bounded in bytes: if the job does not keep up, it stops reading from the socket, and TCP
slows the server down. The task itself never waits for the network.

A socket cannot be re-read. Data that was received and is in no checkpoint is lost when the job fails: delivery is at most once.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from penstock.common.serialization import DeserializationSchema, SimpleStringSchema
from penstock.connectors.base.arguments import check_int, check_text
from penstock.connectors.base.source import (
    Boundedness,
    MalformedRecord,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.connectors.base.static_splits import StaticSplitEnumerator
from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConnectionFailedError,
    PenstockError,
    RecordError,
)
from penstock.records.dropped_records import SKIPPED

_RECEIVE_BYTES = 1 << 16
_CONNECT_TIMEOUT_S = 10.0
_LONGEST_WAIT_S = 1.0

_log = logging.getLogger("penstock.connectors.socket")


class SocketSource(Source):
    r"""Reads records that are separated by a delimiter from a server, over one connection.

    The stream ends when the server closes the connection, unless `max_retries` makes the source reconnect: that many times in
    a row, `retry_delay_ms` apart; -1 is unlimited. A refused or broken connection fails the job when no retry is left. Data
    after the last delimiter is a record if the server closed the connection normally, but not if the connection broke.

    A connection belongs to one process. In epoch mode with checkpoints Spark moves tasks between processes, and data that the
    server has sent by then is lost: set `penstock.execution.mode` to `pipelined` (the default with `max_retries=-1`).

    Records are strings, or the results of `deserializer`. `max_buffered_bytes` is how much is received ahead of the job,
    `max_record_bytes` the maximum size of a record. Delivery is at most once: a socket cannot be re-read.

    >>> SocketSource("localhost", 9999, max_retries=-1).address
    ('localhost', 9999)
    """

    def __init__(
        self,
        host: str,
        port: int,
        delimiter: str | bytes = "\n",
        max_retries: int = 0,
        *,
        retry_delay_ms: int = 500,
        deserializer: DeserializationSchema | None = None,
        max_buffered_bytes: int = 1 << 20,
        max_record_bytes: int = 16 << 20,
    ) -> None:
        check_text("host", host)
        check_int("port", port, 1, 65535)
        check_int("max_retries", max_retries, -1)
        check_int("retry_delay_ms", retry_delay_ms, 0)
        check_int("max_buffered_bytes", max_buffered_bytes, 1)
        check_int("max_record_bytes", max_record_bytes, 1)
        if not isinstance(delimiter, (str, bytes)) or not delimiter:
            raise ArgumentError(
                "the delimiter of a socket source must be a non-empty str",
                detail=f"got {delimiter!r}",
                hint="use the separator of two records, such as '\\n'",
            )
        if deserializer is not None and not isinstance(deserializer, DeserializationSchema):
            raise ArgumentTypeError(
                "deserializer is not a DeserializationSchema", detail=f"got {deserializer!r}"
            )
        self.address = (host, port)
        self.delimiter = delimiter.encode() if isinstance(delimiter, str) else delimiter
        self.max_retries = max_retries
        self.retry_delay_ms = retry_delay_ms
        self.deserializer = SimpleStringSchema() if deserializer is None else deserializer
        self.max_buffered_bytes = max_buffered_bytes
        self.max_record_bytes = max_record_bytes

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded: it ends with the connection, unless it reconnects without limit."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self.max_retries < 0 else Boundedness.BOUNDED

    def get_produced_type(self) -> object:
        """Return the type of the records, None if the deserializer does not know it."""
        if isinstance(self.deserializer, SimpleStringSchema):
            from penstock.common.typeinfo import Types

            return Types.STRING()
        return self.deserializer.get_produced_type()

    def create_enumerator(self, parallelism: int, restored: object = None) -> SplitEnumerator:
        """Create the enumerator: the connection is the only split."""
        host, port = self.address
        return StaticSplitEnumerator([SourceSplit(f"{host}:{port}", start=0)], restored)

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return _SocketReader(self)


class _SocketReader(SourceReader):
    """Turns received data into records. A position is the number of earlier records, used as the location of malformed ones."""

    def __init__(self, source: SocketSource) -> None:
        self._source = source
        self._wake: Callable[[], None] = lambda: None
        self._count_skipped: Callable[[int], None] = lambda _: None
        self._receiver: _Receiver | None = None
        self._messages: deque[bytes] = deque()  # records not yet read

    def open(self, context: Any) -> None:
        get_group = getattr(context, "get_metrics_group", None)
        if callable(get_group):
            group = get_group()
            self._count_skipped = group.counter(SKIPPED).inc
            self._source.deserializer.use_metrics(group)

    def use_wake(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def next_ready(self, split: SourceSplit, position: object) -> float | None:
        if self._receiver is None or self._messages or self._receiver.has_something:
            return 0.0
        return float("inf")

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        if self._receiver is None:
            self._receiver = _Receiver(self._source, self._wake)
            self._receiver.start()
        while True:
            ended = False
            if not self._messages:
                found, ended = self._receiver.take(limits.remaining)
                self._messages.extend(found)
            while self._messages:
                size = min(limits.batch_size, len(self._messages))
                messages = [self._messages.popleft() for _ in range(size)]
                yield self._batch(messages, position)
                position += size
            if ended:
                return
            # The split is not finished: the caller decides whether to read again now.
            yield SourceBatch([], position)

    def _batch(self, messages: list[bytes], position: int) -> SourceBatch:
        schema = self._source.deserializer
        before = schema.skipped
        found = schema.deserialize_batch(messages)
        self._count_skipped(schema.skipped - before)
        host, port = self._source.address
        malformed = [
            MalformedRecord.of(
                messages[i], error, {"host": host, "port": port, "record": position + i + 1}
            )
            for i, error in found.failures
        ]
        return SourceBatch(found.records, position + len(messages), malformed=malformed)

    def close(self) -> None:
        if self._receiver is None:
            return
        lost = self._receiver.stop() + sum(map(len, self._messages))
        if lost:
            host, port = self._source.address
            _log.warning(
                "%d bytes received from %s:%d were not read and are lost", lost, host, port
            )


class _Receiver:
    """Receives in a thread, up to the allowed number of bytes ahead of the job."""

    def __init__(self, source: SocketSource, wake: Callable[[], None]) -> None:
        self._source = source
        self._wake = wake
        self._thread = threading.Thread(
            target=self._run, name="penstock-socket-{}:{}".format(*source.address), daemon=True
        )
        self._changed = threading.Condition()
        # The following fields are guarded by `_changed`.
        self._waiting: list[
            bytes | None
        ] = []  # as received; None: the server closed the connection here
        self._size = 0
        self._ended = False
        self._error: PenstockError | None = None
        self._stopped = False
        self._connection: socket.socket | None = None
        # Used by the reading thread only:
        self._rest = b""

    def start(self) -> None:
        """Start to receive."""
        self._thread.start()

    @property
    def has_something(self) -> bool:
        """Whether `take` would return records, raise, or report the end."""
        return bool(self._waiting) or self._ended

    def take(self, seconds: float | None) -> tuple[list[bytes], bool]:
        """Return complete records, and whether they were the last; wait for the first one up to `seconds`."""
        with self._changed:
            if not self._waiting and not self._ended:
                self._changed.wait(
                    _LONGEST_WAIT_S if seconds is None else min(seconds, _LONGEST_WAIT_S)
                )
            taken, self._waiting = self._waiting, []
            self._size = 0
            ended, error = self._ended, self._error
            self._changed.notify_all()
        messages = self._cut(taken)
        if error is not None and not messages:
            raise error
        return messages, ended and error is None

    def _cut(self, taken: list[bytes | None]) -> list[bytes]:
        """Return complete records; an incomplete one is kept until the rest arrives."""
        messages: list[bytes] = []
        start = 0
        for end, each in enumerate(taken):
            if each is None:
                messages += self._cut_bytes(b"".join(filter(None, taken[start:end])))
                if self._rest:
                    messages.append(self._without_return(self._rest))
                self._rest = b""
                start = end + 1
        messages += self._cut_bytes(b"".join(filter(None, taken[start:])))
        return messages

    def _cut_bytes(self, data: bytes) -> list[bytes]:
        if not data:
            return []
        *whole, self._rest = (self._rest + data).split(self._source.delimiter)
        if len(self._rest) > self._source.max_record_bytes:
            host, port = self._source.address
            raise RecordError(
                f"a record from {host}:{port} is too long",
                detail=f"{len(self._rest)} bytes without a delimiter {self._source.delimiter!r}",
                hint="check the delimiter, or set a larger max_record_bytes",
            )
        if self._source.delimiter == b"\n":
            return [self._without_return(each) for each in whole]
        return whole

    def _without_return(self, message: bytes) -> bytes:
        return message.removesuffix(b"\r") if self._source.delimiter == b"\n" else message

    def stop(self) -> int:
        """Close the connection; return how many received bytes were not read."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            if self._connection is not None:
                # Closing alone does not wake up a thread in recv().
                with contextlib.suppress(OSError):  # the server has closed it already
                    self._connection.shutdown(socket.SHUT_RDWR)
            lost = self._size + len(self._rest)
        self._thread.join(_CONNECT_TIMEOUT_S + 1)
        return lost

    # The receiving thread

    def _run(self) -> None:
        error: PenstockError | None = None
        try:
            self._receive_all()
        except PenstockError as failed:
            error = failed
        except Exception as failed:  # noqa: BLE001 - every error must reach the job
            error = ConnectionFailedError("receiving from a socket failed", detail=repr(failed))
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()
        self._wake()

    def _receive_all(self) -> None:
        # Not a `retry` of one call: a connection delivers data for hours, and data makes earlier failures count no more.
        source = self._source
        failures = 0  # in a row
        hung_up = False  # the last connection was closed normally
        while not self._stopped:
            received = False
            failure: OSError | None = None
            try:
                for data in self._receive():
                    received = received or data is not None
                    self._put(data)
                hung_up = True
            except OSError as error:
                failure = error
                hung_up = hung_up and not received
            failures = 0 if received else failures
            if failures == source.max_retries or self._stopped:
                if hung_up or self._stopped:
                    return
                host, port = source.address
                raise ConnectionFailedError(
                    f"the connection to {host}:{port} failed",
                    detail=f"{failure}; {failures} retries",
                    hint="check that a server listens at this address, or set max_retries",
                ) from failure
            failures += 1
            with self._changed:
                self._changed.wait_for(lambda: self._stopped, source.retry_delay_ms / 1000)

    def _receive(self) -> Iterator[bytes | None]:
        """Connect; yield received data, and None when the server closes the connection normally."""
        with socket.create_connection(self._source.address, _CONNECT_TIMEOUT_S) as connection:
            connection.settimeout(None)
            with self._changed:
                self._connection = connection
            try:
                while not self._stopped and (data := connection.recv(_RECEIVE_BYTES)):
                    yield data
                yield None
            finally:
                with self._changed:
                    self._connection = None

    def _put(self, data: bytes | None) -> None:
        size = 0 if data is None else len(data)
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopped or self._size < self._source.max_buffered_bytes
            )
            self._waiting.append(data)
            self._size += size
            self._changed.notify_all()
        self._wake()
