"""Reads a table file by file: common parts of the Delta Lake and Iceberg sources."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.common.user_types import StateValue
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.formats.base.arrow_rows import to_rows


@dataclass(frozen=True, slots=True)
class TableFileListing:
    """Files of a table, and the state of the table (a version, a snapshot) up to which they are complete."""

    splits: tuple[SourceSplit, ...]
    seen: Any


class TableSource(Source):
    """The rows of a table, as Rows; if unbounded, also rows that are added later."""

    carries_timestamps = False

    def __init__(self, *, unbounded: bool, discovery_interval_ms: int) -> None:
        if not isinstance(unbounded, bool):
            raise ArgumentTypeError("unbounded must be True or False", detail=f"got {unbounded!r}")
        if not isinstance(discovery_interval_ms, int) or isinstance(discovery_interval_ms, bool):
            raise ArgumentTypeError(
                "discovery_interval_ms must be a number of milliseconds",
                detail=f"discovery_interval_ms={discovery_interval_ms!r}",
            )
        if discovery_interval_ms < 1:
            raise ArgumentError(
                "discovery_interval_ms must be positive",
                detail=f"discovery_interval_ms={discovery_interval_ms}",
            )
        self.unbounded = unbounded
        self.discovery_interval_ms = discovery_interval_ms

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded: unless it was created as unbounded."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self.unbounded else Boundedness.BOUNDED

    @abstractmethod
    def first_files(self) -> TableFileListing:
        """Return the files to start with."""

    @abstractmethod
    def later_files(self, seen: Any) -> TableFileListing:
        """Return the files that were added after a state."""

    @abstractmethod
    def batches(self, split: SourceSplit, size: int) -> Iterator[Any]:
        """Read a file as Arrow batches, the same rows in the same order every time."""

    def create_enumerator(self, parallelism: int, restored: object = None) -> SplitEnumerator:
        """Create the enumerator, which finds files."""
        return TableEnumerator(self, restored)

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return LakeTableReader(self.batches)


class TableEnumerator(SplitEnumerator):
    """Finds the files of a table; remembers the state of the table up to which it has found them."""

    def __init__(self, source: TableSource, restored: StateValue) -> None:
        self._source = source
        self._begun = restored is not None
        self._seen = None if restored is None else restored[0]
        self._next_look = 0.0

    def discover(self) -> Iterable[SourceSplit]:
        """Look for files, at most once per interval."""
        if self._begun and not self._source.unbounded:
            return []
        if self._begun and time.monotonic() < self._next_look:
            return []
        self._next_look = time.monotonic() + self._source.discovery_interval_ms / 1000
        source = self._source
        found = source.later_files(self._seen) if self._begun else source.first_files()
        self._begun, self._seen = True, found.seen
        return found.splits

    def no_more_splits(self) -> bool:
        """Whether the files of a bounded source were found."""
        return self._begun and not self._source.unbounded

    def snapshot(self) -> StateValue:
        """Return the state of the table up to which files were found."""
        return (self._seen,) if self._begun else None


class LakeTableReader(SourceReader):
    """Reads files; a position is the number of rows of a file that were read."""

    def __init__(self, batches: Callable[[SourceSplit, int], Iterator[Any]]) -> None:
        self._batches = batches

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        """Yield rows from a position on."""
        at = 0
        for batch in self._batches(split, limits.batch_size):
            before, at = at, at + batch.num_rows
            if at <= position:
                continue
            rest = batch.slice(max(0, position - before))
            for start in range(0, rest.num_rows, limits.batch_size):
                part = rest.slice(start, limits.batch_size)
                position += part.num_rows
                yield SourceBatch(to_rows(part), position)


def check_columns(columns: Any, available: list[str], table: str) -> list[str]:
    """Return the columns to read: the requested ones, or all."""
    if columns is None:
        return available
    wanted = [columns] if isinstance(columns, str) else list(columns)
    missing = [name for name in wanted if name not in available]
    if missing or not wanted:
        raise ArgumentError(
            f"{table} does not have all requested columns",
            detail=f"missing {missing}, the table has {available}",
        )
    return wanted
