"""A source that follows a script, and a log that user functions write to."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from penstock.client import executors
from penstock.common import WatermarkStrategy
from penstock.connectors.base.source import (
    Boundedness,
    NonBlockingReadLimits,
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
WATERMARK_S = 0.02  # more than the interval of watermarks
STEP_S = 0.15  # between two batches, in pipelined mode: time for all that the first brings about


class Script(Source):
    """Each split is a list of batches of (value, timestamp) pairs, or of values; one batch is read per epoch.

    A split's position is (its name, the batches read). A bounded split that is cut waits for the deadline before it gives
    its batch, so that the next epoch has to go on from the position. In pipelined mode, all splits give their next batch at the
    same moment, `STEP_S` after the one before; with `confirmed`, when checkpoints hold all that the one before has brought about in the
    whole job.
    """

    def __init__(self, *splits, bounded=True, steps=0, confirmed=False, number=0):
        self.steps = steps  # sources with the same number go by the same steps
        self.splits = {f"split-{n}": split for n, split in enumerate(splits)}
        self.bounded = bounded
        self.confirmed = confirmed
        self.number = number  # among the sources of its job

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
        if source.confirmed and not self.planned:
            for name in source.splits:
                _confirm(source, name, 0)

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
        return any(read < len(self.source.splits[name]) for name, read, *_ in positions)


_begun: dict[int, float] = {}  # when a job's first step was begun, in pipelined mode


def _is_time(steps, step, count):
    """Whether the time of a step has come; all sources of a job go by the same clock, whenever they begin to read."""
    now = time.monotonic()
    begun = _begun.get(steps)
    if begun is None or (step == 0 and now - begun > (count + 10) * STEP_S):  # another job
        begun = _begun[steps] = now
    return now >= begun + (step + 1) * STEP_S


_confirmed: dict[int, dict[tuple[int, str], float]] = {}  # steps of each split, by job


def _confirm(source, name, steps):
    """Take note that so many steps of a split have done all that they do. One that has no more batches does not hold up the others."""
    all_steps = float("inf") if steps == len(source.splits[name]) else steps
    _confirmed.setdefault(source.steps, {})[source.number, name] = all_steps


class _Reader(SourceReader):
    def __init__(self, source):
        self.source = source
        self.given = {}  # when each split gave its last batch

    def on_checkpoint(self, split, position):
        """What was given before the third part of a position was set has arrived wherever it goes, and the watermark after it."""
        name, read, *said = position
        if said:
            _confirm(self.source, name, read)

    def read(self, split, position, limits):
        if self.source.confirmed and isinstance(limits, NonBlockingReadLimits):
            yield from self._read_confirmed(position)
        else:
            yield from self._read_timed(position, limits)

    def _read_confirmed(self, position):
        name, read, *said = position
        batches = self.source.splits[name]
        while read < len(batches) or not said:
            if read and not said:
                # The loop of the slot emits the watermark that is due before it reads.
                if time.monotonic() - self.given.setdefault(name, time.monotonic()) > WATERMARK_S:
                    said = [True]
            elif min(_confirmed[self.source.steps].values()) >= read and read < len(batches):
                pairs = [each if isinstance(each, tuple) else (each, 0) for each in batches[read]]
                self.given[name] = time.monotonic()
                read, said = read + 1, []
                values, times = [value for value, _ in pairs], [moment for _, moment in pairs]
                yield SourceBatch(values, (name, read), times)
                continue
            yield SourceBatch([], (name, read, *said))
            if not self.source.bounded:
                return

    def _read_timed(self, position, limits):
        name, read = position
        pipelined = isinstance(limits, NonBlockingReadLimits)
        batches = self.source.splits[name]
        for batch in batches[read:]:
            while pipelined and not _is_time(self.source.steps, read, len(batches)):
                if not self.source.bounded:
                    return
                yield SourceBatch([], (name, read))
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
    _begun.clear()
    _confirmed.clear()


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
    if _pipelined():
        env.get_config().set_auto_watermark_interval(5)  # once a step at least
    if checkpoints is not None:
        env.enable_checkpointing(checkpoints)
    if mode is not None:
        env.set_runtime_mode(mode)
    return env


def _pipelined():
    return getattr(executors._executor, "mode", None) == "pipelined"


def read(env, *splits, strategy=NONE, bounded=True, name="in"):
    confirmed = _pipelined() and env.get_checkpoint_config().is_checkpointing_enabled()
    before = {number for number, _ in _confirmed.get(id(env), ())}
    source = Script(
        *splits, bounded=bounded, steps=id(env), confirmed=confirmed, number=len(before)
    )
    if confirmed:
        for split in source.splits:
            _confirm(source, split, 0)
    return env.from_source(source, strategy, name)


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
