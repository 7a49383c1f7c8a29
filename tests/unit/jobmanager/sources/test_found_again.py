"""Splits that a source finds again are not read again."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from penstock.checkpoint.manifest import Manifest, SourceSnapshot, decode, encode
from penstock.checkpoint.pickled import Pickled
from penstock.connectors.base.source import SourceSplit, SplitEnumerator, SplitProgress
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator
from tests.builders.forgetful import Forgetful


def coordinator(source, snapshot=None, **how):
    created = SourceCoordinator("op", "vertex", source, 2)
    created.restore(snapshot, **how)
    return created


def reading(source):
    return sorted(progress.split.split_id for splits in source._splits for progress in splits)


def snapshot_of(source, *, finished=()):
    """Return the checkpoint of an epoch in which these splits were finished."""
    plan = source.plan()
    progress = [
        tuple(
            dataclasses.replace(each, finished=each.split.split_id in finished)
            for each in plan.splits[subtask]
        )
        for subtask in range(2)
    ]
    for subtask in range(2):
        source.advance(subtask, progress[subtask])
    return SourceSnapshot(
        Pickled.of(plan.enumerator), tuple(map(Pickled.of, progress)), plan.complete
    )


@pytest.mark.parametrize("always", [False, True], ids=["after a restart", "before every epoch"])
def test_what_is_being_read_and_what_was_finished_is_not_read_again(always):
    source = Forgetful(always=always)
    first = coordinator(source)
    first.discover()
    assert reading(first) == ["0", "1"]
    snapshot = snapshot_of(first, finished="0")
    first.discover()
    assert reading(first) == ["1"]

    restored = coordinator(source, snapshot)
    restored.discover()
    assert reading(restored) == ["1"]


def test_an_epoch_that_failed_does_not_count_as_having_found_anything():
    source = Forgetful()
    first = coordinator(source)
    first.discover()
    first.plan()
    first.restore(None)
    first.discover()
    assert reading(first) == ["0", "1"]


def test_an_unbounded_source_is_asked_to_remember_what_was_finished():
    source = Forgetful(bounded=False)
    first = coordinator(source)
    first.discover()
    restored = coordinator(source, snapshot_of(first, finished="0"))
    restored.discover()
    assert reading(restored) == ["0", "1"]  # read again: its progress is known to no other


def test_another_jobs_checkpoint_does_not_say_what_this_source_may_find():
    first = coordinator(Forgetful((2,)))
    first.discover()
    restored = coordinator(Forgetful((2, 7)), snapshot_of(first), foreign=True)
    restored.discover()
    assert reading(restored) == ["0", "1"]


def test_it_is_said_once(caplog):
    first = coordinator(Forgetful((1, 2, 3), always=True))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            first.discover()
    (record,) = caplog.records
    assert "discovered split '0' twice" in record.getMessage()


@pytest.mark.parametrize("complete", [False, True])
def test_a_manifest_tells_whether_all_splits_were_found(complete):
    splits = (Pickled.of((SplitProgress(SourceSplit("s"), 3),)),)
    manifest = Manifest(
        "job", "name", 1, 0, sources={"op": SourceSnapshot(Pickled.of(None), splits, complete)}
    )
    assert decode(encode(manifest), "path").sources["op"].complete is complete


class _Newest(SplitEnumerator):
    """Begins at the newest record, which moves on."""

    def __init__(self, newest: list[int], restored: int | None) -> None:
        self.newest, self.start = newest, restored

    def discover(self) -> list[SourceSplit]:
        if self.start is None:
            self.start = self.newest[0]
        return [SourceSplit("only", None, start=self.start, bounded=False)]

    def no_more_splits(self) -> bool:
        return False

    def snapshot(self) -> int | None:
        return self.start

    def take_over(self, before: SplitEnumerator) -> None:
        assert isinstance(before, _Newest)
        self.start = before.start


class _NewestSource(Forgetful):
    def __init__(self) -> None:
        super().__init__(bounded=False)
        self.newest = [5]

    def create_enumerator(self, parallelism: int, restored: int | None = None) -> SplitEnumerator:
        return _Newest(self.newest, restored)


def test_a_checkpoint_before_the_first_look_does_not_move_the_start():
    source = _NewestSource()
    running = coordinator(source)
    before_the_look = snapshot_of(running)
    running.discover()
    source.newest[0] = 9
    running.restore(before_the_look)
    running.discover()
    (progress,) = [each for splits in running._splits for each in splits]
    assert progress.split.start == 5
