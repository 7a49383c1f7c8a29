"""A source that follows a script, and a log that user functions write to."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from penstock.common import WatermarkStrategy
from penstock.connectors.source import (
    Boundedness,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import MapFunction
from tests.builders.environments import configured, restarts

MIN, MAX = -(2**63), 2**63 - 1
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
NONE = WatermarkStrategy.no_watermarks()


class Script(Source):
    """Each split is a list of batches of (value, timestamp) pairs, or of values; one batch is read per epoch.

    A split's position is (its name, the batches read). A bounded split that is cut waits for the deadline before it gives
    its batch, so that the next epoch has to go on from the position.
    """

    def __init__(self, *splits, bounded=True):
        self.splits = {f"split-{n}": split for n, split in enumerate(splits)}
        self.bounded = bounded

    def get_boundedness(self):
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return _Enumerator(self, restored)

    def create_reader(self):
        return _Reader(self)


class _Enumerator(SplitEnumerator):
    def __init__(self, source, restored):
        self.source = source
        self.planned = restored is not None

    def discover(self):
        if self.planned:
            return []
        self.planned = True
        return [SourceSplit(name, None, (name, 0)) for name in self.source.splits]

    def no_more_splits(self):
        return self.planned and self.source.bounded

    def snapshot(self):
        return self.planned or None

    def has_data(self, positions):
        return any(read < len(self.source.splits[name]) for name, read in positions)


class _Reader(SourceReader):
    def __init__(self, source):
        self.source = source

    def read(self, split, position, limits):
        name, read = position
        for batch in self.source.splits[name][read:]:
            read += 1
            pairs = [each if isinstance(each, tuple) else (each, 0) for each in batch]
            if self.source.bounded and limits.deadline is not None:
                while time.time() < limits.deadline:
                    pass
            yield SourceBatch(
                [value for value, _ in pairs], (name, read), [timestamp for _, timestamp in pairs]
            )
            if not self.source.bounded:
                return


class Log:
    """What user functions saw, in order. It is pickled by name, so all functions reach this one."""

    def __init__(self):
        self.lines = []

    def __call__(self, line):
        self.lines.append(line)

    def __reduce__(self):
        return "LOG"

    def counts(self):
        return Counter(self.lines)


LOG = Log()


@pytest.fixture(autouse=True)
def _empty_log():
    LOG.lines.clear()


class Note(MapFunction):
    """Passes values on (plus `add`) and notes (name, value)."""

    def __init__(self, name, add=0):
        self.name = name
        self.add = add

    def map(self, value):
        LOG((self.name, value))
        return value + self.add


def environment(parallelism=1, *, checkpoints=None, mode=None):
    env = configured(restarts(1 if checkpoints else 0, "1 ms"), parallelism)
    if checkpoints is not None:
        env.enable_checkpointing(checkpoints)
    if mode is not None:
        env.set_runtime_mode(mode)
    return env


def read(env, *splits, strategy=NONE, bounded=True, name="in"):
    return env.from_source(Script(*splits, bounded=bounded), strategy, name)


def collect(stream):
    """Run the program and return all elements."""
    with stream.execute_and_collect() as found:
        return list(found)


def collect_sorted(stream):
    """Run the program and return all elements, in their order."""
    return sorted(collect(stream))


def take(stream, count):
    """Run a program without an end until it has given some elements; then it is cancelled."""
    return stream.execute_and_collect(limit=count)
