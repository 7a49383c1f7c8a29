"""Readers of built-in sources in pipelined mode: they never wait, and say when there is more."""

from __future__ import annotations

import itertools
import math

import pytest

from penstock.common import WatermarkStrategy
from penstock.connectors.base.source import NonBlockingReadLimits, SourceAssignment, SplitProgress
from penstock.datastream.connectors import (
    CollectionSource,
    DataGeneratorSource,
    NumberSequenceSource,
)
from penstock.graph.operator_specs import SourceSpec
from penstock.runtime.operators.connectors.source_modes import PollResult
from penstock.testing import ManualClock, OperatorHarness
from tests.builders.connector_helpers import hybrid


class Paced:
    """A source in a harness whose clocks all are one, moved by hand."""

    def __init__(self, source, splits=1):
        self.clock = ManualClock(1_000_000)
        self.harness = OperatorHarness(
            SourceSpec(source, WatermarkStrategy.no_watermarks()),
            clock=self.clock,
            pipelined=True,
        )
        self.operator = self.harness.operator
        ticks = itertools.count()  # a clock that is read later is later
        self.operator.pipelined._scheduler.monotonic = lambda: (
            self.clock.now / 1000 + next(ticks) * 1e-9
        )
        self.operator.pipelined._scheduler.limits = self._look
        found = source.create_enumerator(splits).discover()
        begin = [(each.start[0], self.clock.now / 1000) for each in found]
        self.operator.add_splits(
            SourceAssignment(
                [SplitProgress(each, start) for each, start in zip(found, begin, strict=True)],
                no_more_splits=True,
            )
        )
        reader = self.operator.reader._reader
        reader.clock = lambda: self.clock.now / 1000
        reader.sleep = lambda seconds: self.slept.append(seconds)
        self.slept = []

    def _look(self):
        look = NonBlockingReadLimits()
        object.__setattr__(look, "deadline", self.clock.now / 1000)
        return look

    def tick(self):
        """Read the available records, then wait as long as the source says; return how many records there were."""
        while (answer := self.operator.poll()) is PollResult.MORE:
            pass
        count = len(self.harness.values())
        self.harness.clear()
        if answer is PollResult.NOTHING_NOW:
            self.clock.set(math.ceil(round(self.operator.pipelined.next_poll() * 1000, 2)))
        return count


@pytest.mark.parametrize("count", [None, 100_000], ids=["endless", "bounded"])
@pytest.mark.parametrize(
    ("rate", "millis", "records"),
    [(10_000, 1, 10), (1_000, 1, 1), (100, 10, 1), (2, 500, 1)],
)
def test_a_generator_emits_evenly(count, rate, millis, records):
    paced = Paced(DataGeneratorSource(lambda i: i, count=count, rate_per_second=rate))
    paced.tick()
    found = []
    for _ in range(20):
        before = paced.clock.now
        found.append((paced.tick(), paced.clock.now - before))
    assert {pause for _, pause in found} == {millis}
    assert all(abs(size - records) <= 1 for size, _ in found)
    assert sum(size for size, _ in found) == pytest.approx(records * 20, abs=1)
    assert not any(paced.slept)


def test_a_generator_that_is_behind_does_not_wait():
    paced = Paced(DataGeneratorSource(lambda i: i, rate_per_second=10_000))
    paced.clock.advance(1000)
    assert paced.tick() == 10_000


def test_a_generator_without_a_rate_is_always_ready():
    source = DataGeneratorSource(lambda i: i)
    (split,) = source.create_enumerator(1).discover()
    assert source.create_reader().next_ready(split, split.start) == 0.0


def test_the_reader_of_a_hybrid_source_asks_the_reader_that_it_is_of():
    source = hybrid(NumberSequenceSource(1, 2), DataGeneratorSource(lambda i: i, rate_per_second=1))
    wakes = []
    reader = source.create_reader()
    reader.use_wake(lambda: wakes.append(1))
    reader.open(None)
    enumerator = source.create_enumerator(1)
    (first,) = enumerator.discover()
    assert reader.next_ready(first, first.start) is None
    enumerator.observe([])
    (second,) = enumerator.discover()
    assert 0 < reader.next_ready(second, second.start) <= 1


@pytest.mark.parametrize(
    "source",
    [NumberSequenceSource(1, 3000), CollectionSource(list(range(3000)))],
    ids=["numbers", "collection"],
)
def test_sources_with_an_end_give_all_within_one_look(source):
    (split,) = source.create_enumerator(1).discover()
    batches = source.create_reader().read(split, split.start, NonBlockingReadLimits())
    assert sum(len(batch.records) for batch in batches) == 3000
