"""Leaves out what a reader delivers again: a split's position moves forward only, and each record is new once.

A reader whose positions are ordered (`SourceReader.ordered`) tells of each batch where it comes from, so what is not after
the split's position was read before. The position is part of the checkpoint, and nothing else is remembered: after a retry,
a restart or a change of parallelism the same comparison gives the same answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from operator import lt
from typing import Any, Final

from penstock.connectors.source import ReadLimits, SourceBatch, SourceReader, SourceSplit
from penstock.errors import InvalidProgramError, RecordError

REDELIVERED: Final = "numRecordsRedelivered"  # the counter of records that were dropped


class OnceReader(SourceReader):
    """Reads with a reader that may deliver again; its own batches have new records only, and tell no more than positions.

    `on_dropped` is told how many records were left out. The deadline stops reading at a batch that this reader
    yields, so a batch without anything new is passed over until there was something new: else a reader that repeats more than
    an epoch has time for would never get on.
    """

    def __init__(self, reader: SourceReader, on_dropped: Callable[[int], None]) -> None:
        self._reader = reader
        self._on_dropped = on_dropped

    def read(self, split: SourceSplit, position: Any, limits: ReadLimits) -> Iterator[SourceBatch]:
        """Yield what is new from `position` on."""
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


def new_part(batch: SourceBatch, split: SourceSplit, position: Any) -> SourceBatch:
    """Return what of a batch comes after `position`, in a batch that is without `positions` and `start`.

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
            detail=f"it was read up to {position!r}, and a batch ends at {batch.position!r}",
            hint="positions of an ordered split are all of one type that has '<', such as int or tuple; "
            "else SourceReader.ordered must not return True",
        ) from error
    if old == 0:
        return SourceBatch(batch.records, end, batch.timestamps, malformed=malformed)
    timestamps = None if batch.timestamps is None else batch.timestamps[old:]
    return SourceBatch(batch.records[old:], end, timestamps, malformed=malformed)


def _count_old(batch: SourceBatch, split: SourceSplit, position: Any) -> int:
    """Return how many records at the beginning of a batch are not after `position`; None is before all positions."""
    if batch.positions is not None:
        _check(batch, split)
        return 0 if position is None else bisect_right(batch.positions, position)
    if not batch.records or position is None:
        return 0
    if not position < batch.position:
        return len(batch.records)
    if batch.start is None:
        raise InvalidProgramError(
            f"a batch of split '{split.split_id}' does not tell where its records come from",
            detail=f"it ends at {batch.position!r}, after the {position!r} that the split was read up to; whether all of it "
            "does is not known",
            hint="a reader whose positions are ordered gives each SourceBatch the positions of its records, or its start",
        )
    if not batch.start < batch.position:
        raise _wrong_positions(
            split, f"it starts at {batch.start!r} and ends at {batch.position!r}"
        )
    if batch.start < position:
        raise RecordError(
            f"a batch of split '{split.split_id}' has records that were read before, and new ones",
            detail=f"it goes from {batch.start!r} to {batch.position!r}, and the split was read up to {position!r}; which "
            "records those are is not known",
            hint="give the SourceBatch the positions of its records, or end a batch where an earlier one ended",
        )
    return 0


def _check(batch: SourceBatch, split: SourceSplit) -> None:
    """Refuse positions that do not belong to the records."""
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
            split, f"it ends at {batch.position!r}, and its last record at {last!r}"
        )


def _wrong_positions(split: SourceSplit, detail: str) -> InvalidProgramError:
    return InvalidProgramError(
        f"the positions of a batch of split '{split.split_id}' are wrong",
        detail=detail,
        hint="each record has the position after it, higher than the one before, and the last one's is the batch's; end a "
        "batch where delivery goes back, and number records that share a position: (position, 0), (position, 1)",
    )
