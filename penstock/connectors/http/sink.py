"""A sink that sends records to an HTTP server.

Records are batched to requests, several of which may be in flight. At the barrier all of them have been answered, so delivery
is at least once: after a failure, records since the last checkpoint are sent again. A server that checks a record's
`idempotency_key` can detect duplicates.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from penstock.common.serialization import SerializationSchema
from penstock.common.user_types import StateValue
from penstock.connectors.base.arguments import (
    check_callable,
    check_int,
    check_one_of,
    check_texts,
)
from penstock.connectors.base.rejections import (
    FAIL,
    OnRejected,
    RejectedRecord,
    Rejections,
    check_on_rejected,
)
from penstock.connectors.base.request_batch import BatchLimits, RequestBatch
from penstock.connectors.base.retrying import Backoff
from penstock.connectors.base.sink import (
    CheckpointContext,
    Committer,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.connectors.http.client import HttpClient, HttpResponse
from penstock.errors import ArgumentError, RecordError

ONE = "one"
JSON_ARRAY = "json_array"
NDJSON = "ndjson"
_CONTENT_TYPES = {
    ONE: "application/json",
    JSON_ARRAY: "application/json",
    NDJSON: "application/x-ndjson",
}
_METHODS = ("POST", "PUT", "PATCH", "DELETE")


class HttpSink(Sink):
    """Sends each record, or many of them, as the body of a request.

    `url` is fixed, or a function of the record. `body` is a SerializationSchema, a function that returns bytes or str, or None
    for JSON. With `framing="one"` every record is a request; with `"json_array"` or `"ndjson"` up to `max_batch_records` (and
    about `max_batch_bytes`) are sent together, at the latest `linger_ms` after the first one.

    Up to `max_in_flight` requests are in flight, and may overtake each other; 1 keeps the order. A request without a response, or
    with one of 408, 425, 429, 500, 502, 503, 504, is retried, with pauses that grow to 10 seconds or as Retry-After asks, for
    `retry_timeout_ms`; then the job fails. A record that is rejected otherwise fails the job, or is passed to `on_rejected`: a
    function of a RejectedRecord, or another sink.

    `idempotency_key` is a function of the record; its result is sent as the header `idempotency_header`, the same in every
    attempt. It needs `framing="one"`: after a failure, batches have other boundaries.

    >>> HttpSink("http://localhost:8080/events", framing="ndjson").content_type
    'application/x-ndjson'
    """

    def __init__(
        self,
        url: str | Callable[[Any], str],
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        body: SerializationSchema | Callable[[Any], bytes | str] | None = None,
        framing: str = ONE,
        max_batch_records: int = 500,
        max_batch_bytes: int = 1 << 20,
        linger_ms: int = 100,
        max_in_flight: int = 4,
        retry_timeout_ms: int = 120_000,
        timeout_ms: int = 30_000,
        idempotency_key: Callable[[Any], str] | None = None,
        idempotency_header: str = "Idempotency-Key",
        on_rejected: OnRejected = FAIL,
        client_options: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(url, str):
            _check_url(url)
        else:
            check_callable("url", url, "the record, or a str")
        check_one_of("method", method, _METHODS)
        check_one_of("framing", framing, tuple(_CONTENT_TYPES))
        check_int("max_batch_records", max_batch_records, 1)
        check_int("max_batch_bytes", max_batch_bytes, 1)
        check_int("linger_ms", linger_ms, 0)
        check_int("max_in_flight", max_in_flight, 1)
        check_int("retry_timeout_ms", retry_timeout_ms, 0)
        check_int("timeout_ms", timeout_ms, 1)
        if body is not None and not isinstance(body, SerializationSchema):
            check_callable("body", body, "the record, or a SerializationSchema")
        if idempotency_key is not None:
            check_callable("idempotency_key", idempotency_key, "the record")
            if framing != ONE:
                raise ArgumentError(
                    "idempotency_key needs one request per record",
                    detail=f"framing is {framing!r}: batches have other boundaries after a failure, so a batch has no stable key",
                    hint='use framing="one"',
                )
        self.url = url
        self.method = method
        self.headers = check_texts("headers", headers or {})
        self.body = body
        self.framing = framing
        self.limits = BatchLimits(
            1 if framing == ONE else max_batch_records, max_batch_bytes, linger_ms
        )
        self.max_in_flight = max_in_flight
        self.retry_timeout_ms = retry_timeout_ms
        self.timeout_ms = timeout_ms
        self.idempotency_key = idempotency_key
        self.idempotency_header = idempotency_header
        self.on_rejected = check_on_rejected(on_rejected)
        self.client_options = dict(client_options or {})

    @property
    def content_type(self) -> str:
        """The content type of the requests, unless set in the headers."""
        return _CONTENT_TYPES[self.framing]

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create the writer of one subtask."""
        return _HttpWriter(self, context, restored)

    def create_committer(self) -> Committer | None:
        """Create the committer of the sink for rejected records, if there is one."""
        return self.on_rejected.create_committer() if isinstance(self.on_rejected, Sink) else None

    def merge_writer_states(self, states: Sequence[Any]) -> StateValue:
        """Merge states of the sink for rejected records."""
        if isinstance(self.on_rejected, Sink):
            return self.on_rejected.merge_writer_states(states)
        return super().merge_writer_states(states)


@dataclass(frozen=True, slots=True)
class _Request:
    url: str
    body: bytes
    headers: Mapping[str, str]
    records: list[Any]


