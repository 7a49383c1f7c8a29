"""Small programs that run in this process, epoch by epoch."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from penstock.common import WatermarkStrategy
from penstock.connectors.base.source import (
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.graph.settings import GraphSettings
from penstock.jobmanager.job import Job
from penstock.jobmanager.job_creation import create_job
from tests.builders.endless import EndlessSource, SplitsOnce
from tests.builders.environments import configured

KEYS = 5


class Counting(EndlessSource):
    """Endless: gives the next ten numbers in every epoch, as long as there are any."""

    def __init__(self, batches: int = 1_000_000) -> None:
        self.batches = batches

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        return _Enumerator(self.batches, [SourceSplit("numbers", start=0)], restored)

    def create_reader(self) -> SourceReader:
        return _Reader(self.batches)


class _Enumerator(SplitsOnce):
    def __init__(self, batches: int, splits: Sequence[SourceSplit], restored: Any) -> None:
        super().__init__(splits, restored)
        self._batches = batches

    def has_data(self, positions: Sequence[int]) -> bool:
        return any(position < self._batches for position in positions)

    def backlog(self, splits: Sequence[Any]) -> int:
        return sum((self._batches - split.position) * 10 for split in splits)


class _Reader(SourceReader):
    def __init__(self, batches: int) -> None:
        self._batches = batches

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        if position < self._batches:
            numbers = list(range(position * 10, position * 10 + 10))
            yield SourceBatch(numbers, position + 1, numbers)


class Slowly(Counting):
    """Ten numbers in a millisecond or two, for jobs that read all the time."""

    read_up_to = 0  # in this process

    def create_reader(self) -> SourceReader:
        return _SlowReader()


class _SlowReader(SourceReader):
    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        time.sleep(0.001)
        numbers = list(range(position * 10, position * 10 + 10))
        Slowly.read_up_to = numbers[-1]
        yield SourceBatch(numbers, position + 1, numbers)


class Total(KeyedProcessFunction):
    """Emits (key, sum so far) for each number."""

    def __init__(self, state: Any = None) -> None:
        self.descriptor = state or ValueStateDescriptor("total")

    def open(self, runtime_context: Any) -> None:
        kinds = {"value": runtime_context.get_state, "list": runtime_context.get_list_state}
        self.total = kinds[self.descriptor.kind](self.descriptor)

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int]]:
        self.total.update((self.total.value() or 0) + value)
        yield value % KEYS, self.total.value()


class Remembering(MapFunction, CheckpointedFunction):
    """Keeps the last number in operator state."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("last"))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> Any:
        self.state.update([made_by_the_job(value)])
        return value


def made_by_the_job(value: int) -> Any:
    """Return an object whose class may vanish."""
    module = sys.modules.get("vanishing_module")
    return value if module is None else module.Thing(value)


def environment(parallelism: int = 1, **options: str) -> StreamExecutionEnvironment:
    """Return an environment with checkpoints as fast as they come; names of options with _ for - and __ for a dot."""
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    return configured({"execution.checkpointing.interval": "1 ms", **named}, parallelism)


def totals(env: StreamExecutionEnvironment, source: Source | None = None, **names: Any) -> Any:
    """Return the stream of running totals."""
    numbers = env.from_source(
        source or Counting(), WatermarkStrategy.for_monotonous_timestamps(), "numbers"
    ).uid("numbers")
    keyed = numbers.key_by(lambda number: number % KEYS)
    return keyed.process(Total(names.get("state"))).uid(names.get("uid", "totals"))


def job_of(parallelism: int = 2, **settings: Any) -> Job:
    """A source, a keyed operator that the program leaves to the default, one with a parallelism of its own, and a sink."""
    env = environment(parallelism)
    stream = totals(env)
    stream.key_by(str).map(lambda pair: pair).name("own").uid("own").set_parallelism(3).print()
    stream.print()
    return create_job(
        env._transformations,
        GraphSettings(parallelism=parallelism, **settings),
        env.get_configuration(),
        "job",
    )
