"""A bounded source of consecutive numbers."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.common.user_types import Position
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
from penstock.errors import ArgumentError, ArgumentTypeError


class NumberSequenceSource(Source):
    """Emits the numbers from `start` to `end`, both included, in one ascending range per subtask.

    >>> source = NumberSequenceSource(1, 10)
    >>> [split.payload for split in source.create_enumerator(3).discover()]
    [(1, 4), (5, 7), (8, 10)]
    """

    carries_timestamps = False

    def __init__(self, start: int, end: int) -> None:
        for name, value in (("start", start), ("end", end)):
            if not isinstance(value, int) or isinstance(value, bool):
                raise ArgumentTypeError(f"{name} is not an integer", detail=f"got {value!r}")
        if start > end:
            raise ArgumentError(
                "the sequence is empty",
                detail=f"start {start} is greater than end {end}",
                hint="the sequence includes both ends; end must be at least start",
            )
        self.start = start
        self.end = end

    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded: always."""
        return Boundedness.BOUNDED

    def get_produced_type(self) -> object:
        """Return the type of the numbers."""
        from penstock.common.typeinfo import Types

        return Types.LONG()

    def create_enumerator(self, parallelism: int, restored: object = None) -> SplitEnumerator:
        """Create the enumerator: one range per subtask, whose lengths differ by at most one."""
        size, rest = divmod(self.end - self.start + 1, parallelism)
        splits = []
        first = self.start
        for index in range(parallelism):
            length = size + (index < rest)
            if length:
                last = first + length - 1
                splits.append(SourceSplit(f"{first}-{last}", (first, last), first))
                first = last + 1
        return StaticSplitEnumerator(splits, restored, left=_numbers_left)

    def create_reader(self) -> SourceReader:
        """Create a reader."""
        return _NumberReader()


def _numbers_left(progress: SplitProgress) -> int:
    first, last = progress.split.payload
    position: int = first if progress.position is None else progress.position
    return max(0, int(last) + 1 - position)


class _NumberReader(SourceReader):
    def read(
        self, split: SourceSplit, position: Position, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        first, last = split.payload
        start = first if position is None else position
        while start <= last:
            stop = min(start + limits.batch_size, last + 1)
            yield SourceBatch(list(range(start, stop)), stop)
            start = stop
