"""Bringing the elements of a stream back to the program: `execute_and_collect`.

The collecting sink pre-commits elements at the barrier and its committer, on the driver, hands them to the iterator: an
element is seen once, after its epoch is durable.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import uuid
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.common.connector import CommitRequest, Committer, Sink, SinkWriter, WriterContext
from penstock.datastream._checks import check_int
from penstock.datastream.data_stream_sink import DataStreamSink
from penstock.errors import JobCancelledError

if TYPE_CHECKING:
    from penstock.datastream.stream import DataStream

_buffers: dict[str, CollectBuffer] = {}


class CollectBuffer:
    """The elements that arrived and were not read yet. Lives on the driver, found by its id."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self._changed = threading.Condition()
        self._elements: deque[Any] = deque()
        self._epoch = -1  # the last epoch whose elements are in
        self._finished = False
        self._error: BaseException | None = None
        _buffers[self.id] = self

    def put(self, epoch: int, elements: list[Any]) -> None:
        """Take the elements of an epoch; a second time they are ignored."""
        with self._changed:
            if epoch > self._epoch:
                self._epoch = epoch
                self._elements.extend(elements)
                self._changed.notify_all()

    def finish(self, error: BaseException | None = None) -> None:
        """Say that no more elements come, and why."""
        with self._changed:
            self._finished = True
            self._error = error
            self._changed.notify_all()

    def take(self) -> Any:
        """Wait for an element and return it; raise StopIteration, or the job's error, at the end."""
        with self._changed:
            while not self._elements and not self._finished:
                self._changed.wait()
            if self._elements:
                return self._elements.popleft()
            if self._error is not None:
                raise self._error
            raise StopIteration

    def discard(self) -> None:
        """Forget the elements, and take no more."""
        _buffers.pop(self.id, None)
        with self._changed:
            self._elements.clear()
            self._finished = True
            self._changed.notify_all()


class CollectSink(Sink):
    """Sends elements to a CollectBuffer of the driver process."""

    def __init__(self, buffer_id: str) -> None:
        self.buffer_id = buffer_id

    def create_writer(self, context: WriterContext, restored: Any = None) -> SinkWriter:
        """Create the writer of one subtask for one epoch."""
        return _CollectWriter()

    def create_committer(self) -> Committer:
        """Create what hands elements to the buffer."""
        return _CollectCommitter(self.buffer_id)


class _CollectWriter(SinkWriter):
    def __init__(self) -> None:
        self._elements: list[Any] = []

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        self._elements.extend(values)

    def prepare_commit(self) -> list[Any]:
        return [self._elements] if self._elements else []


class _CollectCommitter(Committer):
    def __init__(self, buffer_id: str) -> None:
        self._buffer_id = buffer_id

    def commit(self, request: CommitRequest) -> Any:
        buffer = _buffers.get(self._buffer_id)
        if buffer is not None:  # else the reader has gone
            elements = list(itertools.chain.from_iterable(request.committables))
            buffer.put(request.epoch, elements)


class CloseableIterator(Iterator[Any]):
    """The elements of a running job, in the order of their arrival. Closing it cancels the job if it still runs."""

    def __init__(self, buffer: CollectBuffer, client: Any) -> None:
        self._buffer = buffer
        self._client = client
        self._closed = False
        self._job_ended = threading.Event()
        client.get_job_execution_result().add_done_callback(self._end)

    def _end(self, result: Any) -> None:
        self._job_ended.set()
        self._buffer.finish(
            JobCancelledError("the job was cancelled") if result.cancelled() else result.exception()
        )

    def __next__(self) -> Any:
        if self._closed:
            raise StopIteration
        return self._buffer.take()

    def next(self) -> Any:
        """Return the next element."""
        return next(self)

    def close(self) -> None:
        """Stop reading; cancel the job if it still runs."""
        if self._closed:
            return
        self._closed = True
        self._buffer.discard()
        if not self._job_ended.is_set():
            with contextlib.suppress(Exception):  # the job may end by itself meanwhile
                self._client.cancel().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def check_limit(limit: int | None) -> None:
    """Refuse a limit that is no positive number."""
    if limit is not None:
        check_int(limit, "limit", minimum=1)


def collect(
    stream: DataStream, job_name: str | None, limit: int | None
) -> CloseableIterator | list[Any]:
    """Run the program of a stream and return its elements: an iterator, or a list if there is a limit."""
    check_limit(limit)
    environment = stream.get_execution_environment()
    buffer = CollectBuffer()
    try:
        DataStreamSink.create(
            environment, "Collect Stream Sink", CollectSink(buffer.id), stream.transformation
        ).set_parallelism(1)
        client = environment.execute_async(job_name or "DataStream Collect")
    except BaseException:
        buffer.discard()
        raise
    iterator = CloseableIterator(buffer, client)
    if limit is None:
        return iterator
    with iterator:
        return list(itertools.islice(iterator, limit))
