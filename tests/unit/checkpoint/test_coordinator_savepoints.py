"""What the coordinator does for savepoints: epochs that flush, checkpoints that are pinned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.messages import (
    CommitFinished,
    CommitSink,
    DeleteCheckpoint,
    EpochCompleted,
    ManifestWritten,
    PipeFinished,
)
from tests.builders.checkpoint_builders import READ, SUM0, SUM1, ack, start


@pytest.fixture
def coordinator():
    return CheckpointCoordinator("job", "a job")


def complete(coordinator, epoch, **plan):
    """Run an epoch to its end; return the commit request and what follows the commit."""
    coordinator.handle(replace(start(epoch), **plan))
    for task in (SUM1, SUM0, READ):
        coordinator.handle(ack(task, epoch))
    coordinator.handle(PipeFinished(epoch, 1000 * epoch))
    (commit,) = coordinator.handle(ManifestWritten(epoch))
    assert isinstance(commit, CommitSink)
    return commit.request, coordinator.handle(CommitFinished("sink", epoch))


@pytest.mark.parametrize("flush", [False, True])
def test_sinks_publish_all_they_have_in_an_epoch_that_flushes_and_the_job_goes_on(
    coordinator, flush
):
    request, after = complete(coordinator, 1, flush=flush)
    assert request.final is flush
    assert after == [EpochCompleted(1, final=False)]


def deleted(instructions):
    return [each.epoch for each in instructions if isinstance(each, DeleteCheckpoint)]


def test_a_pinned_checkpoint_stays_until_the_last_pin_is_gone(coordinator):
    complete(coordinator, 1)
    coordinator.pin(1)
    coordinator.pin(1)
    assert deleted(complete(coordinator, 2)[1]) == []
    coordinator.unpin(1)
    assert deleted(complete(coordinator, 3)[1]) == [2]
    coordinator.unpin(1)
    assert deleted(complete(coordinator, 4)[1]) == [1, 3]
    assert coordinator.completed_epochs == [4]
