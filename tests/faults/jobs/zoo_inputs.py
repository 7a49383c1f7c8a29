"""What the programs of the zoo begin with: a source that gives one batch of each split per epoch, and a register."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.connectors.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import (
    AggregateFunction,
    DataStream,
    KeyedStream,
    OutputTag,
    StreamExecutionEnvironment,
)
from penstock.datastream.window import TumblingEventTimeWindows

PARALLELISM = 2
BATCHES = 9  # of each split: so many epochs, and one that finds the end
BATCH = 6
TURNS = os.environ.get("ZOO_TURNS")  # a file that says how many batches may be read, if it is there
POLL_S = 0.01
KEYS = 4  # of each split
STEP_MS = 100
JITTER_MS = 250
LATE_MS = (1_600, 3_200)
CLOCK_MS = 1_000  # what the manual clock of the in-process tests goes on by in an epoch

Event = tuple[str, int, int]  # key, number, timestamp


# Sources


def event(side: str, split: int, index: int) -> Event:
    """Return record number `index` of a split: up to 250 ms out of order, and every seventh late or very late."""
    seed = (index * 7919 + split * 104_729 + len(side) * 12_345) * 2_654_435_761 % 2**32
    late = LATE_MS[seed // 7 % 2] if seed % 7 == 0 else seed // 7 % JITTER_MS
    return f"{split}-{seed // 11 % KEYS}", index, max(index * STEP_MS - late, 0)


class Steps(Source):
    """Two splits of numbered records; `skip` batches at their beginning are empty.

    An `endless` one never says that it has ended. It gives one batch of each split per epoch with any parallelism, however long
    that takes.
    """

    def __init__(
        self, side: str, skip: int = 0, batches: int = BATCHES, *, endless: bool = False
    ) -> None:
        self.side = side
        self.skip = skip
        self.batches = batches
        self.endless = endless

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self.endless else Boundedness.BOUNDED

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        return StepsEnumerator(found=bool(restored), end=self.skip + self.batches)

    def create_reader(self) -> SourceReader:
        return StepsReader(self)


class StepsEnumerator(SplitEnumerator):
    def __init__(self, *, found: bool, end: int) -> None:
        self._found = found
        self._end = end

    def discover(self) -> list[SourceSplit]:
        if self._found:
            return []
        self._found = True
        return [SourceSplit(str(split), payload=split, start=0) for split in range(PARALLELISM)]

    def no_more_splits(self) -> bool:
        return self._found

    def has_data(self, positions: Sequence[int]) -> bool:
        return any(position < self._end for position in positions)

    def snapshot(self) -> bool:
        return self._found


def wait_for_turn(position: int) -> None:
    """Wait until the batch at a position may be read."""
    with contextlib.suppress(FileNotFoundError):
        while TURNS and position >= int(Path(TURNS).read_text()):
            time.sleep(POLL_S)


class StepsReader(SourceReader):
    def __init__(self, source: Steps) -> None:
        self._source = source

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        source = self._source
        while position < source.skip + source.batches:
            first = (position - source.skip) * BATCH
            rows = [event(source.side, split.payload, n) for n in range(first, first + BATCH)]
            rows = rows if position >= source.skip else []
            wait_for_turn(position)
            position += 1
            if source.endless:
                yield SourceBatch(rows, position, [row[2] for row in rows])
                return
            # So that this batch is the only one of the epoch: the deadline is 1 ms after its start.
            while limits.deadline is not None and time.time() < limits.deadline:
                pass
            yield SourceBatch(rows, position, [row[2] for row in rows])


STRATEGY = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(JITTER_MS))


def key_of(value: Event) -> str:
    return value[0]


class Inputs:
    """The streams that programs begin with; each source is in the job once."""

    def __init__(self, env: StreamExecutionEnvironment, *, endless: bool = False) -> None:
        self.env = env
        self.endless = endless

    def _source(self, side: str, name: str, **more: int) -> DataStream:
        steps = Steps(side, endless=self.endless, **more)
        return self.env.from_source(steps, STRATEGY, name).uid(name)

    @cached_property
    def left(self) -> DataStream:
        return self._source("left", "left")

    @cached_property
    def right(self) -> DataStream:
        return self._source("right!", "right")

    @cached_property
    def rules(self) -> DataStream:
        """The records that are broadcast: all of them before the first of `later`."""
        return self._source("rules", "rules", batches=1)

    @cached_property
    def later(self) -> DataStream:
        return self._source("later", "later", skip=2)

    @property
    def keyed(self) -> KeyedStream:
        return self.left.key_by(key_of)

    def windows(self, assigner: Any = None) -> Any:
        return self.keyed.window(assigner or SECOND)


SECOND = TumblingEventTimeWindows.of(Time.seconds(1))
LATE = OutputTag("late")


# Programs


@dataclass(frozen=True)
class Program:
    """A program; `keeps` says what its result depends on: keyed state, operator state or the source's enumerator.

    With `manual` it needs the manual clock.
    """

    build: Callable[[Inputs], DataStream]
    keeps: str = "keyed"
    manual: bool = False


PROGRAMS: dict[str, Program] = {}


def program(keeps: str = "keyed", *, manual: bool = False) -> Any:
    def register(build: Any) -> Any:
        PROGRAMS[build.__name__] = Program(build, keeps, manual)
        return build

    return register


# What programs share


def add(first: Event, second: Event) -> Event:
    return first[0], first[1] + second[1], max(first[2], second[2])


class Digits(AggregateFunction):
    """Puts the numbers one after another: the order counts, and each one counts."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Event, accumulator: list[int]) -> list[int]:
        return [*accumulator, value[1]]

    def get_result(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return sorted([*acc_a, *acc_b])


def with_late(stream: DataStream) -> DataStream:
    return stream.union(stream.get_side_output(LATE).map(lambda value: ("late", value)))
