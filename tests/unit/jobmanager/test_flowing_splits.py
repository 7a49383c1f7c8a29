"""The driver's side of a source whose tasks stay: splits are given while checkpoints are under way."""

from __future__ import annotations

import dataclasses

from penstock.connectors.source import (
    Boundedness,
    Source,
    SourceSplit,
    SplitEnumerator,
)
from penstock.jobmanager.sources import SourceCoordinator


class Found(Source):
    def __init__(self):
        self.new = []

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return _Enumerator(self)

    def create_reader(self):
        raise NotImplementedError


class _Enumerator(SplitEnumerator):
    def __init__(self, source):
        self.source = source

    def discover(self):
        found, self.source.new = self.source.new, []
        return [SourceSplit(name, None, 0, bounded=True) for name in found]

    def no_more_splits(self):
        return False


def coordinator():
    source = Found()
    made = SourceCoordinator("op", "v0", source, 1)
    made.restore(None)
    return source, made


def names(plan):
    return [each.split.split_id for each in plan.splits[0]]


def test_splits_that_were_given_after_the_barrier_stay_when_the_checkpoint_is_complete():
    source, made = coordinator()
    source.new = ["a", "b"]
    made.discover()
    triggered = made.plan()
    source.new = ["c"]
    made.discover()
    a, b = triggered.splits[0]
    made.advance(0, [dataclasses.replace(a, finished=True), dataclasses.replace(b, position=7)])
    after = made.plan()
    assert names(after) == ["b", "c"]
    assert after.splits[0][0].position == 7


def test_a_finished_split_is_planned_until_a_checkpoint_that_knows_it_is_complete():
    source, made = coordinator()
    source.new = ["a"]
    made.discover()
    first, second = made.plan(), made.plan()  # the second is triggered while the first is pending
    assert names(first) == names(second) == ["a"]
    done = [dataclasses.replace(first.splits[0][0], finished=True)]
    made.advance(0, done)
    assert names(made.plan()) == []
    made.advance(0, done)  # the second tells it, too
    assert names(made.plan()) == []
