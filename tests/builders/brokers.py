"""A source that delivers again: from before the position that it was asked for, and whenever it likes."""

from __future__ import annotations

import itertools
import random
import time

from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)

WILD = 10**12  # the timestamp of everything that was delivered before

_readers = itertools.count()


def other_every_time():
    """Return a generator that gives other numbers for each reader of this process."""
    return random.Random(f"broker {next(_readers)}")


class Broker(Source):
    """Splits of numbered records, (split, number) with timestamp number.

    `tells` is how batches say where they come from, and `position` makes a position of a number of records. `waits` is how
    often a batch comes when the epoch's time is up.
    """

    def __init__(
        self,
        lengths,
        chance=other_every_time,
        *,
        bounded=True,
        tells="positions",
        position=int,
        waits=1.0,
    ):
        self.lengths = lengths
        self.chance = chance
        self.bounded = bounded
        self.tells = tells
        self.position = position
        self.waits = waits
        self.delivered = 0

    def get_boundedness(self):
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def splits(self):
        return [
            SourceSplit(str(number), length, self.position(0))
            for number, length in enumerate(self.lengths)
        ]

    def create_enumerator(self, parallelism, restored=None):
        return _Enumerator(self, found=bool(restored))

    def create_reader(self):
        return BrokerReader(self)


class _Enumerator(SplitEnumerator):
    def __init__(self, source, *, found):
        self.source = source
        self.found = found

    def discover(self):
        found, self.found = self.found, True
        return [] if found else self.source.splits()

    def no_more_splits(self):
        return self.found

    def has_data(self, positions):
        ends = map(self.source.position, self.source.lengths)
        return sorted(positions) != sorted(ends)

    def snapshot(self):
        return self.found


class BrokerReader(SourceReader):
    def __init__(self, source):
        self.source = source
        self.chance = source.chance()

    def ordered(self, split):
        return True

    def read(self, split, position, limits):
        of = self.source.position
        known = next(n for n in range(split.payload + 1) if of(n) == position)
        head = self._back(known) if self.chance.random() < 0.6 else known
        while head < split.payload:
            end = min(head + self.chance.randint(1, 6), split.payload)
            if self.source.tells == "start" and head < known:
                end = min(end, known)
            numbers = range(head, end)
            batch = SourceBatch(
                [(split.split_id, number) for number in numbers],
                of(end),
                [WILD if number < known else number for number in numbers],
            )
            if self.source.tells == "start":
                batch.start = of(head)
            else:
                batch.positions = [of(number + 1) for number in numbers]
            self.source.delivered += len(numbers)
            if limits.deadline is not None and self.chance.random() < self.source.waits:
                while time.time() < limits.deadline:
                    pass
            yield batch
            known = max(known, end)
            head = self._back(end) if self.chance.random() < 0.3 else end

    def _back(self, number):
        return max(0, number - self.chance.randint(1, 8))
