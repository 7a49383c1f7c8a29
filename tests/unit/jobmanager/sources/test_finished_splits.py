"""What an enumerator learns about finished splits: no failure between two checkpoints takes it away."""

from __future__ import annotations

import dataclasses

import pytest

from penstock.checkpoint.manifest import Pickled, SourceSnapshot
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceSplit,
    SplitEnumerator,
)
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator


class Chunks(Source):
    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return Ends(restored)

    def create_reader(self):
        raise NotImplementedError


class Ends(SplitEnumerator):
    """Two splits, then one that starts at the sum of the positions that they ended at."""

    def __init__(self, restored):
        self.ends, self.found = restored or ({}, 0)

    def observe_finished(self, finished):
        self.ends = {**self.ends, **{each.split.split_id: each.position for each in finished}}

    def discover(self):
        if self.found == 0:
            self.found = 2
            return [SourceSplit(name, None, 0, bounded=True) for name in "ab"]
        if self.found == 2 and len(self.ends) == 2:
            self.found = 3
            return [SourceSplit("sum", None, sum(self.ends.values()))]
        return []

    def no_more_splits(self):
        return self.found == 3

    def snapshot(self):
        return self.ends, self.found


def coordinator(snapshot=None):
    made = SourceCoordinator("op", "v0", Chunks(), 1)
    made.restore(snapshot)
    return made


def durable(plan, progress):
    """A checkpoint as it is read back."""
    return SourceSnapshot(
        Pickled.of(plan.enumerator, "state"), (Pickled.of(tuple(progress), "splits"),)
    )


def ended(made):
    """Both splits, read to their ends."""
    a, b = made.plan().splits[0]
    return [
        dataclasses.replace(a, position=3, finished=True),
        dataclasses.replace(b, position=4, finished=True),
    ]


def start_of_sum(made):
    return {each.split.split_id: each.position for each in made.plan().splits[0]}["sum"]


def test_an_enumerator_learns_where_finished_splits_ended():
    made = coordinator()
    made.discover()
    made.advance(0, ended(made))
    made.discover()
    assert start_of_sum(made) == 7


def test_it_learns_it_after_a_restart_from_the_checkpoint_that_first_knows_of_the_end():
    made = coordinator()
    made.discover()
    restored = coordinator(durable(made.plan(), ended(made)))
    restored.discover()
    assert start_of_sum(restored) == 7


@pytest.mark.parametrize("looked", [False, True], ids=["before a look", "between look and take"])
def test_it_learns_it_after_a_restart_from_a_later_checkpoint_too(looked):
    made = coordinator()
    made.discover()
    made.begin_looking()
    made.advance(0, ended(made))
    if looked:
        made.look()  # it is not taken
    restored = coordinator(durable(made.plan(), []))
    restored.discover()
    assert start_of_sum(restored) == 7


def test_finished_splits_of_a_taken_discovery_are_not_reported_again():
    made = coordinator()
    made.discover()
    made.begin_looking()
    made.advance(0, ended(made))
    made.take(made.look())
    assert made.plan().enumerator == ({"a": 3, "b": 4}, 3)
    assert start_of_sum(made) == 7
