"""The rows of a streaming DataFrame of Spark: a streaming query writes each micro-batch to files, which the job reads.

What Spark has read is noted twice: in the query's own checkpoint, as offsets of a numbered micro-batch, and in the checkpoints of the
job, as numbers of micro-batches and positions in their files. The query is always ahead. A micro-batch that Spark hands over again,
because it ended before noting that it was taken, has the same number and is not written again. One that all of a completed
checkpoint lies behind is deleted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.common.typeinfo import TypeInformation
from penstock.common.user_types import StateValue
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
    SplitProgress,
)
from penstock.connectors.spark.batches import BatchStore, MicroBatch
from penstock.connectors.spark.source import (
    ArrowFileReader,
    check_file_exists,
    rows_left,
    without_frame,
)
from penstock.errors import JobCancelledError, RecordError, RestoreRefusedError
from penstock.files.file_system import resolve
from penstock.runtime.columnar.arrow_files import ArrowFile
from penstock.sql import types as t
from penstock.sql.connector.type_mapping import type_information_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.spark.streaming_queries import FrameQuery, OnBatch

_log = logging.getLogger(__name__)

DEFAULT_NAME: Final = "Spark stream"
_CHECK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How far Spark may be ahead: it waits before it writes another micro-batch.

    `unread` and `unread_bytes` count what subtasks have not read to its end, `kept_bytes` also what they have read, until a completed
    checkpoint is behind it.
    """

    unread: int = 16
    unread_bytes: int = 256 << 20
    kept_bytes: int = 8 << 30


