"""The coordinator after a restore, at the end of a job, and when it deletes old checkpoints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.checkpoint.coordinator import CheckpointCoordinator, CoordinatorPhase
from penstock.checkpoint.messages import (
    CheckpointRestored,
    CommitFailed,
    CommitFinished,
    CommitSink,
    DeleteCheckpoint,
    DeleteFiles,
    FailExecution,
    ManifestWritten,
    NotifyCheckpointComplete,
    RestoreCheckpoint,
    TaskFailed,
)
from penstock.checkpoint.pickled import Pickled
from penstock.connectors.base.sink import CommitRequest
from penstock.errors import ArgumentError, CheckpointError
from tests.builders.checkpoint_builders import (
    OPERATORS,
    READ,
    SUM0,
    SUM1,
    ack,
    delta,
    file_of,
    manifest,
    start,
)
from tests.builders.coordinator_runs import complete, rescaled, run_pipe


@pytest.fixture
def coordinator():
    return CheckpointCoordinator("job", "a job")


def test_restore_commits_first_and_keeps_the_returned_values(coordinator):
    assert coordinator.handle(RestoreCheckpoint(manifest(4))) == [
        CommitSink("sink", CommitRequest(4, ["out-4"]))
    ]
    assert coordinator.handle(CommitFinished("sink", 4, "kept")) == [CheckpointRestored(4)]
    plan = start(5, operators=tuple(replace(op, parallelism=1) for op in OPERATORS), channels=None)
    plan = replace(plan, expected=frozenset({READ, SUM0}))
    (write,) = run_pipe(coordinator, 5, plan, [ack(READ, 5), ack(SUM0, 5)])
    assert write.manifest.load_commit("sink").pending == "kept"


def test_values_kept_back_after_the_restored_checkpoint_are_dropped(coordinator):
    complete(coordinator, 1, pending="of an epoch that never was")
    coordinator.handle(RestoreCheckpoint(manifest(4, commits={})))
    plan, acks = rescaled(5, 1)
    (write,) = run_pipe(coordinator, 5, plan, acks)
    assert write.manifest.load_commit("sink").pending is None


def test_a_restore_without_a_checkpoint_begins_at_the_beginning(coordinator):
    coordinator.handle(start())
    coordinator.handle(TaskFailed(1, "x"))
    assert coordinator.handle(RestoreCheckpoint(None)) == [CheckpointRestored(0)]
    assert complete(coordinator)[1] == [NotifyCheckpointComplete(1)]


def test_a_failed_commit_after_a_restore_fails_again_and_may_be_restored_again(coordinator):
    coordinator.handle(RestoreCheckpoint(manifest(4)))
    assert coordinator.handle(CommitFailed("sink", 4, "down")) == [
        FailExecution(4, "commit of sink 'sink' failed: down", durable=True)
    ]
    assert len(coordinator.handle(RestoreCheckpoint(manifest(4)))) == 1
    assert coordinator.handle(CommitFinished("sink", 4)) == [CheckpointRestored(4)]


def test_the_job_has_finished_when_the_commits_of_its_final_epoch_are_done(coordinator):
    acks = [ack(task, finished=True) for task in (READ, SUM0, SUM1)]
    (write,) = run_pipe(coordinator, acks=acks)
    assert write.manifest.final
    (commit,) = coordinator.handle(ManifestWritten(1))
    assert commit.request.final
    assert coordinator.phase is CoordinatorPhase.COMMITTING
    assert coordinator.handle(CommitFinished("sink", 1)) == [
        NotifyCheckpointComplete(1, final=True)
    ]
    assert coordinator.phase is CoordinatorPhase.FINISHED
    with pytest.raises(CheckpointError, match="is not allowed in phase"):
        coordinator.handle(start(2))


def test_a_job_is_not_final_while_one_task_goes_on(coordinator):
    acks = [ack(READ, finished=True), ack(SUM0, finished=True), ack(SUM1)]
    found, last = complete(coordinator, acks=acks)
    assert (found.final, last) == (False, [NotifyCheckpointComplete(1)])


def test_a_final_manifest_that_is_restored_commits_and_finishes(coordinator):
    coordinator.handle(RestoreCheckpoint(manifest(4, final=True)))
    assert coordinator.phase is CoordinatorPhase.RESTORING
    assert coordinator.handle(CommitFinished("sink", 4)) == [CheckpointRestored(4, final=True)]
    assert coordinator.phase is CoordinatorPhase.FINISHED


def test_a_job_cannot_go_back_before_its_own_checkpoints(coordinator):
    for older in (manifest(3), None):
        with pytest.raises(CheckpointError, match="already has checkpoint 5"):
            coordinator.handle(RestoreCheckpoint(older, (manifest(3), manifest(5))))


def test_another_jobs_checkpoint_needs_absolute_names_and_loses_no_file(coordinator):
    foreign = manifest(4, job_id="other", files=("shared/4-sum-0-a.state",), commits={})
    with pytest.raises(
        ArgumentError, match="job other refers to 'shared/4-sum-0-a\\.state' without"
    ):
        coordinator.handle(RestoreCheckpoint(foreign))
    absolute = manifest(4, job_id="other", files=("/o/shared/4-sum-0-a.state",), commits={})
    assert coordinator.handle(RestoreCheckpoint(absolute)) == [CheckpointRestored(4)]
    plan, acks = rescaled(5, 1)
    _, last = complete(coordinator, 5, plan, acks)
    assert last == [NotifyCheckpointComplete(5)]


def test_a_commit_request_that_cannot_be_read_leaves_the_coordinator_as_it_was(coordinator):
    broken = manifest(4, commits={"sink": Pickled(b"no pickle")})
    with pytest.raises(CheckpointError, match="the commit request of 'sink'"):
        coordinator.handle(RestoreCheckpoint(broken))
    assert (coordinator.phase, coordinator.base) == (CoordinatorPhase.IDLE, None)


def test_retention_deletes_an_old_checkpoint_before_the_files_that_only_it_named(coordinator):
    first, last = complete(coordinator, 1)
    assert last == [NotifyCheckpointComplete(1)]
    chain = first.operators["total"].subtasks[0].append(delta("shared/2-sum-0-d.state"))
    _, last = complete(
        coordinator, 2, acks=[ack(READ, 2), ack(SUM0, 2, states={"total": chain}), ack(SUM1, 2)]
    )
    assert last == [
        DeleteCheckpoint(1),
        DeleteFiles((file_of(1, SUM1, "sum1a1"),)),  # SUM0's file is the start of a chain
        NotifyCheckpointComplete(2),
    ]
    _, last = complete(coordinator, 3)
    assert last == [
        DeleteCheckpoint(2),
        DeleteFiles(
            (
                file_of(1, SUM0, "sum0a1"),
                "shared/2-sum-0-d.state",
                file_of(2, SUM1, "sum1a2"),
            )
        ),
        NotifyCheckpointComplete(3),
    ]


def test_retention_keeps_the_configured_number():
    coordinator = CheckpointCoordinator("job", "a job", retained=3)
    for checkpoint_id in range(1, 6):
        complete(coordinator, checkpoint_id)
    assert coordinator.completed_checkpoint_ids == [3, 4, 5]


def test_a_restore_finishes_the_retention_that_a_crash_cut_off(coordinator):
    retained = tuple(manifest(n, files=(f"shared/{n}-a.state",), commits={}) for n in (2, 3, 4))
    assert coordinator.handle(RestoreCheckpoint(retained[-1], retained)) == [
        DeleteCheckpoint(2),
        DeleteCheckpoint(3),
        DeleteFiles(("shared/2-a.state", "shared/3-a.state")),
        CheckpointRestored(4),
    ]
