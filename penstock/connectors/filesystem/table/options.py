"""The options of `filesystem`."""

from __future__ import annotations

from typing import Any, Final

from penstock.sql.connector.formats import file_format_names
from penstock.sql.connector.options import Option, checked, duration, flag, memory, number, text
from penstock.sql.connector.providers import TableContext

OPTIONS: Final[tuple[Option, ...]] = (
    text("path", "Directory or file, as a path or URI.", required=True),
    text("format", "Format of the files.", required=True, suggestions=file_format_names),
    duration(
        "source.monitor-interval",
        "How often the directory is checked for new files; without it, the table is read once.",
    ),
    text("source.path.regex-pattern", "Regular expression of the paths of files that are read."),
    text(
        "source.report-statistics",
        "Which statistics of files the planner gets.",
        default="all",
        choices=("all", "none"),
        no_effect="the planner does not use statistics",
    ),
    text(
        "partition.default-name",
        "Name of the partition of NULL and empty strings.",
        default="__DEFAULT_PARTITION__",
    ),
    text(
        "partition.time-extractor.kind", "How the time of a partition is found.", default="default"
    ),
    text(
        "partition.time-extractor.timestamp-pattern",
        "The time of a partition, with columns as $name: '$day $hour:00:00'.",
    ),
    text("partition.time-extractor.timestamp-formatter", "Java pattern of that time."),
    memory("sink.rolling-policy.file-size", "Size at which a file is finished.", default=128 << 20),
    duration(
        "sink.rolling-policy.rollover-interval",
        "Longest time that a file is open.",
        default_ms=30 * 60_000,
    ),
    duration(
        "sink.rolling-policy.inactivity-interval",
        "Longest time that a file is open without new rows.",
        default_ms=30 * 60_000,
    ),
    duration(
        "sink.rolling-policy.check-interval",
        "How often open files are checked.",
        default_ms=60_000,
        no_effect="files always roll on checkpoints",
    ),
    text(
        "sink.partition-commit.trigger",
        "What decides when a partition is committed: process-time or partition-time.",
        default="process-time",
    ),
    duration(
        "sink.partition-commit.delay",
        "How long after its time a partition is committed.",
        default_ms=0,
    ),
    text(
        "sink.partition-commit.policy.kind",
        "What a commit does: success-file writes an empty file.",
    ),
    text("sink.partition-commit.success-file.name", "Name of that file.", default="_SUCCESS"),
    text(
        "sink.partition-commit.watermark-time-zone",
        "Time zone of the time of partitions.",
        default="UTC",
    ),
    flag("auto-compaction", "Merge the small files of a checkpoint."),
    memory(
        "compaction.file-size",
        "Size of merged files; the default is that of 'sink.rolling-policy.file-size'.",
    ),
    number(
        "compaction.parallelism", "Parallelism of merging.", no_effect="the driver runs compaction"
    ),
    flag(
        "sink.shuffle-by-partition.enable",
        "Send all rows of a partition to one subtask.",
        no_effect="each subtask writes the partitions of its own rows",
    ),
    number("sink.parallelism", "Parallelism of the sink."),
    text(
        "lookup.cache",
        "The table is read completely for lookup joins.",
        default="full",
        choices=("full",),
    ),
    text(
        "lookup.full-cache.reload-strategy",
        "When it is read again.",
        default="periodic",
        choices=("periodic",),
    ),
    duration(
        "lookup.full-cache.periodic-reload.interval",
        "How often it is read again; without it, never.",
    ),
)


def checked_options(context: TableContext) -> dict[str, Any]:
    """Return the values of the options of a table; those of its format are checked with the format."""
    free = (f"{context.options.get('format')}.",)
    return checked(context.options, OPTIONS, str(context.table.path), free=free)
