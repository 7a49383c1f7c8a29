"""File formats: how a file is divided into parts, and how a part becomes records."""

from __future__ import annotations

import bz2
import gzip
import io
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from penstock.common.serialization import DeserializationSchema, deserialize_each
from penstock.connectors.base.source import MalformedRecord
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.files.file_info import FileInfo
from penstock.files.file_system import FileSystem
from penstock.formats.base.lines import (
    LineChunk,
    Utf8Stream,
    check_charset,
    is_linewise,
    read_chunks,
    split_text,
)

logger = logging.getLogger("penstock.connectors.files")

_COMPRESSED = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2"}
_ON_ERROR = ("fail", "skip")


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file: bytes or row groups from `start` up to, not including, `end`; None is the end of the file."""

    root: str  # the path or URI that the user passed: it determines the file system
    path: str
    start: int = 0
    end: int | None = None
    size: int | None = None  # its approximate size in bytes; None in older checkpoints


@dataclass(frozen=True, slots=True)
class ChunkLocation:
    """The location of a chunk of lines, for messages."""

    path: str
    chunk: LineChunk

    def offset(self, line: str, index: int) -> int:
        """Return the offset of a line's first byte; `index` is its index in the chunk, or less if lines were skipped."""
        raws = byte_lines(self.chunk.data)
        at = index
        sought = line.encode("utf-8", "replace")
        while at < len(raws) and raws[at].strip(b"\r\n") != sought:
            at += 1
        return self.chunk.start + sum(map(len, raws[: at if at < len(raws) else index]))

    def raw(self, offset: int) -> bytes:
        """Return the raw line at an offset, without its line end."""
        return without_end(self.chunk.data[offset - self.chunk.start :].split(b"\n", 1)[0])


class Faults:
    """Handles malformed records: fails the job, or counts and logs them."""

    def __init__(self, on_error: str) -> None:
        self.fails = on_error == "fail"
        self.skipped = 0
        self.count: Callable[[int], None] | None = None  # increments a metric

    def handle(
        self,
        error: RecordError,
        cause: BaseException | None = None,
        *,
        data: Any = None,
        offset: int | None = None,
    ) -> None:
        """Raise the error, or count it. `data` is the malformed input, and `offset` its position."""
        if self.fails:
            raise error from cause
        if self.skipped < 10 or self.skipped % 10_000 == 0:
            logger.warning("skipped a record: %s", str(error).replace("\n", "; "))
        self.skip(1)

    def skip(self, count: int) -> None:
        """Count skipped records."""
        self.skipped += count
        if self.count is not None:
            self.count(count)


class PartFaults(Faults):
    """The malformed records of one part of a file: errors that would fail the job are kept for their batch."""

    def __init__(self, all_faults: Faults, path: str) -> None:
        super().__init__("fail" if all_faults.fails else "skip")
        self._all = all_faults
        self._path = path
        self._found: list[MalformedRecord] = []

    def handle(
        self,
        error: RecordError,
        cause: BaseException | None = None,
        *,
        data: Any = None,
        offset: int | None = None,
    ) -> None:
        """Keep the malformed record with its location, or count it."""
        if not self.fails:
            self._all.handle(error, cause)
            return
        origin: dict[str, Any] = {"file": self._path}
        if offset is not None:
            origin["offset"] = offset
        self._found.append(MalformedRecord.of(data, error, origin))

    def skip(self, count: int) -> None:
        """Count skipped records, together with those of all parts."""
        self._all.skip(count)

    def __len__(self) -> int:
        return len(self._found)

    def take(self) -> list[MalformedRecord]:
        """Return the malformed records since the last call."""
        found, self._found = self._found, []
        return found


def check_on_error(value: str) -> str:
    """Return the policy after checking it."""
    if value not in _ON_ERROR:
        raise ArgumentError(
            "unknown policy for malformed records",
            detail=f"on_error={value!r}",
            hint="use 'fail' or 'skip'; skipped records are counted and logged",
        )
    return value


class FileFormat(ABC):
    """Base of all formats that a FileSource reads."""

    on_error = "fail"

    @abstractmethod
    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Return the (start, end) parts of a file. Called on the driver."""

    def get_produced_type(self) -> Any:
        """Return the type of the records, or None if it is unknown."""
        return None

    def first_position(self, start: int) -> int:
        """Return the position at which reading a part starts."""
        return start

    def use_metrics(self, group: Any) -> None:
        """Set the metric group of the source, before the first part is read, for formats with their own metrics."""

    def bytes_left(self, part: FilePart, position: int) -> int | None:
        """Return about how many bytes of a part are left, None if unknown.

        Where a position does not say (compressed files, columnar files), a part counts in full until it has been read.
        """
        size: int | None = getattr(part, "size", None)
        return size

    @abstractmethod
    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[list[Any], int]]:
        """Yield records, and the position after them, from a position on."""


class BulkFormat(FileFormat):
    """A format that is read in batches of columns, such as Parquet."""


class StreamFormat(FileFormat):
    """A format that is read from a stream of bytes. Subclass `LineFormat` to write one for lines."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8", *, on_error: str = "fail") -> StreamFormat:
        """Read lines as strings.

        A line that is not valid in the charset fails the job. With `on_error="replace"` invalid bytes become U+FFFD, as in
        Flink; with "skip" such lines are counted and skipped.
        """
        return TextLineFormat(charset_name, on_error)

    @staticmethod
    def of_deserialization_schema(schema: object, on_error: str = "fail") -> StreamFormat:
        """Read each line with `schema.deserialize(bytes)`."""
        return DeserializedLinesFormat(schema, on_error)


