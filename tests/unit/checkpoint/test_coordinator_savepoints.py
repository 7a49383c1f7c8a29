"""What the coordinator does for savepoints: epochs that flush, checkpoints that are pinned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.messages import (
    CommitFinished,
    CommitSink,
    DeleteCheckpoint,
    ManifestWritten,
    NotifyCheckpointComplete,
    PipeFinished,
)
from penstock.connectors.base.sink import MIN_WATERMARK, CommitRequest
from tests.builders.checkpoint_builders import READ, SUM0, SUM1, ack, manifest, start


@pytest.fixture
def coordinator():
    return CheckpointCoordinator("job", "a job")


def complete(coordinator, checkpoint_id, **plan):
    """Run an epoch to its end; return the commit request and what follows the commit."""
    coordinator.handle(replace(start(checkpoint_id), **plan))
    for task in (SUM1, SUM0, READ):
        coordinator.handle(ack(task, checkpoint_id))
    coordinator.handle(PipeFinished(checkpoint_id, 1000 * checkpoint_id))
    (commit,) = coordinator.handle(ManifestWritten(checkpoint_id))
    assert isinstance(commit, CommitSink)
    return commit.request, coordinator.handle(CommitFinished("sink", checkpoint_id))


@pytest.mark.parametrize("flush", [False, True])
def test_sinks_publish_all_they_have_in_an_epoch_that_flushes_and_the_job_goes_on(
    coordinator, flush
):
    request, after = complete(coordinator, 1, flush=flush)
    assert request.final is flush
    assert after == [NotifyCheckpointComplete(1, final=False)]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([(7, False), (5, False)], 5),
        ([(7, False), (5, True)], 7),  # an idle subtask does not hold back the others
        ([(7, True), (5, True)], 7),
        ([None, None], MIN_WATERMARK),  # the sink does not commit by time
    ],
)
def test_committers_get_the_lowest_watermark_of_all_writers(coordinator, times, expected):
    coordinator.handle(start(1))
    reported = [{} if time is None else {"sink": time} for time in times]
    for task, own in zip((SUM0, SUM1, READ), [*reported, {}], strict=True):
        coordinator.handle(ack(task, 1, sink_times=own))
    coordinator.handle(PipeFinished(1, 1000))
    (commit,) = coordinator.handle(ManifestWritten(1))
    assert commit.request.watermark == expected


@pytest.mark.parametrize("finished", [(), (SUM0,), (SUM0, SUM1), (READ, SUM0, SUM1)])
def test_committers_get_the_end_of_input_of_all_writers(coordinator, finished):
    coordinator.handle(start(1, flush=True))
    for task in (SUM0, SUM1, READ):
        coordinator.handle(ack(task, 1, finished=task in finished))
    coordinator.handle(PipeFinished(1, 1000))
    (commit,) = coordinator.handle(ManifestWritten(1))
    assert commit.request.ended == (len(finished) >= 2)


def test_settled_commits_contain_only_what_committers_keep_back():
    found = manifest(4).settled_commits({"sink": ["later"], "other": None})
    assert {name: each.load() for name, each in found.items()} == {
        "sink": CommitRequest(4, [], pending=["later"])
    }


def deleted(instructions):
    return [each.checkpoint_id for each in instructions if isinstance(each, DeleteCheckpoint)]


def test_a_pinned_checkpoint_stays_until_the_last_pin_is_gone(coordinator):
    complete(coordinator, 1)
    coordinator.pin(1)
    coordinator.pin(1)
    assert deleted(complete(coordinator, 2)[1]) == []
    coordinator.unpin(1)
    assert deleted(complete(coordinator, 3)[1]) == [2]
    coordinator.unpin(1)
    assert deleted(complete(coordinator, 4)[1]) == [1, 3]
    assert coordinator.completed_checkpoint_ids == [4]
