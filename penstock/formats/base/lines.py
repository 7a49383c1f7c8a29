"""Splits a byte stream into lines, in chunks, with exact positions.

A line ends with a line feed and loses one carriage return before it; the last line needs no line feed. A line belongs to
the byte range that contains its first byte. So a reader that starts in the middle of a file checks the byte before its
position: if that is a line feed, a line starts here, else everything up to the next line feed belongs to another reader.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from penstock.errors import ArgumentError, RecordError

BLOCK_BYTES = (
    1 << 18
)  # 26 M lines/s decode at this size, half of that from 1 MB on: it stays in the CPU's cache
_MAX_CHUNK = 4 << 20
_NOT_LINEWISE = frozenset({"utf-7", "hz", "utf-8-sig", "punycode", "idna"})


@dataclass(slots=True)
class LineChunk:
    """Whole lines as bytes. `start` is the offset of the first byte, `end` that of the byte after the last."""

    data: bytes
    start: int
    end: int


def check_charset(name: str) -> str:
    """Return the canonical name of a charset."""
    try:
        return codecs.lookup(name).name
    except (LookupError, TypeError):
        raise ArgumentError(
            "unknown charset", detail=f"charset: {name!r}", hint="use a name such as UTF-8"
        ) from None


def is_linewise(charset: str) -> bool:
    """Whether line feeds can be found in the bytes of a charset, so that files can be split anywhere."""
    if charset in _NOT_LINEWISE or charset.startswith("iso2022"):
        return False
    try:
        return all(bytes((i,)).decode(charset) == chr(i) for i in range(128))
    except (UnicodeDecodeError, LookupError):
        return False


def read_chunks(
    stream: IO[bytes],
    position: int,
    end: int | None,
    lines: int,
    *,
    path: str = "",
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[LineChunk]:
    """Yield the lines that begin in [position, end), about `lines` of them at a time.

    `end` None means the end of the stream. A stream that ends before `end` was truncated since it was planned: that is an
    error.
    """
    if end is not None and position >= end:
        return
    source = _Window(stream, block_bytes)
    at = _seek_line(source, position, end, path)
    if at is None:
        return
    width = 0.0  # running mean of the bytes in a line
    while end is None or at < end:
        if not source.fill():
            if end is not None:
                raise _shortened(path, end, at)
            return
        if not width:
            width = source.mean_width()
        budget = min(int(width * lines), _MAX_CHUNK)
        # The last line of the range may extend beyond its end: search its line feed from the last byte on.
        stop = source.size() if end is None else end - at
        low = min(budget, stop)
        cut = source.rfind(low) + 1
        if not cut or (low == stop and cut < stop):
            found = source.find(low - 1)
            cut = found + 1 if found >= 0 else source.size()
        chunk = source.take(cut)
        if end is not None and at + cut < end and not chunk.endswith(b"\n"):
            raise _shortened(path, end, at + cut)
        yield LineChunk(chunk, at, at + cut)
        at += cut
        width = 0.75 * width + 0.25 * cut / max(1, chunk.count(b"\n"))


def _seek_line(source: _Window, position: int, end: int | None, path: str) -> int | None:
    """Move to the first line that starts at or after a position; None if there is none."""
    if position == 0:
        return 0
    source.skip(position - 1)
    found = source.find(0)
    if found < 0:
        if end is not None and position - 1 + source.size() < end:
            raise _shortened(path, end, position - 1 + source.size())
        return None
    source.take(found + 1)
    return position + found


def _shortened(path: str, expected: int, actual: int) -> RecordError:
    return RecordError(
        "a file became shorter after it was listed",
        detail=f"{path}: expected at least {expected} bytes, it ends at {actual}",
        hint="move complete files into the directory by renaming, and do not change them",
    )


class _Window:
    """A window over a stream that grows until the searched line feed is in it. Indexes are relative to the window's start."""

    def __init__(self, stream: IO[bytes], block_bytes: int) -> None:
        self._stream = stream
        self._block = block_bytes
        self._data = b""
        self._at = 0

    def size(self) -> int:
        return len(self._data) - self._at

    def mean_width(self) -> float:
        end = min(len(self._data), self._at + (1 << 16))
        return (end - self._at) / max(1, self._data.count(b"\n", self._at, end))

    def skip(self, count: int) -> None:
        if self._stream.seekable():
            self._stream.seek(count)
            return
        while count:
            read = self._stream.read(min(count, self._block))
            if not read:
                return
            count -= len(read)

    def fill(self) -> bool:
        if self._at == len(self._data):
            self._data = self._stream.read(self._block) or b""
            self._at = 0
        return bool(self._data)

    def rfind(self, end: int) -> int:
        """Return the index of the last line feed before `end` that is in the window, or -1."""
        found = self._data.rfind(b"\n", self._at, self._at + end)
        return found - self._at if found >= 0 else -1

    def find(self, start: int) -> int:
        """Return the index of the first line feed from `start` on, reading as much as needed; -1 at the end."""
        found = self._data.find(b"\n", self._at + start)
        if found >= 0:
            return found - self._at
        parts = [self._data[self._at :]]
        length = len(parts[0])
        size = self._block
        while found < 0 and (block := self._stream.read(size)):
            at = block.find(b"\n", max(0, start - length))
            if at >= 0:
                found = length + at
            parts.append(block)
            length += len(block)
            size = min(size * 2, 1 << 24)
        # The parts are joined once, so that the cost of a long line stays linear.
        self._data = b"".join(parts)
        self._at = 0
        return found

    def take(self, count: int) -> bytes:
        start = self._at
        self._at = start + count
        return self._data[start : self._at]


def split_text(text: str) -> list[str]:
    """Return the lines of a text that starts at the start of a line."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
        if text.endswith("\r"):  # the last line of a file may have no line feed
            text = text[:-1]
            if not text or text.endswith("\n"):
                text += "\n"
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


class Utf8Stream(io.RawIOBase):
    """A stream of another charset recoded as UTF-8, for charsets whose line feeds cannot be found in the bytes."""

    def __init__(self, stream: IO[bytes], charset: str, errors: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(charset)(errors)
        self._left = b""
        self._ended = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        while not self._left and not self._ended:
            block = self._stream.read(BLOCK_BYTES)
            self._ended = not block
            self._left = self._decoder.decode(block, self._ended).encode("utf-8", "surrogatepass")
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
