"""The reader of a change data capture source: reads chunks of tables, and the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.common.user_types import Position
from penstock.connectors.base.source import (
    NonBlockingReadLimits,
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.connectors.postgres_cdc.chunk_reader import ChunkReader
from penstock.connectors.postgres_cdc.enumerator import LogPayload
from penstock.connectors.postgres_cdc.log_reader import LogReader
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.positions import as_stream_position

CHUNKS_AT_ONCE: Final = 2  # each has a connection


class CdcReader(SourceReader):
    """Reads chunks, one after another, or the log. It connects when it is first asked to read."""

    def __init__(self, options: CdcOptions) -> None:
        self._options = options
        self._wake: Callable[[], None] = lambda: None
        self._chunks: dict[str, ChunkReader] = {}  # by split id, while they are read
        self._log: LogReader | None = None

    def use_wake(self, wake: Callable[[], None]) -> None:
        """Set the callback that the threads call when there is something to read."""
        self._wake = wake

    def _woken(self) -> None:
        self._wake()

    def open(self, context: Any) -> None:
        """Register metrics, with the names of Flink CDC."""
        metrics = context.get_metrics_group()
        metrics.gauge("currentFetchEventTimeLag", self._fetch_lag)
        metrics.gauge("sourceIdleTime", self._idle_time)

    def _fetch_lag(self) -> int:
        return 0 if self._log is None else self._log.fetch_lag_ms

    def _idle_time(self) -> int:
        return 0 if self._log is None else int(time.time() * 1000) - self._log.active_ms

    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Yield rows of a chunk, or changes of the log."""
        if not isinstance(split.payload, LogPayload):
            yield from self._read_chunk(split, position, limits)
            return
        if self._log is None:
            self._log = LogReader(self._options, split.payload.owner, self._woken)
        yield from self._log.read(as_stream_position(position), limits)

    def _read_chunk(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        reader = self._chunks.get(split.split_id)
        if reader is None:
            while len(self._chunks) >= CHUNKS_AT_ONCE and isinstance(limits, NonBlockingReadLimits):
                yield SourceBatch([], position)  # read once another chunk is finished
            while len(self._chunks) >= CHUNKS_AT_ONCE:  # a chunk that this task no longer reads
                self._chunks.pop(next(iter(self._chunks))).stop()
            reader = self._chunks[split.split_id] = ChunkReader(self._options, self._woken)
        yield from reader.read(split, position, limits)
        self._chunks.pop(split.split_id, None)

    def next_ready(self, split: SourceSplit, position: object) -> float | None:
        """Return the number of seconds until the split may have records again."""
        if not isinstance(split.payload, LogPayload):
            reader = self._chunks.get(split.split_id)
            return None if reader is None else reader.next_ready()
        return None if self._log is None else self._log.next_ready()

    def on_checkpoint(self, split: SourceSplit, position: object) -> None:
        """Confirm the position, so that the server can discard log that no checkpoint needs."""
        if isinstance(split.payload, LogPayload) and self._log is not None:
            self._log.confirm(as_stream_position(position))

    def close(self) -> None:
        """Close the connections."""
        for reader in self._chunks.values():
            reader.stop()
        if self._log is not None:
            self._log.stop()
