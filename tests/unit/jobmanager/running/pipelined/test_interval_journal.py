"""What the journal of pipelined mode notes at the begin of an interval."""

from __future__ import annotations

from penstock.checkpoint.manifest import Manifest, SourceSnapshot
from penstock.checkpoint.pickled import Pickled
from penstock.jobmanager.running.pipelined.interval_journal import assigned_at
from tests.unit.jobmanager.running.pipelined.test_discovery import Scripted, coordinator, ids


def checkpoint_of(source):
    plan = source.plan()
    splits = tuple(Pickled.of(plan.splits[subtask]) for subtask in sorted(plan.splits))
    snapshot = SourceSnapshot(Pickled.of(plan.enumerator), splits, plan.complete)
    return Manifest("job", "job", 7, 0, sources={source.operator_id: snapshot})


def look(source):
    source.begin_looking()
    return source.take(source.look())


def test_an_interval_begins_with_what_was_assigned_at_its_barriers():
    source = coordinator(Scripted([["a", "b"], ["c"]], ends=True), bounded=True)
    look(source)
    manifest = checkpoint_of(source)
    # Before the checkpoint is complete, the coordinator goes on: now subtask 1 is idle, then nothing more will come.
    (later,) = (each for task, each in source.on_finished(1, ["b"]).items() if task.subtask == 1)
    assert later.idle
    look(source)
    assert all(each.no_more_splits for each in source.assignments().values())
    assigned = {task.subtask: each for task, each in assigned_at(manifest, [source]).items()}
    assert {subtask: ids(each) for subtask, each in assigned.items()} == {0: ["a"], 1: ["b"]}
    assert not any(each.idle or each.no_more_splits for each in assigned.values())


def test_an_interval_begins_with_all_splits_if_they_had_all_been_discovered():
    source = coordinator(Scripted([["a"]], ends=True), bounded=True)
    look(source)
    assigned = assigned_at(checkpoint_of(source), [source])
    assert all(each.no_more_splits for each in assigned.values())
