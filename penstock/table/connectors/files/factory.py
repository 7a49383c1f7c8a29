"""The factory of `filesystem`, and the table that is read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from penstock.connectors.files.committer import CommitPolicy
from penstock.connectors.files.rolling import OutputFileConfig
from penstock.connectors.files.source import FileSource
from penstock.errors import ConfigurationError, UnsupportedOperationError
from penstock.table.catalog.tables import PhysicalColumn
from penstock.table.changelog_mode import ChangelogMode
from penstock.table.connectors.files.frames import (
    AvroFrames,
    CsvFrames,
    JsonFrames,
    OrcFrames,
    ParquetFrames,
    PartitionedFrames,
)
from penstock.table.connectors.files.parts import (
    AvroPart,
    OrcPart,
    ParquetPart,
    TextPart,
    write_csv,
    write_json,
)
from penstock.table.connectors.files.sink import FramesSink
from penstock.table.connectors.lookups import LoadedLookup
from penstock.table.connectors.options import Option, checked, duration, flag, memory, number, text
from penstock.table.connectors.providers import LookupProvider, Scanned, TableContext, Written
from penstock.table.types import DataType

FORMATS = ("csv", "json", "parquet", "orc", "avro")
OPTIONS: tuple[Option, ...] = (
    text("path", required=True),
    text("format", required=True, choices=FORMATS),
    duration("source.monitor-interval"),
    text("source.path.regex-pattern"),
    text("source.report-statistics"),
    text("partition.default-name", "__DEFAULT_PARTITION__"),
    text("partition.time-extractor.kind", "default"),
    text("partition.time-extractor.timestamp-pattern"),
    text("partition.time-extractor.timestamp-formatter"),
    memory("sink.rolling-policy.file-size", 128 << 20),
    duration("sink.rolling-policy.rollover-interval", 30 * 60_000),
    duration("sink.rolling-policy.inactivity-interval", 30 * 60_000),
    duration("sink.rolling-policy.check-interval", 60_000),
    text("sink.partition-commit.trigger", "process-time"),
    duration("sink.partition-commit.delay", 0),
    text("sink.partition-commit.policy.kind"),
    text("sink.partition-commit.success-file.name", "_SUCCESS"),
    text("sink.partition-commit.watermark-time-zone", "UTC"),
    flag("auto-compaction"),
    number("sink.parallelism"),
    text("lookup.cache", "full", choices=("full",)),
    text("lookup.full-cache.reload-strategy", "periodic", choices=("periodic",)),
    duration("lookup.full-cache.periodic-reload.interval"),
)
CSV_OPTIONS: tuple[Option, ...] = (
    text("csv.field-delimiter", ","),
    flag("csv.disable-quote-character"),
    text("csv.quote-character", '"'),
    flag("csv.allow-comments"),
    flag("csv.ignore-parse-errors"),
    text("csv.array-element-delimiter", ";"),
    text("csv.escape-character"),
    text("csv.null-literal"),
)


class FilesFactory:
    """Makes tables of files."""

    identifier = "filesystem"

    def source(self, context: TableContext) -> FilesScan:
        """Return the table to read."""
        return FilesScan(context)

    def sink(self, context: TableContext) -> FilesTable:
        """Return the table to write."""
        return FilesTable(context)


def _options(context: TableContext) -> dict[str, Any]:
    free = tuple(f"{each}." for each in FORMATS)
    return checked(context.options, OPTIONS, str(context.table.path), free=free)


def _csv_options(context: TableContext) -> dict[str, Any]:
    own = {key: value for key, value in context.options.items() if key.startswith("csv.")}
    return checked(own, CSV_OPTIONS, str(context.table.path))


class FilesTable:
    """Files that are written in columns."""

    def __init__(self, context: TableContext) -> None:
        self._context = context
        self._options = _options(context)
        self._make_part()

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        """Files take inserts only."""
        return ChangelogMode.insert_only()

    def write(self, *, overwrite: bool, partition: dict[str, Any]) -> Written:
        """Return a sink of frames."""
        table, options = self._context.table, self._options
        if overwrite:
            raise UnsupportedOperationError(
                "files cannot be overwritten by a streaming query",
                hint="INSERT INTO adds files; delete the directory to begin anew",
            )
        lines = options["format"] in {"csv", "json"}
        policy = CommitPolicy(suffix=f".{options['format']}")
        if lines:
            policy = CommitPolicy(
                at_once=False,
                part_size=options["sink.rolling-policy.file-size"],
                rollover_interval=options["sink.rolling-policy.rollover-interval"],
                inactivity_interval=options["sink.rolling-policy.inactivity-interval"],
                suffix=f".{options['format']}",
            )
        kinds = (options["sink.partition-commit.policy.kind"] or "").split(",")
        success = options["sink.partition-commit.success-file.name"]
        sink = FramesSink(
            options["path"],
            self._make_part(),
            OutputFileConfig("part", f".{options['format']}"),
            options["sink.rolling-policy.file-size"],
            policy,
            names=[each.name for each in table.columns if isinstance(each, PhysicalColumn)],
            partition_keys=table.partition_keys,
            default_name=options["partition.default-name"],
            success_file=success if "success-file" in kinds else None,
        )
        return Written(sink, columnar=True, parallelism=options["sink.parallelism"])

    def _make_part(self) -> Any:
        match self._options["format"]:
            case "parquet":
                return ParquetPart
            case "orc":
                return OrcPart
            case "avro":
                return AvroPart
            case "json":
                return partial(TextPart, write_json)
            case "csv":
                given = _csv_options(self._context)
                options = {
                    "separator": given["csv.field-delimiter"].replace("\\t", "\t"),
                    "null_value": given["csv.null-literal"] or "",
                    "quote_style": "never" if given["csv.disable-quote-character"] else "necessary",
                }
                return partial(TextPart, partial(write_csv, options=options))
            case other:
                raise ConfigurationError(
                    f"table {self._context.table.path}: format '{other}' cannot be written"
                )


class FilesScan:
    """Files that are read in columns."""

    def __init__(self, context: TableContext) -> None:
        self._name = str(context.table.path)
        self._context = context
        self._options = _options(context)
        columns = [each for each in context.table.columns if isinstance(each, PhysicalColumn)]
        self._types = {each.name: each.type for each in columns}
        self._names: Sequence[str] = list(self._types)
        self._format = self._make_format()

    def _make_format(self) -> Any:
        keys = self._context.table.partition_keys
        own = {name: kind for name, kind in self._types.items() if name not in keys}
        inner = self._inner_format(list(own), list(own.values()))
        if not keys:
            return inner
        types = [self._types[name] for name in keys]
        found = PartitionedFrames(inner, keys, types, self._options["partition.default-name"])
        found.project(self._names)
        return found

    def _inner_format(self, names: list[str], types: list[DataType]) -> Any:
        match self._options["format"]:
            case "json":
                return JsonFrames(names, types)
            case "parquet":
                return ParquetFrames(names, types)
            case "orc":
                return OrcFrames(names, types)
            case "avro":
                return AvroFrames(names, types)
            case "csv":
                return self._csv(names, types)
            case other:
                raise ConfigurationError(f"table {self._name}: format '{other}' cannot be read")

    def _csv(self, names: list[str], types: list[DataType]) -> CsvFrames:
        options = _csv_options(self._context)
        quotes = not options["csv.disable-quote-character"]
        return CsvFrames(
            names,
            types,
            options={
                "separator": options["csv.field-delimiter"].replace("\\t", "\t"),
                "quote_char": options["csv.quote-character"] if quotes else None,
                "null_values": options["csv.null-literal"],
                "comment_prefix": "#" if options["csv.allow-comments"] else None,
                "ignore_errors": options["csv.ignore-parse-errors"],
            },
        )

    def changelog_mode(self) -> ChangelogMode:
        """Rows of files are inserts."""
        return ChangelogMode.insert_only()

    def bounded(self) -> bool:
        """Whether directories are not watched."""
        return self._options["source.monitor-interval"] is None

    def apply_projection(self, names: Sequence[str]) -> None:
        """Read these columns only."""
        self._names = list(names)
        self._format.project(names)

    def scan(self) -> Scanned:
        """Return a source of frames."""
        builder = FileSource.for_bulk_file_format(self._format, self._options["path"])
        interval = self._options["source.monitor-interval"]
        if interval is not None:
            builder = builder.monitor_continuously(interval / 1000)
        types = tuple(self._types[name] for name in self._names)
        return Scanned(builder.build(), tuple(self._names), types, columnar=True)

    def lookup_provider(self, keys: Sequence[str], names: Sequence[str]) -> LookupProvider:
        """Return what has read all files, and reads them again after some time if the options say so."""
        self._format.project(names)
        source = FileSource.for_bulk_file_format(self._format, self._options["path"]).build()
        types = [self._types[name] for name in names]
        at = [list(names).index(key) for key in keys]
        reload_ms = self._options["lookup.full-cache.periodic-reload.interval"]
        return LoadedLookup(source, names, types, at, reload_ms)
