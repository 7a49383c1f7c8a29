"""A bounded source of the rows of a DataFrame, in columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import polars as pl

from penstock.common.user_types import Position
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)

ROWS_AT_ONCE = 8192


class FrameSource(CollectionSource):
    """Emits a DataFrame in batches: a collection of pieces of it, each an Arrow stream. Large ones are put into files of the job, as collections are."""

    def __init__(self, frame: pl.DataFrame, splits: int = 1) -> None:
        rows = max(1, min(ROWS_AT_ONCE, -(-frame.height // splits)))
        pieces = [_packed(frame.slice(at, rows)) for at in range(0, frame.height, rows)]
        super().__init__(pieces, splits=splits)

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return _FrameReader(super().create_reader())


def _packed(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    return buffer.getvalue()


class _FrameReader(SourceReader):
    def __init__(self, pieces: SourceReader) -> None:
        self._pieces = pieces

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        for each in self._pieces.read(split, position, limits.with_batch_size(1)):
            records: Any = pl.read_ipc_stream(io.BytesIO(each.records[0]))
            yield SourceBatch(records, each.position)