class _HttpWriter(SinkWriter):
    """Builds requests, which threads send."""

    def __init__(self, sink: HttpSink, context: WriterContext, restored: StateValue) -> None:
        self._sink = sink
        self._client = HttpClient(
            extra="http",
            needed_by="HttpSink",
            backoff=Backoff(within_ms=sink.retry_timeout_ms),
            connections=sink.max_in_flight,
            read_timeout_s=sink.timeout_ms / 1000,
            options=sink.client_options,
        )
        self._threads = ThreadPoolExecutor(sink.max_in_flight, "penstock-http")
        self._in_flight: deque[tuple[Future[HttpResponse], _Request]] = deque()
        self._batches: dict[str, RequestBatch] = {}  # by URL
        self._rejections = Rejections(sink.on_rejected, context, restored)
        headers = {name.title(): value for name, value in sink.headers.items()}
        self._headers = {"Content-Type": sink.content_type, **headers}
        self._requests = None if context.metrics is None else context.metrics.counter("numRequests")
        if context.metrics is not None:
            context.metrics.gauge("numRetries", lambda: self._client.retries)
            context.metrics.gauge("numRequestsInFlight", lambda: len(self._in_flight))

    def begin(self, checkpoint: CheckpointContext) -> None:
        self._rejections.begin(checkpoint)

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        sink = self._sink
        fixed = sink.url if isinstance(sink.url, str) else None
        for value, data in zip(values, self._serialized(values), strict=True):
            url = sink.url(value) if fixed is None else fixed  # type: ignore[operator]
            if sink.framing == ONE:
                self._send(_Request(url, data, self._headers_of(value), [value]))
                continue
            batch = self._batches.get(url)
            if batch is None:
                batch = self._batches[url] = RequestBatch(sink.limits)
            if batch.add((value, data), len(data)):
                self._flush(url, batch)
        self._take_answers(at_most=sink.max_in_flight)

    def _serialized(self, values: list[Any]) -> list[bytes]:
        body = self._sink.body
        if body is None:
            return [
                json.dumps(value, separators=(",", ":"), default=_to_json).encode()
                for value in values
            ]
        if isinstance(body, SerializationSchema):
            return body.serialize_batch(values)
        return [_as_bytes(body(value)) for value in values]

    def _headers_of(self, value: object) -> Mapping[str, str]:
        key = self._sink.idempotency_key
        if key is None:
            return self._headers
        return {**self._headers, self._sink.idempotency_header: str(key(value))}

    def _flush(self, url: str, batch: RequestBatch) -> None:
        items = batch.take()
        if not items:
            return
        parts = [data for _, data in items]
        if self._sink.framing == NDJSON:
            body = b"\n".join(parts) + b"\n"
        else:
            body = b"[" + b",".join(parts) + b"]"
        self._send(_Request(url, body, self._headers, [value for value, _ in items]))

    def _send(self, request: _Request) -> None:
        self._take_answers(at_most=self._sink.max_in_flight - 1)
        future = self._threads.submit(
            self._client.send, self._sink.method, request.url, request.body, request.headers
        )
        self._in_flight.append((future, request))
        if self._requests is not None:
            self._requests.inc()

    def _take_answers(self, at_most: int) -> None:
        """Handle completed requests; wait until at most this many are in flight."""
        while self._in_flight:
            waiting = [future for future, _ in self._in_flight]
            if len(waiting) > at_most:
                wait(waiting, return_when=FIRST_COMPLETED)
            elif not any(future.done() for future in waiting):
                return
            done = [each for each in self._in_flight if each[0].done()]
            self._in_flight = deque(each for each in self._in_flight if not each[0].done())
            for future, request in done:
                self._take_answer(future.result(), request)

    def _take_answer(self, answer: HttpResponse, request: _Request) -> None:
        if answer.accepted:
            return
        target = f"{self._sink.method} {request.url}"
        reason = answer.text()
        self._rejections.take(
            [RejectedRecord(record, target, answer.status, reason) for record in request.records]
        )

    def _flush_all(self) -> None:
        for url, batch in self._batches.items():
            self._flush(url, batch)
        self._take_answers(at_most=0)

    def next_wakeup(self) -> int | None:
        due = [batch.due_ms for batch in self._batches.values()]
        return min(
            (each for each in [*due, self._rejections.next_wakeup()] if each is not None),
            default=None,
        )

    def wake_up(self) -> None:
        for url, batch in self._batches.items():
            self._flush(url, batch)
        self._rejections.wake_up()

    def prepare_commit(self) -> list[Any]:
        self._flush_all()
        self._batches.clear()  # drops URLs that are not used again
        return self._rejections.prepare_commit()

    def snapshot(self) -> StateValue:
        return self._rejections.snapshot()

    def close(self) -> None:
        self._client.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()
        self._rejections.close()


def _check_url(url: str) -> None:
    if not url.startswith(("http://", "https://")):
        raise ArgumentError(
            "invalid URL of an HTTP sink",
            detail=f"got {url!r}",
            hint="use a URL that starts with http:// or https://",
        )


def _as_bytes(body: object) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    raise RecordError(
        "the body of a request is neither bytes nor str",
        detail=f"the function returned {body!r}",
        hint="return bytes or str, or omit the function for JSON",
    )


def _to_json(value: object) -> object:
    as_dict = getattr(value, "as_dict", None)
    if callable(as_dict):
        return as_dict()  # a Row
    raise RecordError(
        f"cannot write {value!r} as JSON", hint="map the records to dicts, or pass body="
    )
