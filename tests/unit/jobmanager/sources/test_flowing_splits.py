"""The driver's side of a source whose tasks stay: splits are given while checkpoints are under way."""

from __future__ import annotations

import dataclasses

from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceAssignment,
    SourceSplit,
    SplitEnumerator,
)
from penstock.graph.task_id import TaskId
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator


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


def flowing(parallelism):
    source = Found()
    made = SourceCoordinator("op", "v0", source, parallelism)
    made.restore(None)
    made.begin_looking()
    return source, made


def test_a_split_that_has_ended_is_planned_but_counts_as_read():
    source, made = flowing(2)
    source.new = ["a", "b"]
    made.take(made.look())
    assert made.on_finished(0, ["a"]) == {
        TaskId("v0", 0): SourceAssignment([], no_more_splits=False, idle=True)
    }
    assert [names_of(made, 0), names_of(made, 1)] == [["a"], ["b"]]
    source.new = ["c"]
    given = made.take(made.look())
    assert {
        task.subtask: [s.split.split_id for s in more.splits] for task, more in given.items()
    } == {0: ["c"]}
    assert not given[TaskId("v0", 0)].idle


def test_no_subtask_is_idle_when_all_splits_have_ended():
    source, made = flowing(2)
    source.new = ["a", "b"]
    made.take(made.look())
    made.on_finished(0, ["a"])
    assert {task.subtask: more.idle for task, more in made.on_finished(1, ["b"]).items()} == {
        0: False
    }


def test_a_restored_split_has_not_ended():
    source, made = flowing(1)
    source.new = ["a"]
    made.take(made.look())
    made.on_finished(0, ["a"])
    made.restore(None)
    source.new = ["a"]
    made.discover()
    assert made.has_data()
    assert names_of(made, 0) == ["a"]


def names_of(made, subtask):
    return [each.split.split_id for each in made.plan().splits[subtask]]
