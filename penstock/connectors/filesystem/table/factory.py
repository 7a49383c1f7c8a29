"""The factory of `filesystem`, and the table that is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.catalogs.tables import MetadataColumn, PhysicalColumn
from penstock.connectors.filesystem.committer import CommitPolicy
from penstock.connectors.filesystem.rolling import OutputFileConfig
from penstock.connectors.filesystem.source import FileSource
from penstock.connectors.filesystem.table.changes import ChangeLines
from penstock.connectors.filesystem.table.chosen import ChosenFiles
from penstock.connectors.filesystem.table.commit_options import BY_WATERMARK, commit_trigger
from penstock.connectors.filesystem.table.format_options import compression_of
from penstock.connectors.filesystem.table.frames import (
    AvroFrames,
    CsvFrames,
    JsonFrames,
    OrcFrames,
    ParquetFrames,
    PartitionedFrames,
)
from penstock.connectors.filesystem.table.maps import map_columns, map_without_string_keys
from penstock.connectors.filesystem.table.merging import MERGES
from penstock.connectors.filesystem.table.metadata import METADATA, MetadataFrames
from penstock.connectors.filesystem.table.parts import (
    AvroPart,
    OrcPart,
    ParquetPart,
    RowLines,
    TextPart,
    write_csv,
    write_json,
    writes_rows,
)
from penstock.connectors.filesystem.table.sink import FramesSink, directory_of
from penstock.errors import ConfigurationError, UnsupportedOperationError
from penstock.formats.csv.messages import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.formats.csv.schema import CsvSchema
from penstock.formats.csv.table_columns import csv_columns
from penstock.formats.message_formats import (
    CHANGE_FORMATS,
    DECIMALS,
    MessageFormat,
    message_format,
    skip_hint,
)
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.lookups import LoadedLookup
from penstock.sql.connector.options import (
    Option,
    checked,
    duration,
    flag,
    memory,
    number,
    text,
)
from penstock.sql.connector.providers import (
    LookupProvider,
    ScanProvider,
    SinkProvider,
    TableContext,
)
from penstock.sql.types import DataType, LocalZonedTimestampType, TimestampType

FORMATS = ("csv", "json", "parquet", "orc", "avro", *CHANGE_FORMATS)
OPTIONS: tuple[Option, ...] = (
    text("path", required=True),
    text("format", required=True, choices=FORMATS),
    duration("source.monitor-interval"),
    text("source.path.regex-pattern"),
    text(
        "source.report-statistics",
        "all",
        choices=("all", "none"),
        no_effect="the planner does not use statistics",
    ),
    text("partition.default-name", "__DEFAULT_PARTITION__"),
    text("partition.time-extractor.kind", "default"),
    text("partition.time-extractor.timestamp-pattern"),
    text("partition.time-extractor.timestamp-formatter"),
    memory("sink.rolling-policy.file-size", 128 << 20),
    duration("sink.rolling-policy.rollover-interval", 30 * 60_000),
    duration("sink.rolling-policy.inactivity-interval", 30 * 60_000),
    duration(
        "sink.rolling-policy.check-interval", 60_000, no_effect="files always roll on checkpoints"
    ),
    text("sink.partition-commit.trigger", "process-time"),
    duration("sink.partition-commit.delay", 0),
    text("sink.partition-commit.policy.kind"),
    text("sink.partition-commit.success-file.name", "_SUCCESS"),
    text("sink.partition-commit.watermark-time-zone", "UTC"),
    flag("auto-compaction"),
    memory("compaction.file-size"),
    number("compaction.parallelism", no_effect="the driver runs compaction"),
    flag(
        "sink.shuffle-by-partition.enable",
        no_effect="each subtask writes the partitions of its own rows",
    ),
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
    replace(DECIMALS, name=f"csv.{DECIMALS.name}"),
)


_FRAMES: dict[str, Any] = {"parquet": ParquetFrames, "orc": OrcFrames, "avro": AvroFrames}


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
    free = (f"{context.options.get('format')}.",)  # options that are checked with the format
    return checked(context.options, OPTIONS, str(context.table.path), free=free)


def _csv_options(context: TableContext) -> dict[str, Any]:
    own = {key: value for key, value in context.options.items() if key.startswith("csv.")}
    return checked(own, CSV_OPTIONS, str(context.table.path))


class FilesTable:
    """Files that are written in columns."""

    supports_overwrite = True

    def __init__(self, context: TableContext) -> None:
        self._context = context
        self._options = _options(context)
        self._trigger = commit_trigger(context, self._options)
        kind = self._options["format"]
        # Files of lines are not compressed.
        self._compression = compression_of(kind, context) if kind in MERGES else ""
        self._make_part()

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
            self._make_part(),
            OutputFileConfig("part", f".{options['format']}"),
            options["sink.rolling-policy.file-size"],
            policy,
            names=[each.name for each in table.columns if isinstance(each, PhysicalColumn)],
            partition_keys=table.partition_keys,
            default_name=options["partition.default-name"],
            success_file=None if self._trigger is None else success,
            trigger=self._trigger,
            merge=self._merge(),
            replaced=replaced,
        )
        return SinkProvider(
            sink,
            columnar=True,
            parallelism=options["sink.parallelism"],
            needs_watermarks=BY_WATERMARK if sink.commits_by_time else None,
        )

    def _merge(self) -> Any:
        merge = MERGES.get(self._options["format"])
        return None if merge is None else partial(merge, self._compression)

    def _policy(self) -> CommitPolicy:
        options = self._options
        suffix, size = f".{options['format']}", options["sink.rolling-policy.file-size"]
        if options["auto-compaction"]:
            return CommitPolicy(suffix=suffix, compact_size=options["compaction.file-size"] or size)
        if options["format"] not in {"csv", "json"}:
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

    def _make_part(self) -> Any:
        match self._options["format"]:
            case "parquet":
                return partial(ParquetPart, self._compression, map_columns(self._columns()))
            case "orc":
                return partial(OrcPart, self._compression, map_columns(self._columns()))
            case "avro":
                self._check_avro()
                return partial(AvroPart, self._compression, map_columns(self._columns()))
            case "json" | "csv" as form:
                return partial(TextPart, self._lines(form))
            case other:
                raise ConfigurationError(
                    f"table {self._context.table.path}: format '{other}' cannot be written"
                )

    def _columns(self) -> dict[str, DataType]:
        """Return the columns that are in files."""
        table = self._context.table
        return {
            each.name: each.type
            for each in table.columns
            if isinstance(each, PhysicalColumn) and each.name not in table.partition_keys
        }

    def _check_avro(self) -> None:
        for name, kind in self._columns().items():
            if isinstance(kind, TimestampType | LocalZonedTimestampType) and kind.precision > 6:
                raise self._no_avro(name, kind, "declare a precision of at most 6")
            keyed = map_without_string_keys(kind)
            if keyed is not None:
                raise self._no_avro(
                    name,
                    keyed,
                    "Avro only supports STRING keys in maps: declare STRING and use CAST",
                )

    def _no_avro(self, column: str, kind: DataType, hint: str) -> ConfigurationError:
        return ConfigurationError(
            f"table {self._context.table.path}: Avro cannot represent the {kind} of column '{column}'",
            hint=hint,
        )

    def _lines(self, form: str) -> Any:
        """Return a writer of frames as lines: in columns, or row by row where columns cannot be written or options ask for it."""
        table, columns = self._context.table, self._columns()
        if form == "json":
            own = message_format("json", self._context.options, ["json."], columns, str(table.path))
            if own.is_plain() and not any(writes_rows(kind, form) for kind in columns.values()):
                return write_json
            return RowLines(columns, own.writer())
        given = _csv_options(self._context)
        if any(writes_rows(kind, form) for kind in columns.values()):
            return RowLines(
                columns, CsvRowSerializationSchema(_csv_schema(given, columns, str(table.path)))
            )
        options = {
            "separator": given["csv.field-delimiter"].replace("\\t", "\t"),
            "null_value": given["csv.null-literal"] or "",
            "quote_char": given["csv.quote-character"],
            "quote_style": "never" if given["csv.disable-quote-character"] else "necessary",
        }
        return partial(write_csv, options=options)


def _csv_schema(options: dict[str, Any], columns: dict[str, DataType], table: str) -> CsvSchema:
    between = options["csv.array-element-delimiter"]
    return CsvSchema(
        columns=csv_columns(columns, between, table),
        column_separator=options["csv.field-delimiter"].replace("\\t", "\t"),
        quote_char=None
        if options["csv.disable-quote-character"]
        else options["csv.quote-character"],
        escape_char=options["csv.escape-character"],
        null_value=options["csv.null-literal"],
        allow_comments=options["csv.allow-comments"],
    )


class FilesScan:
    """Files that are read in columns."""

    def __init__(self, context: TableContext) -> None:
        self._name = str(context.table.path)
        self._context = context
        self._options = _options(context)
        columns = [each for each in context.table.columns if isinstance(each, PhysicalColumn)]
        self._types = {each.name: each.type for each in columns}
        self._metadata = self._find_metadata()
        self._names: Sequence[str] = [*self._types, *self._metadata]
        self._changes = self._options["format"] in CHANGE_FORMATS
        self._format = self._make_changes() if self._changes else self._make_format()
        if self._metadata and not self._changes:
            self._format = MetadataFrames(self._format, self._names, self._metadata)

    def _find_metadata(self) -> dict[str, str]:
        columns = self._context.table.columns
        found = {each.name: each.key for each in columns if isinstance(each, MetadataColumn)}
        known = () if self._options["format"] in CHANGE_FORMATS else tuple(METADATA)
        unknown = [key for key in found.values() if key not in known]
        if unknown:
            raise ConfigurationError(
                f"table {self._name}: unknown metadata key '{unknown[0]}'",
                hint=f"available metadata: {', '.join(known)}"
                if known
                else "changelog files have no metadata",
            )
        return found

    def _make_changes(self) -> Any:
        kind = self._options["format"]
        if self._context.table.partition_keys:
            raise ConfigurationError(
                f"table {self._name}: files of format '{kind}' have no partitions",
                detail="an update may move a row to another partition",
            )
        return ChangeLines(self._messages(kind, self._types).reader())

    def _messages(self, kind: str, columns: dict[str, DataType]) -> MessageFormat:
        """Return the format of single lines."""
        return message_format(kind, self._context.options, [f"{kind}."], columns, self._name)

    def _make_format(self) -> Any:
        keys = self._context.table.partition_keys
        own = {name: kind for name, kind in self._types.items() if name not in keys}
        inner = self._inner_format(list(own), list(own.values()))
        if not keys:
            return inner
        types = [self._types[name] for name in keys]
        found = PartitionedFrames(inner, keys, types, self._options["partition.default-name"])
        found.project(list(self._types))
        return found

    def _inner_format(self, names: list[str], types: list[DataType]) -> Any:
        match self._options["format"]:
            case "json":
                form = self._messages("json", dict(zip(names, types, strict=True)))
                strict = form.options["fail-on-missing-field"]
                ignores = form.options["ignore-parse-errors"]
                return JsonFrames(names, types, form.reader(), careful=strict or ignores)
            case "parquet" | "orc" | "avro" as kind:
                compression_of(kind, self._context)  # its options are checked
                return _FRAMES[kind](names, types)
            case "csv":
                return self._csv(names, types)
            case other:
                raise ConfigurationError(f"table {self._name}: format '{other}' cannot be read")

    def _csv(self, names: list[str], types: list[DataType]) -> CsvFrames:
        options = _csv_options(self._context)
        schema = _csv_schema(options, dict(zip(names, types, strict=True)), self._name)
        ignores = options["csv.ignore-parse-errors"]
        rows = CsvRowDeserializationSchema(schema, ignore_parse_errors=ignores)
        rows.skip_hint = skip_hint("csv.")
        return CsvFrames(
            names,
            types,
            rows,
            careful=options["csv.escape-character"] is not None,
            options={
                "separator": schema.column_separator,
                "quote_char": schema.quote_char,
                "null_values": options["csv.null-literal"],
                "comment_prefix": "#" if options["csv.allow-comments"] else None,
                "ignore_errors": ignores,
            },
        )

    def changelog_mode(self) -> ChangelogMode:
        """Rows of files are inserts, unless the format contains a changelog."""
        return ChangelogMode.all() if self._changes else ChangelogMode.insert_only()

    def bounded(self) -> bool:
        """Whether directories are not watched."""
        return self._options["source.monitor-interval"] is None

    def apply_projection(self, names: Sequence[str]) -> None:
        """Read these columns only; of changes, all are read."""
        if not self._changes:
            self._names = list(names)
            self._format.project(names)

    def scan(self) -> ScanProvider:
        """Return a source of frames, or of rows that are changes."""
        pattern = self._options["source.path.regex-pattern"]
        form = self._format if pattern is None else ChosenFiles(self._format, pattern)
        builder = FileSource.for_bulk_file_format(form, self._options["path"])
        interval = self._options["source.monitor-interval"]
        if interval is not None:
            builder = builder.monitor_continuously(interval / 1000)
        types = tuple(map(self._type, self._names))
        return ScanProvider(builder.build(), tuple(self._names), types, columnar=not self._changes)

    def _type(self, name: str) -> DataType:
        return self._types[name] if name in self._types else METADATA[self._metadata[name]][0]

    def lookup_provider(self, keys: Sequence[str], names: Sequence[str]) -> LookupProvider:
        """Return a provider that loads all files, and reloads them if the options say so."""
        if self._changes:
            raise ConfigurationError(
                f"table {self._name} cannot be used in a lookup join: its files contain a changelog",
                hint="use a regular join, or FOR SYSTEM_TIME AS OF an event-time attribute",
            )
        self._format.project(names)
        source = FileSource.for_bulk_file_format(self._format, self._options["path"]).build()
        types = list(map(self._type, names))
        at = [list(names).index(key) for key in keys]
        reload_ms = self._options["lookup.full-cache.periodic-reload.interval"]
        return LoadedLookup(source, names, types, at, reload_ms)
