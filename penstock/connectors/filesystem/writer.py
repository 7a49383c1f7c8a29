"""Writes part files, in a task."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable
from typing import IO, Any

from penstock.connectors.base.sink import CheckpointContext, SinkWriter, WriterContext
from penstock.connectors.filesystem.buckets import BucketAssigner
from penstock.connectors.filesystem.committer import InProgressFile, hidden_name, short_hash
from penstock.files.file_system import FileSystem, resolve

MAX_OPEN_FILES = 256


class RowPart:
    """Encodes records one after another into a stream."""

    def __init__(self, encoder: Any, stream: IO[bytes]) -> None:
        self._encode: Callable[[Any], bytes] = encoder.encode
        self._stream = stream
        self.size = 0

    def add_elements(self, values: list[Any]) -> None:
        """Write records."""
        data = b"".join(map(self._encode, values))
        self._stream.write(data)
        self.size += len(data)

    def finish(self) -> None:
        """Do nothing: nothing is buffered."""


class BulkPart:
    """Hands records to a bulk writer."""

    def __init__(self, factory: Any, stream: IO[bytes]) -> None:
        self._writer = factory.create(stream)
        self._many: Callable[[list[Any]], None] | None = getattr(self._writer, "add_elements", None)
        self.size = 0  # known when the file is finished; bulk files roll at checkpoints only

    def add_elements(self, values: list[Any]) -> None:
        """Write records."""
        if self._many is not None:
            self._many(values)
            return
        for value in values:
            self._writer.add_element(value)

    def finish(self) -> None:
        """Write the end of the file."""
        self._writer.finish()


class _OpenFile:
    __slots__ = ("created_ms", "name", "part", "records", "stem", "stream", "written_ms")

    def __init__(self, name: str, stem: str, stream: IO[bytes], part: Any, now_ms: int) -> None:
        self.name = name
        self.stem = stem
        self.stream = stream
        self.part = part
        self.records = 0
        self.created_ms = now_ms
        self.written_ms = now_ms


class FileWriter(SinkWriter):
    """Writes the records of one subtask to hidden files, one per bucket at a time. No file spans two checkpoints.

    A file is closed when it reaches the part size, when more than 256 are open (the least recently written one), and at the
    barrier.
    """

    def __init__(
        self,
        base_path: str,
        make_part: Callable[[IO[bytes]], Any],
        assigner: BucketAssigner,
        prefix: str,
        part_size: int | None,
        context: WriterContext,
        *,
        files: FileSystem | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        resolved, self._base = resolve(base_path)
        self._files = files or resolved
        self._make_part = make_part
        self._assigner = assigner
        self._prefix = prefix
        self._part_size = part_size
        self._context = context
        self._checkpoint_id = 0
        self._tag = ""  # of the task attempt
        self._clock = clock
        self._open: dict[str, _OpenFile] = {}  # by bucket, least recently written first
        self._done: list[InProgressFile] = []
        self._count = 0

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Start the files of the next checkpoint."""
        self._checkpoint_id = checkpoint.checkpoint_id
        self._tag = short_hash(self._context.job_id, self._context.operator_id, checkpoint.attempt)
        self._count = 0

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        """Write records."""
        if not values:
            return
        now_ms = int(self._clock() * 1000)
        buckets = self._assigner.assign(values, timestamps, watermark, now_ms)
        if isinstance(buckets, str):
            self._add(buckets, values, now_ms)
            return
        groups: dict[str, list[Any]] = {}
        for bucket, value in zip(buckets, values, strict=True):
            groups.setdefault(bucket, []).append(value)
        for bucket, group in groups.items():
            self._add(bucket, group, now_ms)

    def prepare_commit(self) -> list[Any]:
        """Close all files; return them."""
        for bucket in list(self._open):
            self._finish(bucket)
        done, self._done = self._done, []
        folders = {self._folder(file.bucket) for file in done}
        self._files.sync_directories(sorted(folders))
        return done

    def close(self) -> None:
        """Close all files. Those of a failed attempt are deleted; a sweep finds those that a crash leaves behind."""
        for bucket, file in self._open.items():
            file.stream.close()
            self._files.delete(posixpath.join(self._folder(bucket), file.name))
        for done in self._done:
            self._files.delete(posixpath.join(self._base, done.path))
        self._open = {}
        self._done = []

    def _add(self, bucket: str, values: Any, now_ms: int) -> None:
        file = self._open.pop(bucket, None)
        if file is None:
            if len(self._open) >= MAX_OPEN_FILES:
                self._finish(next(iter(self._open)))
            file = self._create(bucket, now_ms)
        self._open[bucket] = file
        file.part.add_elements(values)
        file.records += len(values)
        file.written_ms = now_ms
        if self._part_size is not None and file.part.size >= self._part_size:
            self._finish(bucket)

    def _create(self, bucket: str, now_ms: int) -> _OpenFile:
        context = self._context
        stem = f"{self._prefix}-{context.subtask}-{self._checkpoint_id}-{self._count}"
        self._count += 1
        name = hidden_name(stem, self._checkpoint_id, self._tag, context.job_id)
        stream = self._files.open_output(posixpath.join(self._folder(bucket), name))
        return _OpenFile(name, stem, stream, self._make_part(stream), now_ms)

    def _finish(self, bucket: str) -> None:
        file = self._open[bucket]
        file.part.finish()
        size = file.part.size or file.stream.tell()
        self._files.finish(file.stream)
        del self._open[bucket]
        self._done.append(
            InProgressFile(
                bucket,
                file.name,
                file.stem,
                self._context.subtask,
                self._checkpoint_id,
                size,
                file.records,
                file.created_ms,
                file.written_ms,
            )
        )

    def _folder(self, bucket: str) -> str:
        return posixpath.join(self._base, bucket) if bucket else self._base