class DataFrameStreamSource(Source):
    """Emits the rows of a streaming DataFrame: as Rows, or in columns as polars.DataFrames.

    A split is the file of a partition of a micro-batch, a position the number of its rows that were read.
    """

    carries_timestamps = False
    # The query runs on cores of the application while the job holds others.
    reserved_slots = 1

    def __init__(
        self,
        frame: DataFrame,
        columns: t.RowType,
        name: str = DEFAULT_NAME,
        *,
        columnar: bool,
        trigger_interval: str | None = None,
        limits: StreamLimits | None = None,
    ) -> None:
        self._frame: DataFrame | None = frame
        self.columns = columns
        self.name = name
        self.columnar = columnar
        self.limits = limits or StreamLimits()
        self._trigger_interval = trigger_interval
        self.directory: str | None = None

    def attach_storage(self, path: str) -> None:
        """Set the directory (path or URI) of the query and its micro-batches: it exists as long as the job, and executors reach it."""
        self.directory = path

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded: never."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the Rows."""
        return None if self.columnar else type_information_of(self.columns)

    def create_enumerator(self, parallelism: int, restored: StateValue = None) -> SplitEnumerator:
        """Create the enumerator."""
        if self.directory is None:
            raise RecordError(
                f"the stream '{self.name}' has no directory for its micro-batches",
                hint="read it with from_spark_stream(df)",
            )
        state = restored or BatchState(self.directory)
        return BatchEnumerator(self.name, state, self.start_query, self.limits)

    def start_query(self, store: BatchStore, on_batch: OnBatch) -> FrameQuery:
        """Start the streaming query where it was, or at its beginning."""
        from penstock.spark.data_frame_types import numbered_columns
        from penstock.spark.streaming_queries import FrameQuery

        if self._frame is None:
            raise RecordError(
                f"the stream '{self.name}' is missing its DataFrame",
                detail="the source was created in another process, without it",
                hint="use the source in the process that created it",
            )
        names = self.columns.field_names()
        frame = numbered_columns(self._frame, names)
        return FrameQuery(
            frame, names, store.query_location, self.name, on_batch, self._trigger_interval
        )

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return ArrowFileReader(self.columns, columnar=self.columnar)

    def adopt_split(self, split: SourceSplit) -> SourceSplit:
        """Return a split of another job whose file still exists."""
        check_file_exists(split, self.name)
        return split

    def adopt_enumerator(self, state: BatchState) -> BatchState:
        """Return the state of another job, whose query goes on here: its directory must still exist."""
        location = BatchStore(state.home).query_location
        files, path = resolve(location)
        if not files.exists(path):
            raise RestoreRefusedError(
                f"the streaming query of '{self.name}' that the checkpoint belongs to no longer exists",
                detail=f"'{location}' has the offsets up to which Spark has read; it was kept with the job that wrote it",
                hint="set execution.checkpointing.dir for jobs that are to be resumed; to start the query from its beginning, "
                "give the source another uid",
            )
        return state

    def __getstate__(self) -> dict[str, Any]:
        return without_frame(self)

    def __repr__(self) -> str:
        return f"DataFrameStreamSource({self.name})"


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of an enumerator: the directory of the query, the last micro-batch whose splits were found, and splits that are not finished."""

    home: str
    last: int = -1
    #: By the number of a micro-batch that was not deleted
    unfinished: tuple[tuple[int, tuple[str, ...]], ...] = ()


class BatchEnumerator(SplitEnumerator):
    """Finds micro-batches as Spark has written them, and deletes those that completed checkpoints are behind."""

    def __init__(
        self,
        name: str,
        state: BatchState,
        start: Callable[[BatchStore, OnBatch], FrameQuery],
        limits: StreamLimits,
    ) -> None:
        self._name = name
        self._store = BatchStore(state.home)
        self._start = start
        self._limits = limits
        self._query: FrameQuery | None = None
        #: Guards what follows: the thread of the query writes, others read
        self._changed = threading.Condition()
        self._closed = False
        #: The last micro-batch whose splits were returned
        self._last = state.last
        #: The last one that was written; an earlier one that Spark hands over again is ignored
        self._newest = max(state.last, self._store.last_deleted())
        #: Written, but not returned yet, in order
        self._arrived: list[MicroBatch] = []
        #: By micro-batch that was returned and not deleted: splits that are not finished in a durable checkpoint
        self._unfinished = {number: set(splits) for number, splits in state.unfinished}
        #: The bytes of those that were not deleted
        self._sizes: dict[int, int] = {}
        #: Those with splits that are being read
        self._reading: set[int] = set()
        #: The last micro-batch with a split that is finished in a durable checkpoint
        self._passed = -1
        #: Whether it was logged that Spark waits
        self._said = False
        self._check_not_deleted(state)

    def _check_not_deleted(self, state: BatchState) -> None:
        """Refuse a checkpoint that is older than what was deleted."""
        deleted = self._store.last_deleted()
        if deleted > state.last:
            raise RestoreRefusedError(
                f"the checkpoint is older than what is left of the stream '{self._name}'",
                detail=f"it has read micro-batches up to {state.last}; those up to {deleted} were deleted after a later checkpoint",
                hint="restore the job's last checkpoint; to start the query from its beginning, give the source another uid",
            )

    # The query

    def prepare(self, interrupted: Callable[[], bool]) -> None:
        """Start the query."""
        if self._query is not None:
            return
        with self._changed:
            for batch in self._store.read_after(-1):
                self._sizes[batch.number] = batch.size
                if batch.number > self._last:
                    self._arrived.append(batch)
                    self._newest = batch.number
        self._query = self._start(self._store, self._on_batch)

    def _on_batch(self, number: int, write: Callable[[str], list[ArrowFile]]) -> None:
        """Keep a micro-batch of the query, in its thread."""
        if number <= self._newest:
            return  # Spark ended before it noted that this one was taken
        self._wait_for_room()
        batch = self._store.commit(number, write(self._store.directory(number)))
        with self._changed:
            self._arrived.append(batch)
            self._sizes[number] = batch.size
            self._newest = number

    def _wait_for_room(self) -> None:
        with self._changed:
            while not self._closed and (reason := self._full()):
                if not self._said:
                    self._said = True
                    _log.warning("the stream '%s' waits: %s", self._name, reason)
                self._changed.wait(_CHECK_S)
            if self._closed:
                raise JobCancelledError(f"the stream '{self._name}' was stopped")

    def _full(self) -> str | None:
        """Return why no further micro-batch may be written; None if it may."""
        unread = {*self._reading, *(batch.number for batch in self._arrived)}
        unread_bytes = sum(self._sizes[number] for number in unread)
        limits = self._limits
        if len(unread) >= limits.unread or unread_bytes >= limits.unread_bytes:
            return (
                f"the job has not read {len(unread)} micro-batches of Spark ({unread_bytes >> 20} MB); "
                "Spark reads on when it has"
            )
        kept = sum(self._sizes.values())
        if kept >= limits.kept_bytes:
            return (
                f"{kept >> 20} MB of micro-batches are kept until a checkpoint is completed; "
                "set execution.checkpointing.interval, or a shorter one"
            )
        return None

    # Splits

    def discover(self) -> list[SourceSplit]:
        """Return the splits of the micro-batches that Spark has written since the last call; raise the error of its query."""
        self.prepare(lambda: False)
        assert self._query is not None
        self._query.check()
        with self._changed:
            arrived, self._arrived = self._arrived, []
            found = []
            for batch in arrived:
                splits = [_split_of(batch.number, file) for file in batch.files]
                self._unfinished[batch.number] = {split.split_id for split in splits}
                self._last = batch.number
                if splits:
                    self._reading.add(batch.number)
                found += splits
        return found

    def observe(self, unfinished: Sequence[SourceSplit]) -> None:
        """Note which micro-batches are being read: Spark waits while there are too many."""
        with self._changed:
            self._reading = {number_of(split) for split in unfinished}
            self._changed.notify_all()

    def observe_finished(self, finished: Sequence[SplitProgress]) -> None:
        """Delete micro-batches all of whose splits are finished in a durable checkpoint."""
        with self._changed:
            for each in finished:
                number = number_of(each.split)
                self._unfinished.get(number, set()).discard(each.split.split_id)
                self._passed = max(self._passed, number)
            over = []
            for number in sorted(self._unfinished):
                # One without rows is over as soon as a later one is: only then it is in a checkpoint for certain.
                if self._unfinished[number] or number > self._passed:
                    break
                over.append(number)
        for number in over:
            self._store.delete(number)
            with self._changed:
                del self._unfinished[number]
                self._sizes.pop(number, None)
                self._changed.notify_all()

    def no_more_splits(self) -> bool:
        """Return False: a stream may always go on."""
        return False

    def snapshot(self) -> StateValue:
        """Return which micro-batches were found, and which are kept."""
        with self._changed:
            unfinished = tuple(
                (number, tuple(sorted(splits)))
                for number, splits in sorted(self._unfinished.items())
            )
            return BatchState(self._store.home, self._last, unfinished)

    def backlog(self, splits: Sequence[SplitProgress]) -> int | None:
        """Return how many written rows are left to read."""
        waiting = sum(file.rows for batch in self._arrived for file in batch.files)
        return waiting + sum(map(rows_left, splits))

    def close(self) -> None:
        """Stop the query."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._query is not None:
            self._query.stop()


def _split_of(number: int, file: ArrowFile) -> SourceSplit:
    name = file.path.rpartition("/")[2].rpartition("-")[0]
    return SourceSplit(f"{number}/{name}", file, 0, bounded=True)


def number_of(split: SourceSplit) -> int:
    """Return the number of the micro-batch that a split belongs to.

    >>> number_of(SourceSplit("12/part-00003"))
    12
    """
    return int(split.split_id.partition("/")[0])
