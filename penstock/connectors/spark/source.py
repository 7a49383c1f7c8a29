"""The rows of a bounded DataFrame of Spark, read by Spark on its executors and kept in Arrow files of the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.common.typeinfo import TypeInformation
from penstock.common.user_types import Position, StateValue
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
    SplitProgress,
)
from penstock.connectors.base.static_splits import StaticSplitEnumerator
from penstock.errors import RecordError, RestoreRefusedError, UnsupportedOperationError
from penstock.files.file_system import resolve
from penstock.formats.base.rows import rows_of
from penstock.pickling.portable_pickles import is_for_a_driver
from penstock.runtime.columnar.arrow_columns import frame_of_arrow
from penstock.runtime.columnar.arrow_files import ROWS_PER_BATCH, ArrowFile, read_arrow_file
from penstock.runtime.columnar.values import values_of_series
from penstock.sql import types as t
from penstock.sql.connector.type_mapping import type_information_of

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

DEFAULT_NAME: Final = "Spark DataFrame"


class DataFrameSource(Source):
    """Emits the rows of a DataFrame: as Rows, or in columns as polars.DataFrames.

    A Spark job writes the rows of each partition to a file before the tasks of the job are deployed. A split is the file of a
    partition, a position the number of its rows that were read. `columns` are read, in this order, with these types.
    """

    carries_timestamps = False

    def __init__(
        self, frame: DataFrame, columns: t.RowType, name: str = DEFAULT_NAME, *, columnar: bool
    ) -> None:
        self._frame: DataFrame | None = frame
        self.columns = columns
        self.name = name
        self.columnar = columnar
        self._directory: str | None = None

    def attach_storage(self, path: str) -> None:
        """Set the directory (path or URI) of the files: it exists as long as the job, and executors reach it."""
        self._directory = path

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded: always."""
        return Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the Rows."""
        return None if self.columnar else type_information_of(self.columns)

    def create_enumerator(self, parallelism: int, restored: StateValue = None) -> SplitEnumerator:
        """Create the enumerator."""
        return DataFrameEnumerator(self.write_splits, restored)

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return ArrowFileReader(self.columns, columnar=self.columnar)

    def write_splits(self, interrupted: Callable[[], bool]) -> list[SourceSplit]:
        """Let Spark compute the rows and write them; return a split for each partition with rows."""
        from penstock.spark.data_frame_types import numbered_columns, without_month_intervals
        from penstock.spark.data_frames import write_partitions

        if self._frame is None or self._directory is None:
            raise RecordError(
                f"the DataFrame '{self.name}' is missing",
                detail="the source was created in another process, without it",
                hint="use the source in the process that created it",
            )
        names = self.columns.field_names()
        frame = without_month_intervals(numbered_columns(self._frame, names))
        files = write_partitions(frame, names, self._directory, self.name, interrupted)
        return [SourceSplit(_split_id(each), each, 0, bounded=True) for each in files]

    def adopt_split(self, split: SourceSplit) -> SourceSplit:
        """Return a split of another job whose file still exists."""
        check_file_exists(split, self.name)
        return split

    def __getstate__(self) -> dict[str, Any]:
        return without_frame(self)

    def __repr__(self) -> str:
        return f"DataFrameSource({self.name})"


def check_file_exists(split: SourceSplit, name: str) -> None:
    """Refuse a split of another job whose file was deleted."""
    file: ArrowFile = split.payload
    files, path = resolve(file.path)
    if not files.has_file(path):
        raise RestoreRefusedError(
            f"the rows of the DataFrame '{name}' that the checkpoint was reading no longer exist",
            detail=f"'{file.path}' was kept with the job that wrote it: until that has finished, or, without "
            "execution.checkpointing.dir, until it has ended",
            hint="set execution.checkpointing.dir for jobs that are to be resumed; to read the DataFrame from its start, "
            "give the source another uid",
        )


def without_frame(source: Any) -> dict[str, Any]:
    """Return what is sent of a source of a DataFrame: to tasks all but the DataFrame, to another JobManager nothing."""
    if is_for_a_driver():
        raise UnsupportedOperationError(
            f"the DataFrame '{source.name}' cannot be sent to another JobManager",
            detail="it belongs to the Spark application of this process",
            hint="run the job in this process, without a session; or write the DataFrame to files or a lake table, "
            "and read these",
        )
    return {**source.__dict__, "_frame": None}


def _split_id(file: ArrowFile) -> str:
    """Return the name of a file without the part that is different each time: partition numbers are the same."""
    return file.path.rpartition("/")[2].rpartition("-")[0]


class DataFrameEnumerator(StaticSplitEnumerator):
    """The partitions of a DataFrame, which `write` lets Spark compute once for all attempts of the job."""

    def __init__(
        self,
        write: Callable[[Callable[[], bool]], list[SourceSplit]],
        restored: StateValue = None,
    ) -> None:
        super().__init__((), restored, left=rows_left)
        self._write = write
        #: None until Spark has read the DataFrame, and if that was before the checkpoint that is restored
        self._written: list[SourceSplit] | None = None
        self._done = restored is not None

    def take_over(self, before: SplitEnumerator) -> None:
        """Use the files of the attempt that failed before the first checkpoint: its output may be known already."""
        if isinstance(before, DataFrameEnumerator) and before._written is not None:  # noqa: SLF001 - of the same class
            self._keep(before._written)  # noqa: SLF001

    def prepare(self, interrupted: Callable[[], bool]) -> None:
        """Let Spark read the DataFrame, unless it has."""
        if not self._done:
            self._keep(self._write(interrupted))

    def _keep(self, splits: Sequence[SourceSplit]) -> None:
        self._written = list(splits)
        self._splits = list(splits)
        self._done = True

    def discover(self) -> list[SourceSplit]:
        """Return all splits, at the first call."""
        self.prepare(lambda: False)
        return super().discover()

    def no_more_splits(self) -> bool:
        """Whether all splits were assigned."""
        return self._done and super().no_more_splits()

    def snapshot(self) -> StateValue:
        """Return a marker once the splits are assigned."""
        return super().snapshot() if self._done else None


def rows_left(progress: SplitProgress) -> int:
    """Return how many rows of a split are left to read."""
    file: ArrowFile = progress.split.payload
    return max(0, file.rows - (progress.position or 0))


class ArrowFileReader(SourceReader):
    """Reads Arrow files; a position is the number of rows of a file that were read."""

    def __init__(self, columns: t.RowType, *, columnar: bool) -> None:
        self._names = columns.field_names()
        self._types = columns.field_types()
        self._columnar = columnar

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Yield rows from a position on."""
        rows = ROWS_PER_BATCH if self._columnar else limits.batch_size
        for batch, following in read_arrow_file(split.payload, position or 0, rows):
            frame = frame_of_arrow(self._columns_of(batch), self._types)
            records: Any = frame if self._columnar else self._rows(frame)
            yield SourceBatch(records, following)

    def _columns_of(self, batch: pa.RecordBatch) -> pa.Table:
        import pyarrow as pa

        given = batch.schema.names
        missing = [name for name in self._names if name not in given]
        if missing:
            raise RecordError(
                f"the rows that Spark has written have no column '{missing[0]}'",
                detail=f"they have {', '.join(given)}: the program that read the DataFrame first used these",
                hint="read the same columns as before, or give the source another uid to read the DataFrame from its start",
            )
        return pa.Table.from_batches([batch]).select(self._names)

    def _rows(self, frame: pl.DataFrame) -> list[Any]:
        columns = [
            values_of_series(series, kind)
            for series, kind in zip(frame.get_columns(), self._types, strict=True)
        ]
        return rows_of(self._names, zip(*columns, strict=True))


def data_frame_columns(
    df: object, method: str, *, streaming: bool = False
) -> tuple[DataFrame, t.RowType]:
    """Return a DataFrame and its columns; refuse one that cannot be read. `method` is the one that was called."""
    from penstock.spark.data_frame_types import row_type_of
    from penstock.spark.data_frames import check_bounded, check_data_frame, check_streaming

    frame = check_data_frame(df, method)
    (check_streaming if streaming else check_bounded)(frame, method)
    return frame, row_type_of(frame.schema)
