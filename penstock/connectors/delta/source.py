"""The Delta Lake source: the rows of a version, optionally followed by all later appends."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from penstock.connectors.base.source import SourceSplit
from penstock.connectors.delta.tables import (
    arrow_schema_of,
    check_location,
    deltalake,
    open_table,
)
from penstock.connectors.lake.table_files import TableFileListing, TableSource, check_columns
from penstock.errors import ArgumentError, RecordError


class DeltaSource(TableSource):
    """Reads a Delta table as Rows.

    Without `unbounded` it reads one version of the table, the latest or the given one. With `unbounded` it reads the current
    table (or starts with the given version) and then every append; `start_at_latest` skips the existing rows. Changes and
    deletions of rows cannot be emitted: such a version fails the job, or is skipped with `ignore_changes`. Files that are
    only rewritten (OPTIMIZE) are not a change.
    """

    def __init__(
        self,
        table_uri: str,
        *,
        columns: Sequence[str] | None = None,
        version: int | None = None,
        unbounded: bool = False,
        start_at_latest: bool = False,
        ignore_changes: bool = False,
        discovery_interval_ms: int = 10_000,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(unbounded=unbounded, discovery_interval_ms=discovery_interval_ms)
        self.table_uri, self.storage_options = check_location(table_uri, storage_options)
        if start_at_latest and (not unbounded or version is not None):
            raise ArgumentError(
                "start_at_latest needs unbounded=True and no version",
                detail=f"unbounded={unbounded}, version={version}",
            )
        self.version = version
        self.start_at_latest = start_at_latest
        self.ignore_changes = ignore_changes
        table = open_table(self.table_uri, self.storage_options, version)
        self.columns = check_columns(
            columns, arrow_schema_of(table).names, f"the Delta table at {table_uri}"
        )
        self._fragments: dict[int, dict[str, Any]] = {}  # of versions that are being read

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fragments": {}}

    def first_files(self) -> TableFileListing:
        """Return the files of the first version."""
        table = open_table(self.table_uri, self.storage_options, self.version)
        version = table.version()
        if self.start_at_latest:
            return TableFileListing((), version)
        return TableFileListing(self._splits(version, self._paths(table)), version)

    @staticmethod
    def _paths(table: Any) -> list[str]:
        import pyarrow as pa

        return sorted(pa.table(table.get_add_actions(flatten=True))["path"].to_pylist())

    @staticmethod
    def _splits(version: int, paths: Sequence[str]) -> tuple[SourceSplit, ...]:
        return tuple(
            SourceSplit(f"{version}:{path}", (version, path), 0, bounded=True) for path in paths
        )

    def later_files(self, seen: int) -> TableFileListing:
        """Return the files that versions after `seen` have added."""
        table = open_table(self.table_uri, self.storage_options)
        splits: list[SourceSplit] = []
        for version in range(seen + 1, table.version() + 1):
            added, removed = self._changes(version)
            if removed and not self.ignore_changes:
                raise RecordError(
                    f"version {version} of the Delta table at {self.table_uri} changes or deletes rows",
                    detail=f"it removes {len(removed)} files, such as {removed[0]}; the source cannot emit deletions",
                    hint="ignore_changes=True skips such versions; or start the job without a checkpoint, from the current table",
                )
            if not removed:
                splits += self._splits(version, added)
        return TableFileListing(tuple(splits), table.version())

    def _changes(self, version: int) -> tuple[list[str], list[str]]:
        """Return the files that a version has added and removed, if it changed data."""
        from pyarrow import fs

        handler = deltalake("fs").DeltaStorageHandler(self.table_uri, self.storage_options)
        try:
            with fs.PyFileSystem(handler).open_input_file(
                f"_delta_log/{version:020}.json"
            ) as stream:
                actions = [json.loads(line) for line in stream.read().splitlines() if line.strip()]
        except FileNotFoundError as error:
            raise RecordError(
                f"version {version} of the Delta table at {self.table_uri} is no longer in its log",
                detail="the log was cleaned up before the job had read it",
                hint="set a longer delta.logRetentionDuration; start the job without a checkpoint, from the current table",
            ) from error
        changes: dict[str, list[str]] = {"add": [], "remove": []}
        for action in actions:
            for kind, paths in changes.items():
                if kind in action and action[kind].get("dataChange", True):
                    paths.append(action[kind]["path"])
        return changes["add"], changes["remove"]

    def batches(self, split: SourceSplit, size: int) -> Iterator[Any]:
        """Read a file, including the values of its partition columns."""
        version, path = split.payload
        fragment = self._fragments_of(version).get(unquote(path))
        if fragment is None:
            raise RecordError(
                f"a file of the Delta table at {self.table_uri} no longer exists",
                detail=f"{path} of version {version}",
                hint="VACUUM deletes files of old versions: retain files for longer than the job may lag",
            )
        dataset, part = fragment
        yield from part.to_batches(
            schema=dataset.schema, columns=self.columns, batch_size=size, use_threads=False
        )

    def _fragments_of(self, version: int) -> dict[str, Any]:
        """Return the files of a version by path. Some clients encode special characters in paths, some do not."""
        known = self._fragments.get(version)
        if known is None:
            table = open_table(self.table_uri, self.storage_options, version)
            dataset = table.to_pyarrow_dataset()
            known = {unquote(part.path): (dataset, part) for part in dataset.get_fragments()}
            while len(self._fragments) >= 4:
                del self._fragments[min(self._fragments)]
            self._fragments[version] = known
        return known
