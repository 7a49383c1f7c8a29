"""Writing a table to files, in columns, partitioned by columns, exactly once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import polars as pl

from penstock.common.user_types import StateValue
from penstock.connectors.base.sink import SinkWriter, WriterContext
from penstock.connectors.filesystem.buckets import BucketAssigner
from penstock.connectors.filesystem.committer import CommitPolicy, FileCommitter, Merge
from penstock.connectors.filesystem.rolling import OutputFileConfig
from penstock.connectors.filesystem.sink import FileSink
from penstock.connectors.filesystem.table.partitions import (
    CommitTrigger,
    PartitionCommitter,
    ReplacingCommitter,
)
from penstock.connectors.filesystem.writer import FileWriter
from penstock.time import clock

# Characters that Hive and Flink escape as %XX in partition names.
_ESCAPED = "\"#%'*/:=?\\{[]^"


class FramesSink(FileSink):
    """Part files below a directory; a partition is a directory `column=value` in it.

    `names`: what the columns of batches are called in files, in their order. `partition_keys` are columns that become directories and are not written into files.
    `trigger`: when partitions are committed, which `success_file` tells; None: never. `merge`: how small files are put together.
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
        success_file: str | None = None,
        trigger: CommitTrigger | None = None,
        merge: Merge | None = None,
        replaced: str | None = None,
    ) -> None:
        assigner = BucketAssigner.base_path_bucket_assigner()
        super().__init__(base_path, make_part, assigner, config, part_size, policy)
        self._names = list(names)
        self._keys = list(partition_keys)
        self._default = default_name
        self._success = success_file if partition_keys else None
        self._trigger = trigger if partition_keys else None
        self._merge = merge
        self._replaced = replaced
        self.commits_by_time = self._trigger is not None and self._trigger.times is not None

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
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
        if self._trigger is not None and self._trigger.times is not None:
            writer.check_partition = self._trigger.times.of
        return writer

    def create_committer(self) -> FileCommitter:
        """Create the committer that publishes files and commits partitions."""
        path, policy, merge = self.base_path, self._policy, self._merge
        if self._replaced is not None:
            whole = not self._keys or self._replaced != ""
            directory = self._replaced if whole else None
            return ReplacingCommitter(path, policy, self._success, directory, merge)
        if self._trigger is None:
            return FileCommitter(path, policy, merge=merge)
        return PartitionCommitter(path, policy, self._trigger, self._success, merge)


class FramesWriter(FileWriter):
    """Writes frames, one open file per partition. `check_partition` raises an error for a partition that cannot be committed."""

    check_partition: Callable[[str], Any] | None = None

    def use_columns(self, names: Sequence[str], keys: Sequence[str], default: str) -> None:
        """Set the columns of the batches."""
        self._columns = list(names)
        self._keys = list(keys)
        self._default = default

    def write(self, values: Any, timestamps: Any, watermark: int) -> None:
        """Take a frame."""
        frame: pl.DataFrame = values
        if frame.is_empty():
            return
        now_ms = clock.now_ms()
        named = frame.rename(dict(zip(frame.columns, self._columns, strict=True)))
        if not self._keys:
            self._add("", named, now_ms)
            return
        rest = [name for name in named.columns if name not in self._keys]
        for values_of, part in named.group_by(self._keys, maintain_order=True):
            directory = self._directory(values_of)
            if self.check_partition is not None:
                self.check_partition(directory)
            self._add(directory, part.select(rest), now_ms)

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
