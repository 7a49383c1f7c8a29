"""A source whose enumerator remembers nothing."""

from __future__ import annotations

import time

from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)


class Forgetful(Source):
    """Its enumerator remembers nothing; with `always` it finds all splits before every epoch."""

    def __init__(self, lengths=(2, 7), *, always=False, bounded=True):
        self.lengths = lengths
        self.always = always
        self.bounded = bounded

    def get_boundedness(self):
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        assert restored is None
        return ForgetfulEnumerator(self)

    def create_reader(self):
        return Reader()


class ForgetfulEnumerator(SplitEnumerator):
    def __init__(self, source):
        self.source = source
        self.found = False

    def discover(self):
        if not self.found or self.source.always:
            self.found = True
            for number, length in enumerate(self.source.lengths):
                yield SourceSplit(str(number), payload=length, start=0, bounded=True)

    def no_more_splits(self):
        return self.found


class Reader(SourceReader):
    def read(self, split, position, limits):
        while position < split.payload:
            position += 1
            # So that this batch is the only one of the epoch: the deadline is 1 ms after its start.
            while limits.deadline is not None and time.time() < limits.deadline:
                pass
            yield SourceBatch([(split.split_id, position)], position)
