"""The coordinator where tasks stay: what differs from epochs. Any mixture of it is in test_concurrent_checkpoints.py."""

from __future__ import annotations

import pytest

from penstock.checkpoint.coordinator import CheckpointCoordinator, CoordinatorPhase
from penstock.checkpoint.handles import StateChain, StateHandle
from penstock.checkpoint.messages import (
    AbortCheckpoint,
    CommitFinished,
    CommitSink,
    DeleteCheckpoint,
    DeleteOrphans,
    FailExecution,
    ManifestFailed,
    ManifestWritten,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    RestoreCheckpoint,
    TriggerSources,
    WriteManifest,
)
from penstock.connectors.base.sink import CommitRequest
from penstock.errors import CheckpointError
from tests.builders.checkpoint_builders import READ, SUM0, SUM1, ack, delta, full, start

TASKS = (READ, SUM0, SUM1)


@pytest.fixture
def coordinator():
    return CheckpointCoordinator("job", "a job", pipelined=True)


def acknowledge(coordinator, checkpoint_id, acks=None):
    """Hand over all acks of a checkpoint; return what the last one leads to."""
    *others, last = acks or [ack(task, checkpoint_id, now_ms=100 * checkpoint_id) for task in TASKS]
    for each in others:
        assert coordinator.handle(each) == []
    return coordinator.handle(last)


def complete(coordinator, checkpoint_id, acks=None, pending=None):
    if checkpoint_id not in coordinator.pending_checkpoint_ids:
        coordinator.handle(start(checkpoint_id))
    (write,) = acknowledge(coordinator, checkpoint_id, acks)
    assert isinstance(write, WriteManifest), write
    coordinator.handle(ManifestWritten(checkpoint_id))
    return write.manifest, coordinator.handle(CommitFinished("sink", checkpoint_id, pending))


def test_a_checkpoint_is_complete_with_its_last_ack(coordinator):
    assert coordinator.handle(start(1)) == [TriggerSources(1)]
    (write,) = acknowledge(coordinator, 1)
    assert isinstance(write, WriteManifest)
    assert write.manifest.created_ms == 100
    request = CommitRequest(1, ["0@1", "1@1"], now_ms=100)
    assert coordinator.handle(ManifestWritten(1)) == [CommitSink("sink", request)]
    assert coordinator.handle(CommitFinished("sink", 1))[-1] == NotifyCheckpointComplete(1)


def test_an_ack_that_comes_twice_came_once_and_one_of_another_attempt_fails_the_job(coordinator):
    coordinator.handle(start(1))
    for each in (READ, READ, SUM0, SUM0):
        assert coordinator.handle(ack(each)) == []
    assert isinstance(coordinator.handle(ack(SUM1))[0], WriteManifest)
    other = CheckpointCoordinator("job", "a job", pipelined=True)
    other.handle(start(1))
    (failed,) = acknowledge(
        other, 1, [ack(READ), ack(SUM0), ack(SUM0, attempt="another"), ack(SUM1)]
    )
    assert isinstance(failed, FailExecution)
    assert "sum[0] acknowledged 2 times" in failed.reason


def test_the_next_one_waits_until_the_one_before_it_has_committed(coordinator):
    coordinator.handle(start(1))
    coordinator.handle(start(2))
    (first,) = acknowledge(coordinator, 1)
    assert acknowledge(coordinator, 2) == []  # the first is being written
    assert coordinator.phase is CoordinatorPhase.WRITING
    coordinator.handle(ManifestWritten(1))
    assert coordinator.handle(ack(SUM1, 2)) == []
    assert coordinator.phase is CoordinatorPhase.COMMITTING
    *_, completed, write = coordinator.handle(CommitFinished("sink", 1, "kept back"))
    assert completed == NotifyCheckpointComplete(1)
    assert write.manifest.checkpoint_id == 2
    assert write.manifest.load_commit("sink").pending == "kept back"
    assert first.manifest.load_commit("sink").pending is None


def test_of_several_that_are_acknowledged_the_oldest_is_completed_first(coordinator):
    for number in (1, 2, 3):
        coordinator.handle(start(number))
    for number in (1, 3, 2):
        acknowledge(coordinator, number)
    coordinator.handle(ManifestWritten(1))
    *_, write = coordinator.handle(CommitFinished("sink", 1))
    assert write.manifest.checkpoint_id == 2


def test_one_may_begin_while_another_is_written_and_while_it_commits(coordinator):
    coordinator.handle(start(1))
    acknowledge(coordinator, 1)
    assert coordinator.handle(start(2)) == [TriggerSources(2)]
    coordinator.handle(ManifestWritten(1))
    assert coordinator.handle(start(3)) == [TriggerSources(3)]
    assert coordinator.pending_checkpoint_ids == [2, 3]


def test_an_aborted_checkpoint_does_not_fail_the_job_and_its_acks_mean_nothing(coordinator):
    coordinator.handle(start(1))
    coordinator.handle(ack(READ))
    assert coordinator.handle(AbortCheckpoint(1, "declined")) == [
        NotifyCheckpointAborted(1, "declined", failed=True)
    ]
    assert coordinator.handle(ack(SUM0)) == []
    assert coordinator.handle(ack(SUM1)) == []
    assert coordinator.handle(AbortCheckpoint(1, "expired")) == []
    assert (coordinator.phase, coordinator.next_checkpoint_id) == (CoordinatorPhase.IDLE, 2)


def test_after_a_restore_the_numbers_go_on_from_the_checkpoint(coordinator):
    manifest, _ = complete(coordinator, 1)
    for number in (2, 3):
        coordinator.handle(start(number))
    coordinator.handle(AbortCheckpoint(2, "declined"))
    assert coordinator.next_checkpoint_id == 4
    coordinator.handle(RestoreCheckpoint(manifest, (manifest,)))
    coordinator.handle(CommitFinished("sink", 1))
    assert (coordinator.next_checkpoint_id, coordinator.pending_checkpoint_ids) == (2, [])


