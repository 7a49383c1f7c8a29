"""Writing a table to files, in columns, partitioned by columns, exactly once."""

from __future__ import annotations

import functools
import posixpath
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

import polars as pl

from penstock.connectors.files.buckets import BucketAssigner
from penstock.connectors.files.committer import CommitPolicy, FileCommitter
from penstock.connectors.files.rolling import OutputFileConfig
from penstock.connectors.files.sink import FileSink
from penstock.connectors.files.writer import FileWriter
from penstock.connectors.sink import CommitRequest, SinkWriter, WriterContext
from penstock.files.file_system import resolve

# What Hive and Flink write as %XX in the names of partitions.
_ESCAPED = "\"#%'*/:=?\\{[]^"


class FramesSink(FileSink):
    """Part files below a directory; a partition is a directory `column=value` in it.

    `names`: what the columns of batches are called in files, in their order. `partition_keys` are columns that become directories and are not written into files.
    """

    def __init__(
        self,
        base_path: str,
        make_part: Callable[[IO[bytes]], Any],
        config: OutputFileConfig,
        part_size: int | None,
        policy: CommitPolicy,
        *,
        names: Sequence[str],
        partition_keys: Sequence[str],
        default_name: str,
        success_file: str | None,
    ) -> None:
        assigner = BucketAssigner.base_path_bucket_assigner()
        super().__init__(base_path, make_part, assigner, config, part_size, policy)
        self._names = list(names)
        self._keys = list(partition_keys)
        self._default = default_name
        self._success = success_file

    def create_writer(self, context: WriterContext, restored: Any = None) -> SinkWriter:
        """Create the writer of one subtask."""
        writer = FramesWriter(
            self.base_path,
            self._make_part,
            self._assigner,
            self._config.part_prefix,
            self._part_size,
            context,
        )
        writer.use_columns(self._names, self._keys, self._default)
        return writer

    def create_committer(self) -> FileCommitter:
        """Create what publishes files, and marks partitions that got some."""
        if self._success is None or not self._keys:
            return super().create_committer()
        return MarkingCommitter(self.base_path, self._policy, self._success)


class FramesWriter(FileWriter):
    """Writes frames, one open file per partition."""

    def use_columns(self, names: Sequence[str], keys: Sequence[str], default: str) -> None:
        """Be told what columns there are."""
        self._columns = list(names)
        self._keys = list(keys)
        self._default = default

    def write(self, values: Any, timestamps: Any, watermark: int) -> None:
        """Take a frame."""
        frame: pl.DataFrame = values
        if frame.is_empty():
            return
        now_ms = int(time.time() * 1000)
        named = frame.rename(dict(zip(frame.columns, self._columns, strict=True)))
        if not self._keys:
            self._add("", named, now_ms)
            return
        rest = [name for name in named.columns if name not in self._keys]
        for values_of, part in named.group_by(self._keys, maintain_order=True):
            self._add(self._directory(values_of), part.select(rest), now_ms)

    def _directory(self, values: tuple[Any, ...]) -> str:
        pairs = zip(self._keys, values, strict=True)
        return "/".join(f"{escaped(key)}={self._shown(value)}" for key, value in pairs)

    def _shown(self, value: Any) -> str:
        return self._default if value is None or value == "" else escaped(str(value))


@functools.cache
def escaped(text: str) -> str:
    """Return a text as the names of partitions have it.

    >>> escaped("12:30")
    '12%3A30'
    """
    return "".join(
        f"%{ord(each):02X}" if each in _ESCAPED or ord(each) < 32 else each for each in text
    )


class MarkingCommitter(FileCommitter):
    """Publishes files, then puts an empty file into each partition that got some."""

    def __init__(self, base_path: str, policy: CommitPolicy, name: str) -> None:
        super().__init__(base_path, policy)
        self._marked = base_path
        self._name = name

    def commit(self, request: CommitRequest) -> Any:
        """Publish, then mark."""
        pending = super().commit(request)
        files, base = resolve(self._marked)
        for bucket in sorted({file.bucket for file in request.committables}):
            stream = files.open_output(posixpath.join(base, bucket, self._name))
            files.finish(stream)
        return pending
