"""What the programs of the zoo begin with: a source that gives one batch of each split per turn, and a register.

Where jobs run in epochs, a turn is an epoch. In pipelined mode, a batch is given when a checkpoint has the batches before it, of
all splits: so channels never run ahead of each other, and the output is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock.checkpoint.manifest import Manifest
from penstock.common import Time, WatermarkStrategy
from penstock.common.watermark_strategy import WatermarkGenerator
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
POLL_S = 0.01
MODE = "penstock.execution.mode"
KEYS = 4  # of each split
STEP_MS = 100
JITTER_MS = 250
LATE_MS = (1_600, 3_200)
CLOCK_MS = 1_000  # what the manual clock of the in-process tests goes on by in a turn

Event = tuple[str, int, int]  # key, number, timestamp


# Sources


def event(side: str, split: int, index: int) -> Event:
    """Return record number `index` of a split: up to 250 ms out of order, and every seventh late or very late.

    The last one of a batch is in time, so that all splits have got equally far in a turn.
    """
    seed = (index * 7919 + split * 104_729 + len(side) * 12_345) * 2_654_435_761 % 2**32
    late = LATE_MS[seed // 7 % 2] if seed % 7 == 0 else seed // 7 % JITTER_MS
    if is_last(index):
        late = 0
    return f"{split}-{seed // 11 % KEYS}", index, max(index * STEP_MS - late, 0)


def is_last(index: int) -> bool:
    """Whether a record is the last one of its batch."""
    return index % BATCH == BATCH - 1


class AfterEachBatch(WatermarkGenerator):
    """A watermark that trails the last record of each batch by 250 ms, right after it."""

    def on_event(self, event: Event, timestamp: int, output: Any) -> None:
        if is_last(event[1]):
            output.emit_watermark(timestamp - JITTER_MS - 1)

    def on_periodic_emit(self, output: Any) -> None:
        pass


class Turns:
    """How many batches of each split may be read, for jobs whose records flow: as many as a checkpoint has, and one more.

    The readers of tests in this process are driven by `advance`; those of a job on Spark look into a file. Without either, batches come
    as fast as they can.
    """

    def __init__(self) -> None:
        self._next: int | None = None
        self._batches: int | None = None

    @contextmanager
    def driven_by_tests(self, *, pipelined: bool, batches: int | None) -> Iterator[None]:
        """Let a job of this process have one turn for each `advance`, and so many in all."""
        self._next, self._batches = (0, batches) if pipelined else (None, None)
        try:
            yield
        finally:
            self._next = self._batches = None

    def allow(self, position: int, file: str | None) -> bool:
        """Whether the batch at a position may be read."""
        if self._next is not None:
            return position <= self._next and (self._batches is None or position < self._batches)
        try:
            return file is None or position < int(Path(file).read_text())
        except FileNotFoundError:
            return True

    def advance(self, turn: int) -> None:
        """Let the batches of a turn be read."""
        self._next = turn


def next_turn(splits: Iterable[SplitProgress]) -> int | None:
    """Return the turn after a checkpoint that has read so much of its unfinished splits; None if it has no splits."""
    there = [(each.position, end_of(each.split)) for each in splits]
    ahead = [position for position, end in there if position < end]
    return min(ahead, default=max(end for _, end in there)) if there else None


def splits_of(manifest: Manifest) -> list[SplitProgress]:
    """Return what a checkpoint has read, over all sources."""
    return [
        progress
        for source in manifest.sources.values()
        for subtask in range(source.parallelism)
        for progress in source.load_splits(subtask)
    ]


def end_of(split: SourceSplit) -> int:
    """Return where a split ends, also one within a split of a hybrid source."""
    _, end = split.payload
    return end_of(end) if isinstance(end, SourceSplit) else end


TURN = Turns()


class Steps(Source):
    """Two splits of numbered records; `skip` batches at their beginning are empty.

    An `endless` one never says that it has ended. It gives one batch of each split per turn with any parallelism, however long
    that takes. `begin` is the turn of the first batch. `flows`: the job does not run in epochs. `turns`: a file that says how many batches
    may be read, if it is there.
    """

    def __init__(
        self,
        side: str,
        skip: int = 0,
        batches: int = BATCHES,
        *,
        begin: int = 0,
        endless: bool = False,
        pipelined: bool = False,
        turns: str | None = None,
    ) -> None:
        self.side = side
        self.turns = turns
        self.begin = begin
        self.first = begin + skip
        self.end = begin + skip + batches
        self.endless = endless
        self.pipelined = pipelined

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self.endless else Boundedness.BOUNDED

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        return StepsEnumerator(bool(restored), self.begin, self.end)

    def create_reader(self) -> SourceReader:
        return StepsReader(self)


class StepsEnumerator(SplitEnumerator):
    """Finds two splits; a split's payload is its number and where it ends."""

    def __init__(self, found: bool, begin: int, end: int) -> None:
        self._found = found
        self._begin = begin
        self._end = end

    def discover(self) -> list[SourceSplit]:
        if self._found:
            return []
        self._found = True
        return [
            SourceSplit(str(split), payload=(split, self._end), start=self._begin)
            for split in range(PARALLELISM)
        ]

    def no_more_splits(self) -> bool:
        return self._found

    def has_data(self, positions: Sequence[int]) -> bool:
        return any(position < self._end for position in positions)

    def snapshot(self) -> bool:
        return self._found


class StepsReader(SourceReader):
    """Gives one batch of a split per turn: in epochs by the deadline, which is 1 ms after their start, else by `TURN`."""

    def __init__(self, source: Steps) -> None:
        self._source = source

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        if self._source.pipelined:
            yield from self._flow(split, position)
            return
        while position < self._source.end:
            while not TURN.allow(position, self._source.turns):
                time.sleep(POLL_S)
            batch = self._batch(split, position)
            position += 1
            if self._source.endless:
                yield batch
                return
            while limits.deadline is not None and time.time() < limits.deadline:
                pass
            yield batch

    def _flow(self, split: SourceSplit, position: int) -> Iterator[SourceBatch]:
        # A reader that finds the end of a bounded source takes a turn for that.
        while position < self._source.end or not self._source.endless:
            if not TURN.allow(position, self._source.turns):
                if self._source.endless:
                    return
                time.sleep(POLL_S / 10)
                yield SourceBatch([], position, [])
            elif position == self._source.end:
                return
            else:
                yield self._batch(split, position)
                position += 1

    def _batch(self, split: SourceSplit, position: int) -> SourceBatch:
        source = self._source
        start = (position - source.first) * BATCH
        rows = [event(source.side, split.payload[0], n) for n in range(start, start + BATCH)]
        rows = rows if position >= source.first else []
        return SourceBatch(rows, position + 1, [row[2] for row in rows])


STRATEGY = WatermarkStrategy.for_generator(AfterEachBatch)


def key_of(value: Event) -> str:
    return value[0]


class Inputs:
    """The streams that programs begin with; each source is in the job once."""

    def __init__(
        self, env: StreamExecutionEnvironment, *, endless: bool = False, turns: str | None = None
    ) -> None:
        self.env = env
        self.endless = endless
        self.turns = turns
        mode = env.get_configuration().to_dict().get(MODE)
        self.pipelined = mode == "pipelined"

    def steps(self, side: str, **more: Any) -> Steps:
        """A source of this job."""
        return Steps(side, pipelined=self.pipelined, turns=self.turns, **more)

    def _source(self, side: str, name: str, **more: int) -> DataStream:
        steps = self.steps(side, endless=self.endless, **more)
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
