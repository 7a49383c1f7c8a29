"""Drops records that a reader delivers again: a split's position only moves forward, and each record counts once.

A reader with ordered positions (`SourceReader.ordered`) declares the position of each batch, so everything not after the
split's position was read before. The position is part of the checkpoint, and nothing else is kept: after a retry, a restart or
a rescale the same comparison gives the same result.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from operator import lt
from typing import Final

from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.errors import InvalidProgramError, RecordError

REDELIVERED: Final = "numRecordsRedelivered"  # the counter of dropped records


class DeduplicatingReader(SourceReader):
    """Wraps a reader that may deliver again; its batches contain new records only, and only positions.

    `on_dropped` is called with the number of dropped records. The deadline stops reading at a batch that this reader
    yields, so a batch
    without new records is skipped until there is one: otherwise a reader that repeats more than fits into an epoch would
    never make
    progress.
    """

    def __init__(self, reader: SourceReader, on_dropped: Callable[[int], None]) -> None:
        self._reader = reader
        self._on_dropped = on_dropped

    def read(
        self, split: SourceSplit, position: object, limits: ReadLimits
    ) -> Iterator[SourceBatch]:
        """Yield new records from `position` on."""
        moved = False
        for batch in self._reader.read(split, position, limits):
            found = new_part(batch, split, position)
            dropped = len(batch.records) - len(found.records)
            dropped += len(batch.malformed) - len(found.malformed)
            if dropped:
                self._on_dropped(dropped)
            moved = moved or found.position is not position
            position = found.position
            if moved or not (batch.records or batch.malformed):
                yield found


def new_part(batch: SourceBatch, split: SourceSplit, position: object) -> SourceBatch:
    """Return the part of a batch after `position`, as a batch without `positions` and `start`.

    >>> batch = SourceBatch(["c", "d", "e"], 5, positions=[3, 4, 5])
    >>> new_part(batch, SourceSplit("s"), 4)
    SourceBatch(records=['e'], position=5, timestamps=None, positions=None, start=None, malformed=())
    """
    try:
        old = _count_old(batch, split, position)
        malformed = batch.malformed
        if malformed and position is not None:
            malformed = [each for each in malformed if position < each.position]
        end = batch.position if position is None or position < batch.position else position
    except TypeError as error:
        raise InvalidProgramError(
            f"positions of split '{split.split_id}' cannot be compared: {error}",
            detail=f"it was read up to {position!r}, but a batch ends at {batch.position!r}",
            hint="positions of an ordered split must all have one type that supports '<', such as int or tuple; "
            "otherwise SourceReader.ordered must not return True",
        ) from error
    if old == 0:
        return SourceBatch(batch.records, end, batch.timestamps, malformed=malformed)
    timestamps = None if batch.timestamps is None else batch.timestamps[old:]
    return SourceBatch(batch.records[old:], end, timestamps, malformed=malformed)


def _count_old(batch: SourceBatch, split: SourceSplit, position: object) -> int:
    """Return the number of records at the beginning of a batch that are not after `position`; None is before all positions."""
    if batch.positions is not None:
        _check(batch, split)
        return 0 if position is None else bisect_right(batch.positions, position)
    if not batch.records or position is None:
        return 0
    if not position < batch.position:
        return len(batch.records)
    if batch.start is None:
        raise InvalidProgramError(
            f"a batch of split '{split.split_id}' has no positions",
            detail=f"it ends at {batch.position!r}, after the {position!r} that the split was read up to; whether all of its records "
            "are new is unknown",
            hint="a reader with ordered positions must set the positions of the records, or the start, of each SourceBatch",
        )
    if not batch.start < batch.position:
        raise _wrong_positions(
            split, f"it starts at {batch.start!r} and ends at {batch.position!r}"
        )
    if batch.start < position:
        raise RecordError(
            f"a batch of split '{split.split_id}' contains both new records and records that were read before",
            detail=f"it ranges from {batch.start!r} to {batch.position!r}, but the split was read up to {position!r}; which "
            "records are new is unknown",
            hint="set the positions of the records in the SourceBatch, or end a batch where an earlier one ended",
        )
    return 0


def _check(batch: SourceBatch, split: SourceSplit) -> None:
    """Reject positions that do not match the records."""
    positions, count = batch.positions, len(batch.records)
    assert positions is not None
    if len(positions) != count:
        raise _wrong_positions(split, f"it has {count} records and {len(positions)} positions")
    if not all(map(lt, positions, islice(positions, 1, None))):
        at = next(n for n in range(1, count) if not positions[n - 1] < positions[n])
        raise _wrong_positions(split, f"{positions[at]!r} follows {positions[at - 1]!r}")
    # Positions of records instead of those after them would lose the first record of every batch.
    if not count:
        return
    last = positions[-1]
    if batch.malformed and last < batch.malformed[-1].position:
        last = batch.malformed[-1].position
    if batch.position < last or last < batch.position:
        raise _wrong_positions(
            split, f"it ends at {batch.position!r}, but its last record at {last!r}"
        )


def _wrong_positions(split: SourceSplit, detail: str) -> InvalidProgramError:
    return InvalidProgramError(
        f"invalid positions in a batch of split '{split.split_id}'",
        detail=detail,
        hint="each record needs the position after it, in ascending order, and the last one must be the batch's; end a "
        "batch where delivery goes back, and number records that share a position: (position, 0), (position, 1)",
    )
