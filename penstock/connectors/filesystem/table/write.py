"""A table of files that is written."""

from __future__ import annotations

from typing import Any

from penstock.catalogs.tables import PhysicalColumn
from penstock.connectors.filesystem.committer import CommitPolicy
from penstock.connectors.filesystem.rolling import OutputFileConfig
from penstock.connectors.filesystem.table.commit_options import BY_WATERMARK, commit_trigger
from penstock.connectors.filesystem.table.options import checked_options
from penstock.connectors.filesystem.table.sink import FramesSink, directory_of
from penstock.errors import ConfigurationError, UnsupportedOperationError
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.formats import (
    FileFormatFactory,
    FileWriting,
    find_file_format,
    format_context,
)
from penstock.sql.connector.providers import SinkProvider, TableContext


class FilesTable:
    """Files that are written in columns."""

    supports_overwrite = True

    def __init__(self, context: TableContext) -> None:
        self._context = context
        self._options = checked_options(context)
        self._trigger = commit_trigger(context, self._options)
        self._format = self._options["format"].lower()
        self._writing = self._file_writing()

    def _file_writing(self) -> FileWriting:
        table, name = self._context.table, str(self._context.table.path)
        factory = find_file_format(self._format, name)
        if not isinstance(factory, FileFormatFactory):
            raise ConfigurationError(f"table {name}: format '{self._format}' cannot be written")
        # Partition columns are in the paths of files only.
        columns = {
            each.name: each.type
            for each in table.columns
            if isinstance(each, PhysicalColumn) and each.name not in table.partition_keys
        }
        prefixes = [f"{self._format}."]
        context = format_context(factory, self._context.options, prefixes, columns, name)
        return factory.file_writer(context)

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        """Files take inserts only."""
        return ChangelogMode.insert_only()

    def write(self, *, overwrite: bool, partition: dict[str, Any]) -> SinkProvider:
        """Return a sink of frames."""
        table, options = self._context.table, self._options
        if overwrite and not self._context.batch:
            raise UnsupportedOperationError(
                "streaming queries cannot overwrite files",
                detail="the result of a streaming query is never complete",
                hint="SET 'execution.runtime-mode' = 'batch', or use INSERT INTO, which adds files",
            )
        policy, replaced = self._policy(), None
        if overwrite:
            policy = CommitPolicy(
                at_once=False,
                concatenates=False,
                suffix=policy.suffix,
                compact_size=policy.compact_size,
            )
            replaced = self._replaced(partition)
        success = options["sink.partition-commit.success-file.name"]
        sink = FramesSink(
            options["path"],
            self._writing.create,
            OutputFileConfig("part", f".{self._format}"),
            options["sink.rolling-policy.file-size"],
            policy,
            names=[each.name for each in table.columns if isinstance(each, PhysicalColumn)],
            partition_keys=table.partition_keys,
            default_name=options["partition.default-name"],
            success_file=None if self._trigger is None else success,
            trigger=self._trigger,
            merge=self._writing.merge,
            replaced=replaced,
        )
        return SinkProvider(
            sink,
            columnar=True,
            parallelism=options["sink.parallelism"],
            needs_watermarks=BY_WATERMARK if sink.commits_by_time else None,
        )

    def _policy(self) -> CommitPolicy:
        options = self._options
        suffix, size = f".{self._format}", options["sink.rolling-policy.file-size"]
        if options["auto-compaction"]:
            return CommitPolicy(suffix=suffix, compact_size=options["compaction.file-size"] or size)
        if self._writing.merge is not None:
            return CommitPolicy(suffix=suffix)
        return CommitPolicy(
            at_once=False,
            part_size=size,
            rollover_interval=options["sink.rolling-policy.rollover-interval"],
            inactivity_interval=options["sink.rolling-policy.inactivity-interval"],
            suffix=suffix,
        )

    def _replaced(self, partition: dict[str, Any]) -> str:
        """Return the directory of the partition that a statement names."""
        named = {}
        for key in self._context.table.partition_keys:
            if key not in partition:
                break
            named[key] = partition[key]
        return directory_of(named, self._options["partition.default-name"])
