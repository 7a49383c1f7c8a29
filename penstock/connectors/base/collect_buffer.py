"""Elements that a collecting sink returns to the program, and the iterator that reads them.

The collecting sink pre-commits elements at the barrier and its committer, on the driver, passes them to the iterator: an
element is returned once, after its checkpoint is durable.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from penstock.common.completable_future import LISTEN_S
from penstock.common.user_types import Record
from penstock.errors import JobCancelledError


class CollectBuffer:
    """Elements that have arrived and were not read yet. Lives on the driver; the collecting sink's committer fills it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._elements: deque[Any] = deque()
        self._checkpoint_id = -1  # the last checkpoint whose elements were added
        self._finished = False
        self._discarded = False
        self._error: BaseException | None = None

    def put(self, checkpoint_id: int, elements: list[Any]) -> None:
        """Add the elements of a checkpoint; repeated calls are ignored."""
        with self._changed:
            if checkpoint_id > self._checkpoint_id and not self._discarded:
                self._checkpoint_id = checkpoint_id
                self._elements.extend(elements)
                self._changed.notify_all()

    def finish(self, error: BaseException | None = None) -> None:
        """End the stream of elements, optionally with an error."""
        with self._changed:
            self._finished = True
            self._error = error
            self._changed.notify_all()

    def take(self) -> Record:
        """Wait for an element and return it; raise StopIteration, or the job's error, at the end."""
        with self._changed:
            while not self._elements and not self._finished:
                self._changed.wait(LISTEN_S)
            if self._elements:
                return self._elements.popleft()
            if self._error is not None:
                raise self._error
            raise StopIteration

    def discard(self) -> None:
        """Drop the elements, and ignore further ones."""
        with self._changed:
            self._elements.clear()
            self._finished = self._discarded = True
            self._changed.notify_all()


class CloseableIterator(Iterator[Any]):
    """The elements of a running job, in the order of their arrival. Closing it cancels the job if it is still running."""

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

    def __next__(self) -> Record:
        if self._closed:
            raise StopIteration
        return self._buffer.take()

    def next(self) -> Record:
        """Return the next element."""
        return next(self)

    def close(self) -> None:
        """Stop reading; cancel the job if it is still running."""
        if self._closed:
            return
        self._closed = True
        self._buffer.discard()
        if not self._job_ended.is_set():
            with contextlib.suppress(Exception):  # the job may finish meanwhile
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