class LineFormat(StreamFormat):
    """A format of lines. A subclass turns lines into records in `decode` or, faster, in `decode_lines`.

    >>> class Numbers(LineFormat):
    ...     def decode(self, line):
    ...         return int(line)

    Files that end in .gz or .bz2 are decompressed and read as one split. An exception in `decode` becomes a RecordError that
    names the file, the offset and the line; with `on_error="skip"` the line is counted and skipped.
    """

    def __init__(self, charset_name: str = "UTF-8", on_error: str = "fail") -> None:
        self.charset = check_charset(charset_name)
        self.linewise = is_linewise(self.charset)
        self.on_error = check_on_error(on_error)

    def decode(self, line: str) -> Any:
        """Turn a line (without its end) into a record."""
        raise NotImplementedError

    def decode_lines(self, lines: list[str], place: ChunkLocation, faults: Faults) -> list[Any]:
        """Turn lines into records; `place` is the location of the lines in the file."""
        try:
            return list(map(self.decode, lines))
        except Exception:  # noqa: BLE001 - raised again below, with its line
            records = []
            for index, line in enumerate(lines):
                try:
                    records.append(self.decode(line))
                except Exception as error:  # noqa: BLE001 - the user's decode may raise anything
                    offset = place.offset(line, index)
                    faults.handle(
                        bad_record(error, place.path, offset, line),
                        error,
                        data=place.raw(offset),
                        offset=offset,
                    )
            return records

    def plan(
        self, file: FileInfo, files: FileSystem, part_size: int
    ) -> list[tuple[int, int | None]]:
        """Divide a file into byte ranges, unless it is compressed or its charset does not allow that."""
        if compression(file.path) or not self.linewise:
            return [(0, None)]
        starts = range(0, file.size, part_size)
        return [(start, min(start + part_size, file.size)) for start in starts]

    def bytes_left(self, part: FilePart, position: int) -> int | None:
        """Return how many bytes are left: positions are offsets, unless the file is compressed."""
        if compression(part.path) or not self.linewise:
            return super().bytes_left(part, position)
        end = super().bytes_left(part, position) if part.end is None else part.end
        return None if end is None else max(0, end - position)

    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[list[Any], int]]:
        """Yield records of the lines that begin in the part."""
        charset = self.charset if self.linewise else "utf-8"
        for chunk in self.chunks(part, files, position, batch_size):
            lines = self.text_lines(chunk, charset, part.path, faults)
            yield self.decode_lines(lines, ChunkLocation(part.path, chunk), faults), chunk.end

    def chunks(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int
    ) -> Iterator[LineChunk]:
        """Yield the lines of a part as bytes."""
        if part.end is not None and position >= part.end:
            return
        with open_stream(files, part.path) as stream:
            text: Any = stream
            if not self.linewise:
                errors = "strict" if self.on_error == "fail" else "replace"
                text = io.BufferedReader(Utf8Stream(stream, self.charset, errors))
            try:
                yield from read_chunks(text, position, part.end, batch_size, path=part.path)
            except UnicodeDecodeError as error:
                raise not_text(error, part.path, position, error.object[:50]) from error

    def text_lines(self, chunk: LineChunk, charset: str, path: str, faults: Faults) -> list[str]:
        """Decode a chunk of lines at once; line by line if it contains invalid bytes."""
        try:
            return split_text(str(chunk.data, charset))
        except UnicodeDecodeError:
            return self.undecodable(chunk, charset, path, faults)

    def undecodable(self, chunk: LineChunk, charset: str, path: str, faults: Faults) -> list[str]:
        """Decode a chunk with invalid bytes."""
        lines: list[str] = []
        offset = chunk.start
        for raw in byte_lines(chunk.data):
            line = without_end(raw)
            try:
                lines.append(line.decode(charset))
            except UnicodeDecodeError as error:
                fault = not_text(error, path, offset, line)
                faults.handle(fault, error, data=line, offset=offset)
            offset += len(raw)
        return lines


