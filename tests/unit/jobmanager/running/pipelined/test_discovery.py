"""Splits that are looked for beside a job."""

from __future__ import annotations

import threading

import pytest

from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceSplit,
    SplitEnumerator,
    SplitProgress,
)
from penstock.graph.task_id import TaskId
from penstock.jobmanager.running.pipelined.discovery import Discovery, DiscoveryOutcome
from penstock.jobmanager.sources.source_coordinator import DiscoveredSplits, SourceCoordinator
from tests.builders.waiting import wait_until

TIMEOUT_S = 60


class Scripted(SplitEnumerator):
    """Finds what it is given; `gate` keeps it in a look."""

    def __init__(self, rounds=(), *, gate=None, ends=False):
        self.rounds = list(rounds)
        self.gate = gate
        self.ends = ends
        self.found = 0
        self.closed = False

    def discover(self):
        if self.gate is not None:
            self.gate.wait(TIMEOUT_S)
        names = self.rounds.pop(0) if self.rounds else ()
        if isinstance(names, Exception):
            raise names
        self.found += len(names)
        return [SourceSplit(name) for name in names]

    def no_more_splits(self):
        return self.ends and not self.rounds

    def snapshot(self):
        return self.found

    def close(self):
        self.closed = True


class Given(Source):
    def __init__(self, enumerator, bounded=False):
        self.enumerator = enumerator
        self.bounded = bounded

    def get_boundedness(self):
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return self.enumerator

    def create_reader(self):
        raise NotImplementedError


def coordinator(enumerator, parallelism=2, *, bounded=False):
    source = SourceCoordinator("source", "v", Given(enumerator, bounded), parallelism)
    source.restore(None)
    return source


def ids(assignment):
    return [each.split.split_id for each in assignment.splits]


def test_what_was_found_changes_nothing_until_it_is_taken():
    source = coordinator(Scripted([["a", "b", "c"]]))
    source.begin_looking()
    found = source.look()
    assert source.plan().enumerator == 0
    assert not any(source.plan().splits.values())
    new = source.take(found)
    assert {task.subtask: ids(each) for task, each in new.items()} == {0: ["a", "c"], 1: ["b"]}
    assert source.plan().enumerator == 3


def test_a_checkpoint_during_a_slow_look_knows_the_enumerator_of_the_look_before():
    gate = threading.Event()
    enumerator = Scripted([["a"], ["b"]])
    source = coordinator(enumerator)
    source.begin_looking()
    source.take(source.look())
    enumerator.gate = gate
    looking = threading.Thread(target=source.look)
    looking.start()
    try:
        assert source.plan().enumerator == 1
        assert source.has_data() in {True, False}
        assert source.backlog() is None
    finally:
        gate.set()
        looking.join()


def test_only_new_splits_are_reported():
    source = coordinator(Scripted([["a"]]))
    source.begin_looking()
    first = source.take(source.look())
    assert ids(first[TaskId("v", 0)]) == ["a"]
    assert first[TaskId("v", 1)].idle  # the other one has a split, this one has none
    assert source.take(source.look()) == {}


def test_the_end_of_all_splits_is_told_to_everyone():
    source = coordinator(Scripted([["a"]], ends=True), bounded=True)
    source.begin_looking()
    new = source.take(source.look())
    assert [each.no_more_splits for each in new.values()] == [True, True]
    assert source.no_more_splits


def test_splits_that_were_assigned_since_stay_when_a_checkpoint_completes():
    source = coordinator(Scripted([["a"], ["b"]]), 1)
    source.begin_looking()
    source.take(source.look())
    source.take(source.look())
    source.advance(0, [SplitProgress(SourceSplit("a"), 5, finished=True)])
    assert [each.split.split_id for each in source.plan().splits[0]] == ["b"]


def test_a_discovery_waits_for_the_first_look_and_tells_of_later_ones():
    woken = threading.Event()
    discovery = Discovery(woken.set)
    source = coordinator(Scripted([["a"], [], ["b"]], ends=True), bounded=True)
    (first, *rest) = discovery.start([source], TIMEOUT_S)
    assert [each.split_id for each in first.found.splits] == ["a"]
    looks = list(rest)
    while not any(look.found.splits for look in looks):
        assert woken.wait(TIMEOUT_S)
        woken.clear()
        looks += discovery.take()
    assert looks[-1].found == DiscoveredSplits((SourceSplit("b"),), 2, no_more_splits=True)
    discovery.stop([source])


def test_a_slow_enumerator_does_not_block_the_driver():
    gate = threading.Event()
    slow, quick = coordinator(Scripted([["a"]], gate=gate)), coordinator(Scripted([["b"]]))
    slow.operator_id = "slow"
    discovery = Discovery(lambda: None)
    looks = discovery.start([slow, quick], 0.0)
    wait_until(lambda: looks.extend(discovery.take()) or looks)
    assert {look.source.operator_id for look in looks} == {"source"}
    discovery.stop([slow, quick])
    gate.set()


def test_an_error_of_an_enumerator_is_reported():
    discovery = Discovery(lambda: None)
    (look,) = discovery.start([coordinator(Scripted([ValueError("no such directory")]))], TIMEOUT_S)
    assert look.found is None
    assert str(look.error) == "no such directory"


def test_what_was_found_for_a_source_that_went_back_is_forgotten():
    discovery = Discovery(lambda: None)
    source = coordinator(Scripted([["a"]]))
    discovery.start([source], 0.0)
    discovery.stop([source])
    assert discovery.take() == []


@pytest.mark.parametrize("bounded", [True, False])
def test_without_looks_beside_it_a_source_is_asked_as_before(bounded):
    source = coordinator(Scripted([["a"]], ends=True), bounded=bounded)
    source.discover()
    assert source.plan().enumerator == 1
    assert source.no_more_splits == bounded


def test_what_was_found_for_a_source_of_the_plan_before_is_not_taken_for_that_of_the_next():
    discovery = Discovery(lambda: None)
    former, source = coordinator(Scripted([["a"]])), coordinator(Scripted([["b"]]))
    assert [look.source for look in discovery.start([former], TIMEOUT_S)] == [former]
    (watcher,) = discovery._watchers.values()
    discovery._put(
        watcher, DiscoveryOutcome(former, former.look(), None), wake=False
    )  # it was not taken
    discovery.stop([former])
    former.close()
    found = discovery.start([source], TIMEOUT_S)
    assert {look.source for look in found} == {source}
    discovery.stop([source])
