"""Writing a table to files, in columns, partitioned by columns, exactly once."""

from __future__ import annotations

import functools
import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import polars as pl

from penstock.connectors.files.buckets import BucketAssigner
from penstock.connectors.files.committer import CommitPolicy, FileCommitter, plan_commit
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
    `replaced`: the files that were in this directory below the base path go when those of the job come, all at once at its end; of a partitioned table, only
    those of partitions that got rows if it is the base path itself.
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
        replaced: str | None = None,
    ) -> None:
        assigner = BucketAssigner.base_path_bucket_assigner()
        super().__init__(base_path, make_part, assigner, config, part_size, policy)
        self._names = list(names)
        self._keys = list(partition_keys)
        self._default = default_name
        self._success = success_file if partition_keys else None
        self._replaced = replaced

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
        if self._replaced is not None:
            whole = not self._keys or self._replaced != ""
            return ReplacingCommitter(
                self.base_path, self._policy, self._success, self._replaced if whole else None
            )
        if self._success is None:
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
        return directory_of(dict(zip(self._keys, values, strict=True)), self._default)


def directory_of(partition: Mapping[str, Any], default: str) -> str:
    """Return where the rows of a partition are, below the table's directory.

    >>> directory_of({"day": "2024-01-01", "hour": None}, "none")
    'day=2024-01-01/hour=none'
    """
    return "/".join(
        f"{escaped(key)}={default if value is None or value == '' else escaped(str(value))}"
        for key, value in partition.items()
    )


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
    """Publishes files, then puts an empty file into each partition that got some; without a name for it, it does not."""

    def __init__(self, base_path: str, policy: CommitPolicy, name: str | None) -> None:
        super().__init__(base_path, policy)
        self._marked = base_path
        self._name = name

    def commit(self, request: CommitRequest) -> Any:
        """Publish, then mark."""
        pending = super().commit(request)
        if self._name is not None:
            files, base = resolve(self._marked)
            for bucket in sorted({file.bucket for file in request.committables}):
                stream = files.open_output(posixpath.join(base, bucket, self._name))
                files.finish(stream)
        return pending


class ReplacingCommitter(MarkingCommitter):
    """Publishes all files when the job ends, in the place of those that were there.

    `directory`: what is replaced as a whole; None: the partitions that get files. A commit that is repeated deletes nothing of its own: what it publishes is
    known by name.
    """

    def __init__(
        self, base_path: str, policy: CommitPolicy, name: str | None, directory: str | None
    ) -> None:
        super().__init__(base_path, policy, name)
        self._policy_of_end = policy
        self._directory = directory

    def commit(self, request: CommitRequest) -> Any:
        """Delete what was there, then publish."""
        if request.final:
            published, _ = plan_commit(request, self._policy_of_end)
            own = {publication.path for publication in published}
            buckets = sorted({publication.parts[0].bucket for publication in published})
            files, base = resolve(self._marked)
            for directory in buckets if self._directory is None else [self._directory]:
                for file in files.walk(posixpath.join(base, directory)):
                    path = posixpath.relpath(file.path, base)
                    if path not in own and not posixpath.basename(path).startswith("."):
                        files.delete(file.path)
        return super().commit(request)
