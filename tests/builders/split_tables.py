"""A table of splits in memory: `connector = 'splits'`, whose option `data` names what was given to `register_splits`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from penstock.catalogs.tables import PhysicalColumn
from penstock.common import WatermarkStrategy
from penstock.common.types import Row
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.options import checked, flag, text
from penstock.sql.connector.providers import ScanProvider, TableContext, TableFactory
from penstock.sql.connector.registry import CONNECTORS

_DATA: dict[str, Sequence[Sequence[Any]]] = {}
_OPTIONS = (
    text("data", "What register_splits() returned.", required=True),
    flag("columnar", "Read frames."),
    text("fails-once", "File that is written when reading fails."),
    flag("watermarks", "The source has watermarks."),
)
BATCH = 50


def register_splits(*splits: Sequence[tuple[Any, ...]]) -> str:
    """Keep the rows of each split in this process; return the name for the option `data`."""
    CONNECTORS.add(SplitsFactory())
    name = uuid.uuid4().hex
    _DATA[name] = splits
    return name


class SplitsFactory(TableFactory):
    """Makes tables of splits."""

    identifier = "splits"

    def source(self, context: TableContext) -> SplitsTable:
        """Return the table to read."""
        return SplitsTable(context)


class SplitsTable:
    """Rows of splits, as Rows or as columns."""

    def __init__(self, context: TableContext) -> None:
        options = checked(context.options, _OPTIONS, str(context.table.path))
        self._options = options
        self._columns = {
            each.name: each.type
            for each in context.table.columns
            if isinstance(each, PhysicalColumn)
        }

    def changelog_mode(self) -> ChangelogMode:
        """There are only inserts."""
        return ChangelogMode.insert_only()

    def bounded(self) -> bool:
        """Each split has an end."""
        return True

    def scan(self) -> ScanProvider:
        """Return the source; with `watermarks` it has its own, one second behind the second column's milliseconds."""
        options, names = self._options, tuple(self._columns)
        source = Splits(_DATA[options["data"]], names, options["columnar"], options["fails-once"])
        own = None
        if options["watermarks"]:
            own = WatermarkStrategy.for_monotonous_timestamps()
        return ScanProvider(
            source, names, tuple(self._columns.values()), options["columnar"], watermarks=own
        )


class Splits(Source):
    """Reads splits in batches. `fails_once`: a file that is written when reading fails, once a checkpoint has half of a split."""

    def __init__(
        self,
        splits: Sequence[Sequence[Any]],
        names: tuple[str, ...],
        columnar: bool,
        fails_once: str | None,
    ) -> None:
        self.splits, self.names, self.columnar = splits, names, columnar
        self.fails_once = fails_once

    def get_boundedness(self) -> Boundedness:
        """It ends."""
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        """Return all splits at once."""
        return _Enumerator(self, restored)

    def create_reader(self) -> SourceReader:
        """Read them."""
        return _Reader(self)


class _Enumerator(SplitEnumerator):
    def __init__(self, source: Splits, restored: Any) -> None:
        self._source = source
        self._planned = restored is not None

    def discover(self) -> list[SourceSplit]:
        if self._planned:
            return []
        self._planned = True
        return [SourceSplit(f"split-{at}", at, 0) for at in range(len(self._source.splits))]

    def no_more_splits(self) -> bool:
        return self._planned

    def snapshot(self) -> bool | None:
        return self._planned or None


class _Reader(SourceReader):
    def __init__(self, source: Splits) -> None:
        self._source = source
        self._durable = 0

    def on_checkpoint(self, split: SourceSplit, position: Any) -> None:
        self._durable = max(self._durable, position)

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        rows = self._source.splits[split.payload]
        marker = None if self._source.fails_once is None else Path(self._source.fails_once)
        for at in range(position, len(rows), BATCH):
            # The last batch waits for a checkpoint of what was read. A reader that returned here would say that the split has ended.
            while marker is not None and not marker.exists():
                if self._durable >= len(rows) // 2:
                    marker.touch()
                    raise RuntimeError("fails once")
                if at + BATCH < len(rows):
                    break
                yield SourceBatch(self._records([]), at)
            part = rows[at : at + BATCH]
            yield SourceBatch(self._records(part), at + len(part), self._times(part))

    def _records(self, rows: Sequence[Any]) -> Any:
        if self._source.columnar:
            return pl.DataFrame(list(rows), schema=list(self._source.names), orient="row")
        return [Row(*row) for row in rows]

    def _times(self, rows: Sequence[Any]) -> list[int]:
        return [row[1] if isinstance(row[1], int) else 0 for row in rows]