class TextLineFormat(LineFormat):
    """Lines as strings."""

    def __init__(self, charset_name: str = "UTF-8", on_error: str = "fail") -> None:
        super().__init__(charset_name, "skip" if on_error == "replace" else on_error)
        self.replaces = on_error == "replace"

    def get_produced_type(self) -> Any:
        """Return the string type."""
        from penstock.common.typeinfo import Types

        return Types.STRING()

    def decode_lines(self, lines: list[str], place: ChunkLocation, faults: Faults) -> list[Any]:
        """Return the lines."""
        return lines

    def undecodable(self, chunk: LineChunk, charset: str, path: str, faults: Faults) -> list[str]:
        """Decode a chunk with invalid bytes; they become U+FFFD if that was requested."""
        if not self.replaces:
            return super().undecodable(chunk, charset, path, faults)
        return [without_end(raw).decode(charset, "replace") for raw in byte_lines(chunk.data)]


class DeserializedLinesFormat(LineFormat):
    """Lines that a DeserializationSchema turns into zero, one or more records each."""

    def __init__(self, schema: Any, on_error: str = "fail") -> None:
        super().__init__("UTF-8", on_error)
        if not callable(getattr(schema, "deserialize", None)):
            raise ArgumentTypeError(
                "the schema has no deserialize method",
                detail=f"got {schema!r}",
                hint="pass a DeserializationSchema such as SimpleStringSchema()",
            )
        self.schema = schema

    def use_metrics(self, group: Any) -> None:
        """Pass the metric group on to the schema."""
        if isinstance(self.schema, DeserializationSchema):
            self.schema.use_metrics(group)

    def read(
        self, part: FilePart, files: FileSystem, position: int, batch_size: int, faults: Faults
    ) -> Iterator[tuple[list[Any], int]]:
        """Yield records of the lines that begin in the part."""
        for chunk in self.chunks(part, files, position, batch_size):
            raws = byte_lines(chunk.data)
            lines = list(map(without_end, raws))
            if isinstance(self.schema, DeserializationSchema):
                before = self.schema.skipped
                found = self.schema.deserialize_batch(lines)
                faults.skip(self.schema.skipped - before)
            else:
                found = deserialize_each(self.schema.deserialize, lines)
            for index, error in found.failures:
                offset = chunk.start + sum(map(len, raws[:index]))
                fault = bad_record(error, part.path, offset, lines[index])
                faults.handle(fault, error, data=lines[index], offset=offset)
            yield found.records, chunk.end


def without_end(line: bytes) -> bytes:
    """Return a line without its line feed and a carriage return before it."""
    return line.removesuffix(b"\n").removesuffix(b"\r")


def byte_lines(data: bytes) -> list[bytes]:
    """Return the lines of a chunk with their line feeds; only line feeds end lines."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()
    if last != b"\n":
        lines.append(last[:-1])
    return lines


def bad_record(error: BaseException, path: str, offset: int, text: object) -> RecordError:
    """Create the error of a malformed record: reason, location, content."""
    reason, hint = f"{type(error).__name__}: {error}", None
    if isinstance(error, RecordError):
        reason, hint = error.message, error.hint
    return RecordError(
        f"malformed record in a file: {reason}",
        detail=f"{path}, at byte {offset}: {_shown(text)}",
        hint=hint
        or "correct the file, or build the format with on_error='skip' to count and skip such records",
    )


def _shown(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= 200 else shown[:197] + "..."


def not_text(error: UnicodeDecodeError, path: str, offset: int, raw: bytes) -> RecordError:
    """Create the error of a line that is not valid in its charset."""
    return RecordError(
        f"a line of a file is not valid {error.encoding}: {error.reason}",
        detail=f"{path}, at byte {offset}: {_shown(raw)}",
        hint="set the charset of the file, such as text_line_format('ISO-8859-1'); or build the format with "
        "on_error='skip' to count and skip such lines, or text_line_format with on_error='replace' to read "
        "such bytes as U+FFFD",
    )


def compression(path: str) -> str | None:
    """Return a file's compression, by its name."""
    dot = path.rfind(".")
    return _COMPRESSED.get(path[dot:].lower()) if dot >= 0 else None


def open_stream(files: FileSystem, path: str) -> IO[bytes]:
    """Open a file for reading, decompressed."""
    try:
        raw = files.open_input(path)
    except FileNotFoundError:
        raise RecordError(
            "a file was deleted before it was read",
            detail=f"file: {path}",
            hint="keep files until a checkpoint has completed after they were read",
        ) from None
    kind = compression(path)
    if kind == "gzip":
        return _Forward(gzip.GzipFile(fileobj=raw, mode="rb"), raw)
    if kind == "bz2":
        return _Forward(bz2.BZ2File(raw, "rb"), raw)
    return raw


class _Forward(io.BufferedReader):
    """A decompressed stream: can only be read forwards, closes the file below it."""

    def __init__(self, stream: Any, below: IO[bytes]) -> None:
        super().__init__(stream, 1 << 18)
        self._below = below

    def seekable(self) -> bool:
        """Return False: skipping forwards by reading is as fast."""
        return False

    def close(self) -> None:
        """Close both streams."""
        super().close()
        self._below.close()
