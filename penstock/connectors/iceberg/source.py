"""The Iceberg source: the rows of a snapshot, optionally followed by all later appends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connectors.base.source import SourceSplit
from penstock.connectors.iceberg.tables import TableName, pyiceberg
from penstock.connectors.lake.table_files import TableFileListing, TableSource, check_columns
from penstock.errors import ArgumentError, RecordError


@dataclass(frozen=True, slots=True)
class _Plan:
    """A scan of a snapshot, and its tasks by file path."""

    reader: Any
    tasks: dict[str, Any]


class IcebergSource(TableSource):
    """Reads an Iceberg table as Rows.

    Without `unbounded` it reads one snapshot of the table, the current or the given one, where `row_filter` (an expression of
    pyiceberg, as text) is true. With `unbounded` it reads the current table and then every snapshot that appends;
    `start_at_latest` skips the existing rows. Snapshots that replace or delete fail the job, or are skipped with
    `ignore_changes`.
    """

    def __init__(
        self,
        catalog: Mapping[str, str],
        identifier: str | Sequence[str],
        *,
        columns: Sequence[str] | None = None,
        row_filter: str | None = None,
        snapshot_id: int | None = None,
        unbounded: bool = False,
        start_at_latest: bool = False,
        ignore_changes: bool = False,
        discovery_interval_ms: int = 10_000,
    ) -> None:
        super().__init__(unbounded=unbounded, discovery_interval_ms=discovery_interval_ms)
        self.name = TableName(catalog, identifier)
        if start_at_latest and (not unbounded or snapshot_id is not None):
            raise ArgumentError(
                "start_at_latest needs unbounded=True and no snapshot_id",
                detail=f"unbounded={unbounded}, snapshot_id={snapshot_id}",
            )
        self.row_filter = row_filter
        self.snapshot_id = snapshot_id
        self.start_at_latest = start_at_latest
        self.ignore_changes = ignore_changes
        table = self.name.require_table()
        names = [field.name for field in table.schema().fields]
        self.columns = check_columns(columns, names, f"the Iceberg table {self.name}")
        if snapshot_id is not None and table.snapshot_by_id(snapshot_id) is None:
            raise ArgumentError(
                f"the Iceberg table {self.name} has no snapshot {snapshot_id}",
                detail=f"it has {[snapshot.snapshot_id for snapshot in table.snapshots()]}",
            )
        self._plans: dict[Any, _Plan] = {}  # of snapshots that are being read

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plans": {}}

    def first_files(self) -> TableFileListing:
        """Return the files of the first snapshot."""
        current = self.name.require_table().current_snapshot()
        seen = self.snapshot_id or (None if current is None else current.snapshot_id)
        if seen is None or self.start_at_latest:
            return TableFileListing((), seen)
        return TableFileListing(self._splits(None, seen), seen)

    def later_files(self, seen: int | None) -> TableFileListing:
        """Return the files that snapshots after `seen` have added."""
        table = self.name.require_table()
        current = table.current_snapshot()
        if current is None or current.snapshot_id == seen:
            return TableFileListing((), seen)
        splits: list[SourceSplit] = []
        for snapshot in self._after(table, current, seen):
            operation = None if snapshot.summary is None else snapshot.summary.operation.value
            if operation == "append":
                splits += self._splits(snapshot.parent_snapshot_id, snapshot.snapshot_id)
            elif operation != "replace" and not self.ignore_changes:
                raise RecordError(
                    f"snapshot {snapshot.snapshot_id} of the Iceberg table {self.name} changes or deletes rows",
                    detail=f"its operation is '{operation}'; the source cannot emit deletions",
                    hint="ignore_changes=True skips such snapshots; or start the job without a checkpoint, from the current table",
                )
        return TableFileListing(tuple(splits), current.snapshot_id)

    def _after(self, table: Any, current: Any, seen: int | None) -> list[Any]:
        """Return the snapshots after one, the oldest first."""
        found: list[Any] = []
        for snapshot in pyiceberg("table.snapshots").ancestors_of(current, table.metadata):
            if snapshot.snapshot_id == seen:
                return found[::-1]
            found.append(snapshot)
        if seen is None:
            return found[::-1]
        raise RecordError(
            f"snapshot {seen} of the Iceberg table {self.name} is no longer part of its history",
            detail="it has expired, or the table was rolled back, before the job had read the next one",
            hint="keep snapshots for longer than the job may lag; start the job without a checkpoint, from the current table",
        )

    def _splits(self, parent: int | None, snapshot: int) -> tuple[SourceSplit, ...]:
        return tuple(
            SourceSplit(f"{snapshot}:{path}", (parent, snapshot, path), 0, bounded=True)
            for path in sorted(self._plan(parent, snapshot).tasks)
        )

    def batches(self, split: SourceSplit, size: int) -> Iterator[Any]:
        """Read a file, without deleted rows."""
        parent, snapshot, path = split.payload
        plan = self._plan(parent, snapshot)
        yield from plan.reader.to_record_batches([plan.tasks[path]])

    def _plan(self, parent: int | None, snapshot: int) -> _Plan:
        """Plan the scan of a snapshot, or of its appends to the previous one."""
        known = self._plans.get((parent, snapshot))
        if known is not None:
            return known
        table = self.name.require_table()
        which: dict[str, Any] = {"selected_fields": tuple(self.columns)}
        if self.row_filter is not None:
            which["row_filter"] = self.row_filter
        if parent is None:
            scan = table.scan(snapshot_id=snapshot, **which)
        else:
            scan = table.incremental_append_scan(
                from_snapshot_id_exclusive=parent, to_snapshot_id_inclusive=snapshot, **which
            )
        reader = pyiceberg("io.pyarrow").ArrowScan(
            table.metadata, table.io, scan.projection(), scan.row_filter
        )
        plan = _Plan(reader, {task.file.file_path: task for task in scan.plan_files()})
        while len(self._plans) >= 4:
            del self._plans[next(iter(self._plans))]
        self._plans[parent, snapshot] = plan
        return plan
