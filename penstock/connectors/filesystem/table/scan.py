"""A table of files that is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.catalogs.tables import MetadataColumn, PhysicalColumn
from penstock.connectors.filesystem.source import FileSource
from penstock.connectors.filesystem.table.changes import ChangeLines
from penstock.connectors.filesystem.table.chosen import ChosenFiles
from penstock.connectors.filesystem.table.metadata import METADATA, MetadataFrames
from penstock.connectors.filesystem.table.options import checked_options
from penstock.connectors.filesystem.table.partitioned import PartitionedFrames
from penstock.errors import ConfigurationError
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.formats import (
    FileFormatFactory,
    FormatContext,
    MessageFormatFactory,
    find_file_format,
    format_context,
)
from penstock.sql.connector.lookups import LoadedLookup
from penstock.sql.connector.providers import LookupProvider, ScanProvider, TableContext
from penstock.sql.types import DataType


class FilesScan:
    """Files that are read in columns."""

    def __init__(self, context: TableContext) -> None:
        self._name = str(context.table.path)
        self._context = context
        self._options = checked_options(context)
        self._factory = find_file_format(self._options["format"].lower(), self._name)
        columns = [each for each in context.table.columns if isinstance(each, PhysicalColumn)]
        self._types = {each.name: each.type for each in columns}
        # Lines of a format of messages only are changes of rows.
        self._changes = not isinstance(self._factory, FileFormatFactory)
        self._metadata = self._find_metadata()
        self._names: Sequence[str] = [*self._types, *self._metadata]
        self._format: Any = self._make_format()

    def _make_format(self) -> object:
        if isinstance(self._factory, MessageFormatFactory) and self._changes:
            return self._make_changes(self._factory)
        assert isinstance(self._factory, FileFormatFactory)
        keys = self._context.table.partition_keys
        own = {name: kind for name, kind in self._types.items() if name not in keys}
        found = self._factory.file_reader(self._format_context(own))
        if keys:
            types = [self._types[name] for name in keys]
            found = PartitionedFrames(found, keys, types, self._options["partition.default-name"])
            found.project(list(self._types))
        if self._metadata:
            found = MetadataFrames(found, self._names, self._metadata)
        return found

    def _format_context(self, columns: dict[str, DataType]) -> FormatContext:
        prefixes = [f"{self._factory.identifier}."]
        return format_context(self._factory, self._context.options, prefixes, columns, self._name)

    def _find_metadata(self) -> dict[str, str]:
        columns = self._context.table.columns
        found = {each.name: each.key for each in columns if isinstance(each, MetadataColumn)}
        known = () if self._changes else tuple(METADATA)
        unknown = [key for key in found.values() if key not in known]
        if unknown:
            raise ConfigurationError(
                f"table {self._name}: unknown metadata key '{unknown[0]}'",
                hint=f"available metadata: {', '.join(known)}"
                if known
                else "changelog files have no metadata",
            )
        return found

    def _make_changes(self, factory: MessageFormatFactory) -> ChangeLines:
        if self._context.table.partition_keys:
            raise ConfigurationError(
                f"table {self._name}: files of format '{factory.identifier}' have no partitions",
                detail="an update may move a row to another partition",
            )
        return ChangeLines(factory.reader(self._format_context(self._types)))

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
