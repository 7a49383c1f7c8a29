"""DataFrames at the ends of a job, in columns: a bounded source of the rows of one, and a sink that hands its rows to the program."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

import polars as pl

from penstock.common.user_types import Position
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.sink import SinkWriter, WriterContext
from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.connectors.base.staged_sinks import CollectSink, StagedSinkWriter

ROWS_AT_ONCE = 8192


class FrameSource(CollectionSource):
    """Emits a DataFrame in batches: a collection of pieces of it, each an Arrow stream. Large ones are put into files of the job, as collections are."""

    def __init__(self, frame: pl.DataFrame, splits: int = 1) -> None:
        rows = max(1, min(ROWS_AT_ONCE, -(-frame.height // splits)))
        pieces = [pack_frame(frame.slice(at, rows)) for at in range(0, frame.height, rows)]
        super().__init__(pieces, splits=splits)

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return _FrameReader(super().create_reader())


class FrameCollectSink(CollectSink):
    """Passes the rows of a table to its consumer in columns: each element is a frame as `pack_frame` makes it."""

    def create_writer(self, context: WriterContext, restored: Any = None) -> SinkWriter:
        """Create the writer of one subtask."""
        return _FrameWriter(context)


class _FrameWriter(StagedSinkWriter):
    def write(self, values: Any, timestamps: list[int | None] | None, watermark: int) -> None:
        self.put(pickle.dumps([pack_frame(values)], protocol=pickle.HIGHEST_PROTOCOL))


def pack_frame(frame: pl.DataFrame) -> bytes:
    """Return a frame as an Arrow stream."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    return buffer.getvalue()


def unpack_frame(packed: bytes) -> pl.DataFrame:
    """Return the frame that `pack_frame` was given."""
    return pl.read_ipc_stream(io.BytesIO(packed))


class _FrameReader(SourceReader):
    def __init__(self, pieces: SourceReader) -> None:
        self._pieces = pieces

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        for each in self._pieces.read(split, position, limits.with_batch_size(1)):
            records: Any = unpack_frame(each.records[0])
            yield SourceBatch(records, each.position)
