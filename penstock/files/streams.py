"""File streams that retry transient failures."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any


class RetryingInput(io.RawIOBase):
    """An open file for reading. Each read goes through `call`, which retries transient failures.

    After a failure the file is reopened at the same offset, because a broken connection stays broken.
    """

    def __init__(self, opened: Callable[[], Any], call: Callable[[Callable[[], Any]], Any]) -> None:
        self._opened = opened
        self._call = call
        self._at = 0
        self._stream: Any = None
        self._stream = call(opened)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset."""
        if whence == io.SEEK_CUR:
            offset, whence = self._at + offset, io.SEEK_SET
        self._at = self._do(lambda stream: stream.seek(offset, whence))
        return self._at

    def readinto(self, target: object) -> int:
        """Read bytes into a buffer; return their number."""
        count: int = self._do(lambda stream: stream.readinto(target))
        self._at += count
        return count

    def readall(self) -> bytes:
        """Return the remaining bytes."""
        data: bytes = self._do(lambda stream: stream.read())
        self._at += len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._drop()
        super().close()

    def _do(self, read: Callable[[Any], Any]) -> Any:
        tries = 0

        def attempt() -> Any:
            nonlocal tries
            tries += 1
            if tries > 1:
                self._drop()
            if self._stream is None:
                self._stream = self._opened()
                self._stream.seek(self._at)
            return read(self._stream)

        return self._call(attempt)

    def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with contextlib.suppress(Exception):  # the stream is broken, or was only read
                stream.close()


class BufferedOutput(io.RawIOBase):
    """A file that is written piece by piece.

    A small file is buffered and written in one call by `write_whole` in `finish`, which can be retried. The part of a large
    file that was already written to the stream returned by `opened` cannot be retried: there a failure is raised to the
    writer.
    """

    def __init__(
        self,
        limit: int,
        write_whole: Callable[[bytes], None],
        opened: Callable[[], Any],
        once: Callable[[Callable[[Any], Any]], Any],  # runs calls that cannot be retried
    ) -> None:
        self._limit = limit
        self._write_whole = write_whole
        self._opened = opened
        self._once = once
        self._kept = bytearray()
        self._size = 0
        self._stream: Any = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._size

    def write(self, data: Any) -> int:
        """Append bytes."""
        self._kept += data
        count = memoryview(data).nbytes
        self._size += count
        if len(self._kept) > self._limit:
            self._pass_on()
        return count

    def finish(self) -> None:
        """Write the remaining bytes and make the file durable."""
        if self._stream is None:
            self._write_whole(bytes(self._kept))
        else:
            self._pass_on()
            self._once(lambda files: files.finish(self._stream))
        self.close()

    def close(self) -> None:
        """Close the stream."""
        stream, self._stream = self._stream, None
        self._kept = bytearray()
        super().close()
        if stream is not None:
            with contextlib.suppress(Exception):  # finished or aborted
                stream.close()

    def _pass_on(self) -> None:
        if self._stream is None:
            self._stream = self._opened()
        kept, self._kept = bytes(self._kept), bytearray()
        self._once(lambda _: self._stream.write(kept))