def test_a_manifest_that_could_not_be_written_aborts_its_checkpoint(coordinator):
    coordinator.handle(start(1))
    acknowledge(coordinator, 1)
    (aborted,) = coordinator.handle(ManifestFailed(1, "down"))
    assert aborted == NotifyCheckpointAborted(1, "could not write the manifest: down", failed=True)
    manifest, last = complete(coordinator, 2)
    assert manifest.checkpoint_id == 2
    assert DeleteCheckpoint(1) in last  # it may or may not exist


def test_a_manifest_that_cannot_be_written_any_more_fails_the_job(coordinator):
    coordinator.handle(start(1))
    acknowledge(coordinator, 1)
    (failed,) = coordinator.handle(ManifestFailed(1, "another driver has the job", fatal=True))
    assert isinstance(failed, FailExecution)
    assert coordinator.phase is CoordinatorPhase.FAILED


def test_committables_are_committed_once_the_older_ones_first(coordinator):
    coordinator.handle(start(1))
    coordinator.handle(AbortCheckpoint(1, "expired"))
    carried = {1: {"sink": ("0@1", "also 0@1")}}
    acks = [ack(READ, 2), ack(SUM1, 2), ack(SUM0, 2, carried=carried)]
    second, _ = complete(coordinator, 2, acks)
    assert second.load_commit("sink").committables == ["0@1", "also 0@1", "0@2", "1@2"]
    late = {1: {"sink": ("0@1",)}, 2: {"sink": ("0@2",)}}  # it does not know yet
    acks = [ack(READ, 3), ack(SUM1, 3), ack(SUM0, 3, carried=late)]
    third, _ = complete(coordinator, 3, acks)
    assert third.load_commit("sink").committables == ["0@3", "1@3"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"carried": {2: {"sink": ("x",)}}}, "carries committables of checkpoint 2"),
        ({"carried": {1: {"other": ("x",)}}}, "operator 'other', which it does not run"),
        ({"carried": {1: {"total": ("x",)}}}, "'total', which has no committer"),
        ({"states": {}}, "did not start 'total' from the last completed checkpoint"),
    ],
)
def test_an_ack_that_cannot_be_right_fails_the_job(coordinator, changes, reason):
    complete(coordinator, 1)
    coordinator.handle(start(2))
    (failed,) = acknowledge(coordinator, 2, [ack(READ, 2), ack(SUM1, 2), ack(SUM0, 2, **changes)])
    assert isinstance(failed, FailExecution)
    assert reason in failed.reason


def test_state_may_build_on_an_aborted_checkpoint(coordinator):
    complete(coordinator, 1)
    coordinator.handle(start(2))
    coordinator.handle(AbortCheckpoint(2, "expired"))
    merged = StateChain((full("shared/2-x.state"), delta("shared/3-x.state")))
    database = StateChain(
        (StateHandle("full", 1, 0, (0, 128), name="f", snapshot="3-y", base="2-y"),)
    )
    acks = [
        ack(READ, 3),
        ack(SUM0, 3, states={"total": merged}),
        ack(SUM1, 3, states={"total": database}),
    ]
    found, _ = complete(coordinator, 3, acks)
    assert found.operators["total"].subtasks == (merged, database)


def test_checkpoints_after_the_final_one_are_aborted(coordinator):
    coordinator.handle(start(1))
    coordinator.handle(start(2))
    _, last = complete(coordinator, 1, [ack(task, finished=True) for task in TASKS])
    assert last[-2:] == [
        NotifyCheckpointComplete(1, final=True),
        NotifyCheckpointAborted(2, "the job has finished"),
    ]
    assert coordinator.phase is CoordinatorPhase.FINISHED


def test_an_epoch_is_not_aborted_but_fails():
    epochs = CheckpointCoordinator("job", "a job")
    epochs.handle(start(1))
    with pytest.raises(CheckpointError, match="AbortCheckpoint is not allowed in phase"):
        epochs.handle(AbortCheckpoint(1, "declined"))


def test_files_that_attempts_left_stay_until_a_checkpoint_after_the_restore_is_complete(
    coordinator,
):
    """Tasks of the attempt before may still write what a checkpoint to come names."""
    complete(coordinator, 1)
    restored = [
        *coordinator.handle(RestoreCheckpoint(coordinator.base, (coordinator.base,))),
        *coordinator.handle(CommitFinished("sink", 1)),
    ]
    assert not [each for each in restored if isinstance(each, DeleteOrphans)]
    coordinator.handle(start(2))
    acknowledge(coordinator, 2)
    coordinator.handle(ManifestWritten(2))
    completed = coordinator.handle(CommitFinished("sink", 2))
    assert [each.up_to_checkpoint_id for each in completed if isinstance(each, DeleteOrphans)] == [
        2
    ]


def test_files_that_a_checkpoint_under_way_needs_are_not_orphans(coordinator):
    """A task goes on from its own last snapshot, also if that belongs to a checkpoint that was aborted."""
    for number in (1, 2, 3):
        coordinator.handle(start(number))
    coordinator.handle(AbortCheckpoint(1, "declined"))
    early = "shared/1-sum-0-early.state"
    coordinator.handle(ack(SUM0, 3, states={"total": StateChain((full(early),))}))
    acknowledge(coordinator, 2)
    coordinator.handle(ManifestWritten(2))
    done = coordinator.handle(CommitFinished("sink", 2))
    (orphans,) = [each for each in done if isinstance(each, DeleteOrphans)]
    assert early in orphans.needed
