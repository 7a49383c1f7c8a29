"""Python data sources of PySpark as sources: all their rows, or a stream by offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from penstock.formats.base.arrow_rows import to_rows
from penstock.pickling import cloudpickling
from penstock.runtime.columnar.arrow_columns import frame_of_arrow
from penstock.runtime.columnar.arrow_files import ROWS_PER_BATCH
from penstock.spark import python_data_sources as pyspark_sources
from penstock.spark.data_frame_types import row_type_of
from penstock.spark.python_data_sources import Offset, OffsetReader
from penstock.sql import types as t
from penstock.sql.connector.type_mapping import type_information_of

if TYPE_CHECKING:
    import pyarrow as pa


class DataSourceSource(Source):
    """What a PySpark data source reads: as Rows, or in columns with the types of a table.

    A split is a partition of the data source. It can only be read from its start: after a restart, read() is called again and the rows
    before the position are skipped. So read() must return the same rows in the same order each time, as Spark expects of it, too.
    """

    carries_timestamps = False

    def __init__(
        self, data_source: Any, schema: Any, reader: Any, columns: t.RowType | None = None
    ) -> None:
        self.data_source = data_source
        self.schema = schema
        self.reader = reader
        self.columns = columns

    def __getstate__(self) -> dict[str, Any]:
        # Classes of data sources are often in the program itself, and Spark pickles them so, too.
        return {"pickled": cloudpickling.dumps(self.__dict__)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(cloudpickling.loads(state["pickled"]))

    def get_boundedness(self) -> Boundedness:
        """Return that it ends."""
        return Boundedness.BOUNDED

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the Rows."""
        return type_information_of(row_type_of(self.schema))

    def create_enumerator(self, parallelism: int, restored: StateValue = None) -> SplitEnumerator:
        """Create the enumerator; the partitions are planned once, and are in checkpoints from then on."""
        if restored is not None:
            return StaticSplitEnumerator((), restored)
        planned = pyspark_sources.plan_partitions(self.reader)
        return StaticSplitEnumerator(
            SourceSplit(f"partition-{number}", partition, 0, bounded=True)
            for number, partition in enumerate(planned)
        )

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return _PartitionReader(self)

    def batches(self, partition: bytes, size: int) -> Iterator[pa.RecordBatch]:
        """Read a partition from its start."""
        return pyspark_sources.read_partition(
            self.data_source, self.reader, partition, self.schema, size
        )


class DataSourceStream(DataSourceSource):
    """What a PySpark data source reads as a stream, from offset to offset."""

    def get_boundedness(self) -> Boundedness:
        """Return that it has no end."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism: int, restored: StateValue = None) -> SplitEnumerator:
        """Create the enumerator, which goes from offset to offset."""
        return OffsetEnumerator(OffsetReader(self.reader), restored)


@dataclass(frozen=True, slots=True)
class PlannedOffsets:
    """The state of the enumerator: up to where partitions are planned, and which of them are not finished in a checkpoint.

    `uncommitted` has the offsets that are not committed to the data source yet, each with the ids of the splits before it, oldest first.
    """

    offset: Offset
    batches: int = 0
    uncommitted: tuple[tuple[Offset, frozenset[str]], ...] = ()


class OffsetEnumerator(SplitEnumerator):
    """Plans the partitions between one offset and the next, when those of the last one are read to their end.

    So rows come in the order of the offsets, as in Spark. An offset is committed when all partitions before it are finished in a durable
    checkpoint.
    """

    def __init__(self, offsets: OffsetReader, restored: StateValue) -> None:
        self._offsets = offsets
        self._state: PlannedOffsets | None = restored
        self._reading = False

    def observe(self, unfinished: Sequence[SourceSplit]) -> None:
        """Note whether partitions are still being read."""
        self._reading = bool(unfinished)

    def observe_finished(self, finished: Sequence[SplitProgress]) -> None:
        """Commit the offsets before which everything is finished."""
        state = self._state
        assert state is not None  # splits were planned
        done = {each.split.split_id for each in finished}
        left = [(end, ids - done) for end, ids in state.uncommitted]
        while left and not left[0][1]:
            self._offsets.commit(left.pop(0)[0])
        self._state = PlannedOffsets(state.offset, state.batches, tuple(left))

    def discover(self) -> Iterable[SourceSplit]:
        """Plan the partitions up to the latest offset, if those before are read."""
        state = self._state
        if state is None:
            state = self._state = PlannedOffsets(self._offsets.first())
        if self._reading:
            return []
        end = self._offsets.latest(state.offset)
        if end == state.offset:
            return []
        number = state.batches + 1
        planned = self._offsets.partitions(state.offset, end)
        splits = [
            SourceSplit(f"{number}-{at}", partition, 0, bounded=True)
            for at, partition in enumerate(planned)
        ]
        ids = frozenset(split.split_id for split in splits)
        self._state = PlannedOffsets(end, number, (*state.uncommitted, (end, ids)))
        return splits

    def no_more_splits(self) -> bool:
        """Return that there may always be more."""
        return False

    def has_data(self, positions: Sequence[Any]) -> bool:
        """Whether partitions are to be read."""
        return bool(positions)

    def snapshot(self) -> StateValue:
        """Return up to where partitions are planned."""
        return self._state

    def close(self) -> None:
        """Stop the data source."""
        self._offsets.stop()


class _PartitionReader(SourceReader):
    """Reads partitions; a position is the number of rows that were read."""

    def __init__(self, source: DataSourceSource) -> None:
        self._source = source

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        at = 0
        size = limits.batch_size if self._source.columns is None else ROWS_PER_BATCH
        for batch in self._source.batches(split.payload, size):
            before, at = at, at + batch.num_rows
            if at <= position:
                continue
            rest = batch.slice(max(0, position - before))
            for start in range(0, rest.num_rows, size):
                part = rest.slice(start, size)
                position += part.num_rows
                yield SourceBatch(self._records(part), position)

    def _records(self, part: pa.RecordBatch) -> Any:
        import pyarrow as pa

        columns = self._source.columns
        if columns is None:
            return to_rows(part)
        return frame_of_arrow(pa.Table.from_batches([part]), columns.field_types())
