"""DataFrames of Spark as tables that are read in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.connectors.base.source import Source
from penstock.connectors.spark.source import DataFrameSource
from penstock.connectors.spark.stream_source import DataFrameStreamSource
from penstock.sql.connector.changelog_mode import ChangelogMode
from penstock.sql.connector.providers import ScanProvider
from penstock.sql.types import RowType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class _FrameScan:
    """Base of both: Spark reads only the columns that a query needs."""

    def __init__(self, frame: DataFrame, columns: RowType) -> None:
        self._frame = frame
        self._columns = columns

    def changelog_mode(self) -> ChangelogMode:
        """Rows of DataFrames are inserts."""
        return ChangelogMode.insert_only()

    def apply_projection(self, names: Sequence[str]) -> None:
        """Read these columns only."""
        self._columns = RowType([self._columns[name] for name in names])

    def _provider(self, source: Source) -> ScanProvider:
        columns = self._columns
        return ScanProvider(
            source, tuple(columns.field_names()), tuple(columns.field_types()), columnar=True
        )


class DataFrameScan(_FrameScan):
    """A bounded DataFrame. Spark reads no more rows than a limit needs."""

    def bounded(self) -> bool:
        """Return True: it has an end."""
        return True

    def apply_limit(self, limit: int) -> None:
        """Read no more rows than this."""
        self._frame = self._frame.limit(limit)

    def scan(self) -> ScanProvider:
        """Return a source of frames."""
        return self._provider(DataFrameSource(self._frame, self._columns, columnar=True))


class DataFrameStreamScan(_FrameScan):
    """A streaming DataFrame."""

    def __init__(self, frame: DataFrame, columns: RowType, trigger_interval: str | None) -> None:
        super().__init__(frame, columns)
        self._trigger_interval = trigger_interval

    def bounded(self) -> bool:
        """Return False: it has no end."""
        return False

    def scan(self) -> ScanProvider:
        """Return a source of frames."""
        source = DataFrameStreamSource(
            self._frame, self._columns, columnar=True, trigger_interval=self._trigger_interval
        )
        return self._provider(source)
