from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.checkpoint.coordinator import CheckpointCoordinator, CoordinatorPhase
from penstock.checkpoint.handles import StateChain
from penstock.checkpoint.manifest import SubtaskSnapshot, VertexSnapshot
from penstock.checkpoint.messages import (
    Channel,
    CommitFailed,
    CommitFinished,
    CommitSink,
    CoordinatorEvent,
    FailExecution,
    ManifestFailed,
    ManifestWritten,
    NotifyCheckpointComplete,
    OperatorPlan,
    PipeFinished,
    RestoreCheckpoint,
    SourcePlan,
    TaskFailed,
    WriteManifest,
)
from penstock.connectors.base.sink import CommitRequest
from penstock.errors import ArgumentError, CheckpointError
from penstock.graph.task_id import TaskId
from tests.builders.checkpoint_builders import (
    OPERATORS,
    READ,
    SUM0,
    SUM1,
    ack,
    delta,
    file_of,
    full,
    manifest,
    progress,
    start,
)
from tests.builders.coordinator_runs import complete, rescaled, run_pipe


@pytest.fixture
def coordinator():
    return CheckpointCoordinator("job", "a job")


def test_the_order_is_pipe_manifest_commit_completion(coordinator):
    (write,) = run_pipe(coordinator)
    assert isinstance(write, WriteManifest)
    assert coordinator.base is None
    request = CommitRequest(1, ["0@1", "1@1"], now_ms=1500)
    assert coordinator.handle(ManifestWritten(1)) == [CommitSink("sink", request)]
    assert coordinator.base is write.manifest
    assert coordinator.handle(CommitFinished("sink", 1)) == [NotifyCheckpointComplete(1)]
    assert (coordinator.phase, coordinator.next_checkpoint_id) == (CoordinatorPhase.IDLE, 2)


def test_manifest_contains_the_content_of_the_acks(coordinator):
    acks = [
        ack(READ, next_wakeup=90),
        ack(SUM0, watermark=4, next_wakeup=80),
        ack(SUM1, watermark=6),
    ]
    (write,) = run_pipe(coordinator, acks=acks, now_ms=1234)
    found = write.manifest
    assert (found.job_id, found.job_name, found.checkpoint_id, found.created_ms) == (
        "job",
        "a job",
        1,
        1234,
    )
    assert found.parallelism == {"read": 1, "sum": 2}
    assert found.watermarks == {"read": 10, "sum": 4}
    assert found.next_wakeup == 80
    total = found.operators["total"]
    assert (total.uid, total.name, total.vertex, total.max_parallelism) == (
        "my-total",
        "total per key",
        "sum",
        128,
    )
    assert total.subtasks == (acks[1].states["total"], acks[2].states["total"])
    assert found.operators["sink"].subtasks == (StateChain(), StateChain())
    assert found.sources["source"].load_enumerator() == "seen-1"
    assert found.sources["source"].load_splits(0) == (progress("s", 1),)
    assert found.load_commit("sink") == CommitRequest(1, ["0@1", "1@1"], now_ms=1234)
    assert found.final is False


def test_every_sink_commits_in_every_epoch_and_all_of_them_end_it(coordinator):
    second = OperatorPlan("log", "log", "sum", 2, 128, committer=True)
    run_pipe(coordinator, plan=start(operators=(*OPERATORS, second)))
    commits = coordinator.handle(ManifestWritten(1))
    assert [commit.operator for commit in commits] == ["sink", "log"]
    assert commits[1].request.committables == []
    assert coordinator.handle(CommitFinished("log", 1)) == []
    assert coordinator.handle(CommitFinished("sink", 1)) == [NotifyCheckpointComplete(1)]


def test_a_job_without_committers_completes_when_its_manifest_is_durable(coordinator):
    operators = (OPERATORS[0], OPERATORS[1])
    acks = [ack(READ), ack(SUM0, committables={}), ack(SUM1, committables={})]
    run_pipe(coordinator, plan=start(operators=operators), acks=acks)
    assert coordinator.handle(ManifestWritten(1)) == [NotifyCheckpointComplete(1)]


def test_values_kept_back_by_a_committer_come_with_the_next_request(coordinator):
    complete(coordinator, 1, pending={"open": "part-0"})
    found, _ = complete(coordinator, 2, pending=None)
    assert found.load_commit("sink").pending == {"open": "part-0"}
    found, _ = complete(coordinator, 3)
    assert found.load_commit("sink").pending is None


# Each case: which acks arrive, and what the failure says.
SPOILED = {
    "an ack is missing": ([ack(READ), ack(SUM0)], "sum[1] did not acknowledge"),
    "no ack at all": ([], "read[0] did not acknowledge"),
    "an ack comes twice": (
        [ack(READ), ack(SUM0), ack(SUM1), ack(SUM1)],
        "sum[1] acknowledged 2 times",
    ),
    "two attempts acknowledge": (
        [ack(READ), ack(SUM0), ack(SUM1), ack(SUM1, attempt="b")],
        "sum[1] acknowledged 2 times, as attempts sum1a1, b",
    ),
    "an unknown task acknowledges": (
        [ack(READ), ack(SUM0), ack(SUM1), ack(TaskId("sum", 2))],
        "sum[2] acknowledged but was not expected",
    ),
    "one receiver saw another attempt": (
        [ack(READ), ack(SUM0), ack(SUM1, upstream=(Channel(READ, "read0b"),))],
        "sum[1] received data from attempt read0b of read[0], but attempt read0a1 acknowledged",
    ),
    "all receivers saw another attempt": (
        [
            ack(READ, attempt="read0b"),
            ack(SUM0),
            ack(SUM1),
        ],
        "sum[0] received data from attempt read0a1 of read[0], but attempt read0b acknowledged",
    ),
    "one channel carried two attempts": (
        [
            ack(READ),
            ack(SUM0, upstream=(Channel(READ, "read0a1"), Channel(READ, "read0b", 1))),
            ack(SUM1),
        ],
        "sum[0] received data from attempt read0b",
    ),
    "a channel was silent": (
        [ack(READ), ack(SUM0, upstream=()), ack(SUM1)],
        "sum[0] received no data from read[0]",
    ),
    "data came from nowhere": (
        [
            ack(READ),
            ack(SUM0, upstream=(Channel(READ, "read0a1"), Channel(TaskId("x", 0), "t"))),
            ack(SUM1),
        ],
        "sum[0] received data from x[0], which was not expected to run",
    ),
    "a split was forgotten": (
        [ack(READ, splits={}), ack(SUM0), ack(SUM1)],
        "was assigned the splits ['s'] but reported []",
    ),
    "a split was made up": (
        [ack(READ, splits={"source": (progress("s", 1), progress("t", 1))}), ack(SUM0), ack(SUM1)],
        "was assigned the splits ['s'] but reported ['s', 't']",
    ),
    "a split was reported twice": (
        [ack(READ, splits={"source": (progress("s", 1), progress("s", 2))}), ack(SUM0), ack(SUM1)],
        "reported ['s', 's']",
    ),
    "an unknown operator": (
        [ack(READ), ack(SUM0, states={"other": StateChain()}), ack(SUM1)],
        "operator 'other', which it does not run",
    ),
    "an operator of another vertex": (
        [ack(READ, committables={"sink": ("x",)}), ack(SUM0), ack(SUM1)],
        "read[0] acknowledged operator 'sink', which it does not run",
    ),
    "committables without a committer": (
        [ack(READ), ack(SUM0, committables={"total": ("x",)}), ack(SUM1)],
        "committables of 'total', which has no committer",
    ),
    "something that does not pickle": (
        [ack(READ), ack(SUM0, committables={"sink": ((n for n in [1]),)}), ack(SUM1)],
        "the committables of 'sink' cannot be pickled",
    ),
}


@pytest.mark.parametrize(("acks", "reason"), SPOILED.values(), ids=SPOILED.keys())
def test_an_epoch_fails_without_a_manifest_when(coordinator, acks, reason):
    (failed,) = run_pipe(coordinator, acks=acks)
    assert isinstance(failed, FailExecution)
    assert (failed.checkpoint_id, failed.durable) == (1, False)
    assert reason in failed.reason
    assert (coordinator.phase, coordinator.base) == (CoordinatorPhase.FAILED, None)


def test_splits_of_a_source_that_was_to_read_none_are_not_lost_silently(coordinator):
    (failed,) = run_pipe(coordinator, plan=start(sources={}))
    assert "read[0] reported splits of 'source', which has none assigned" in failed.reason


def test_without_known_channels_the_reported_ones_are_still_compared(coordinator):
    acks = [ack(READ), ack(SUM0, upstream=()), ack(SUM1, upstream=(Channel(READ, "other"),))]
    (failed,) = run_pipe(coordinator, plan=start(channels=None), acks=acks)
    assert failed.reason.startswith("sum[1] received data from attempt other of read[0]")


def test_a_failure_of_many_tasks_shows_five_and_counts_the_rest(coordinator):
    operators = (replace(OPERATORS[0], parallelism=9),)
    tasks = frozenset(TaskId("read", i) for i in range(9))
    plan = start(operators=operators, expected=tasks, sources={}, channels=None)
    (failed,) = run_pipe(coordinator, plan=plan, acks=[])
    assert failed.reason.count("did not acknowledge") == 5
    assert failed.reason.endswith("and 4 more")


def test_a_task_that_did_not_start_from_the_completed_state_fails_the_epoch(coordinator):
    first, _ = complete(coordinator)
    before = first.operators["total"].subtasks[0]
    old = StateChain((full("shared/0-sum-0-z.state"), delta("shared/2-sum-0-z.state")))
    for chain, accepted in [(before.append(delta("shared/2-x.state")), True), (old, False)]:
        other = CheckpointCoordinator("job", "a job")
        other.handle(RestoreCheckpoint(replace(first, commits={})))
        acks = [ack(READ, 2), ack(SUM0, 2, states={"total": chain}), ack(SUM1, 2)]
        (found,) = run_pipe(other, 2, acks=acks)
        assert isinstance(found, WriteManifest) is accepted
        if not accepted:
            assert "sum[0] did not start 'total' from the last completed checkpoint" in found.reason


def test_an_operator_left_out_of_an_ack_keeps_its_state(coordinator):
    first, _ = complete(coordinator)
    second, _ = complete(coordinator, 2, acks=[ack(READ, 2), ack(SUM0, 2, states={}), ack(SUM1, 2)])
    assert second.operators["total"].subtasks[0] == first.operators["total"].subtasks[0]
    assert second.operators["total"].subtasks[1] == ack(SUM1, 2).states["total"]


def test_task_that_does_not_run_keeps_its_snapshot(coordinator):
    first, _ = complete(
        coordinator,
        acks=[
            ack(READ, finished=True, local=b"other state"),
            ack(SUM0),
            ack(SUM1, next_wakeup=70),
        ],
    )
    plan = start(2, expected=frozenset({SUM0}), sources={}, channels={})
    second, _ = complete(coordinator, 2, plan, [ack(SUM0, 2, upstream=())])
    assert second.sources == first.sources
    assert second.operators["total"].subtasks[1] == first.operators["total"].subtasks[1]
    assert second.vertices["read"] == first.vertices["read"]
    assert second.vertices["read"] == VertexSnapshot(
        (SubtaskSnapshot(10, True, attempt="read0a1", local=b"other state"),)
    )
    assert second.watermarks == {"read": 10, "sum": 10}
    assert second.next_wakeup == 70
    assert second.load_commit("sink").committables == ["0@2"]


def test_splits_of_a_subtask_that_does_not_run_stay_as_planned(coordinator):
    sources = {"source": SourcePlan("new", {0: (progress("s", 0), progress("t", 0))})}
    plan = start(expected=frozenset({SUM0, SUM1}), sources=sources, channels={})
    acks = [ack(SUM0, upstream=()), ack(SUM1, upstream=())]
    found, _ = complete(coordinator, plan=plan, acks=acks)
    assert found.sources["source"].load_splits(0) == (progress("s", 0), progress("t", 0))
    assert found.sources["source"].load_enumerator() == "new"


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_parallelism_may_change_between_two_epochs(coordinator, parallelism):
    complete(coordinator)
    plan, acks = rescaled(2, parallelism)
    found, _ = complete(coordinator, 2, plan, acks)
    assert found.parallelism == {"read": 1, "sum": parallelism}
    assert [chain.files() for chain in found.operators["total"].subtasks] == [
        [file_of(2, one.task, one.attempt)] for one in acks[1:]
    ]


def test_rescaling_loses_no_state(coordinator):
    complete(coordinator)
    plan, acks = rescaled(2, 3)
    acks[3] = replace(acks[3], states={})
    (failed,) = run_pipe(coordinator, 2, plan, acks)
    assert "sum[2] lost the state of 'total' when its parallelism changed" in failed.reason


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        pytest.param(
            {"operators": (*OPERATORS, OPERATORS[0])},
            ArgumentError,
            "duplicate operator id",
            id="same id",
        ),
        pytest.param(
            {"operators": (*OPERATORS, OperatorPlan("x", "x", "sum", 3, 128))},
            ArgumentError,
            "have different parallelism",
            id="one vertex, two parallelisms",
        ),
        pytest.param(
            {"expected": frozenset({TaskId("sum", 2)})},
            ArgumentError,
            r"unknown task sum\[2\]",
            id="unknown task",
        ),
        pytest.param(
            {"sources": {"x": SourcePlan()}},
            ArgumentError,
            "unknown source 'x'",
            id="unknown source",
        ),
        pytest.param(
            {"sources": {"source": SourcePlan(None, {1: (progress("s", 0),)})}},
            ArgumentError,
            "splits for subtask 1",
            id="owner out of range",
        ),
        pytest.param(
            {"operators": tuple(replace(op, max_parallelism=64) for op in OPERATORS)},
            CheckpointError,
            "max parallelism 64, but its state was written with 128",
            id="another max parallelism",
        ),
        pytest.param(
            {"operators": OPERATORS[:2]},
            CheckpointError,
            "sink 'sink' has uncommitted output in the checkpoint",
            id="sink with pending output is gone",
        ),
        pytest.param(
            {"operators": (OPERATORS[0], *(replace(op, parallelism=3) for op in OPERATORS[1:]))},
            ArgumentError,
            r"sum\[2\] is not expected to run",
            id="rescaled but not all subtasks run",
        ),
        pytest.param(
            {
                "operators": (replace(OPERATORS[0], parallelism=2), *OPERATORS[1:]),
                "expected": frozenset({READ, TaskId("read", 1), SUM0, SUM1}),
                "sources": {},
            },
            ArgumentError,
            "splits were not reassigned",
            id="source rescaled without its splits",
        ),
    ],
)
def test_a_plan_that_cannot_complete_is_refused_when_it_starts(
    coordinator, changes, error, message
):
    complete(coordinator, pending="waits")
    with pytest.raises(error, match=message):
        coordinator.handle(start(2, **changes))
    assert coordinator.phase is CoordinatorPhase.IDLE


def test_a_split_has_one_owner(coordinator):
    sources = {"source": SourcePlan(None, {0: (progress("s", 0),), 1: (progress("s", 0),)})}
    operators = (replace(OPERATORS[0], parallelism=2), *OPERATORS[1:])
    with pytest.raises(ArgumentError, match="split 's' of 'source' has two owners"):
        coordinator.handle(start(operators=operators, sources=sources))


def test_a_failed_task_fails_the_epoch_and_stragglers_change_nothing(coordinator):
    coordinator.handle(start())
    coordinator.handle(ack(READ))
    assert coordinator.handle(TaskFailed(1, "ValueError: no", SUM0)) == [
        FailExecution(1, "sum[0]: ValueError: no")
    ]
    for straggler in (
        ack(SUM0),
        TaskFailed(1, "again"),
        PipeFinished(1, 5),
        ManifestFailed(1, "x"),
    ):
        assert coordinator.handle(straggler) == []
    assert coordinator.phase is CoordinatorPhase.FAILED


def test_events_of_another_epoch_change_nothing(coordinator):
    complete(coordinator)
    coordinator.handle(start(2))
    for stale in (ack(SUM0, 1), ack(SUM1, 3), TaskFailed(1, "late"), PipeFinished(1, 5)):
        assert coordinator.handle(stale) == []
    for task in (READ, SUM0, SUM1):
        coordinator.handle(ack(task, 2))
    assert isinstance(coordinator.handle(PipeFinished(2, 5))[0], WriteManifest)


def test_a_manifest_that_could_not_be_written_commits_nothing(coordinator):
    run_pipe(coordinator)
    (failed,) = coordinator.handle(ManifestFailed(1, "disk full"))
    assert failed == FailExecution(1, "could not write the manifest: disk full")
    assert coordinator.handle(ManifestWritten(1)) == []
    assert coordinator.base is None


def test_a_failed_commit_leaves_a_durable_epoch_and_deletes_nothing(coordinator):
    complete(coordinator, 1)
    run_pipe(coordinator, 2)
    coordinator.handle(ManifestWritten(2))
    assert coordinator.handle(CommitFailed("sink", 2, "timeout")) == [
        FailExecution(2, "commit of sink 'sink' failed: timeout", durable=True)
    ]
    assert coordinator.handle(CommitFinished("sink", 2)) == []
    assert coordinator.completed_checkpoint_ids == [1, 2]


def test_a_failed_commit_of_another_epoch_does_not_fail_the_one_that_commits(coordinator):
    complete(coordinator, 1)
    run_pipe(coordinator, 2)
    coordinator.handle(ManifestWritten(2))
    for stale in (CommitFailed("sink", 1, "timeout"), CommitFailed("sink", 3, "timeout")):
        assert coordinator.handle(stale) == []
        assert coordinator.phase is CoordinatorPhase.COMMITTING
    assert coordinator.handle(CommitFinished("sink", 2))[-1] == NotifyCheckpointComplete(2)


@pytest.mark.parametrize(
    ("before", "event"),
    [
        pytest.param([], start(2), id="a gap"),
        pytest.param([], ManifestWritten(1), id="a manifest that was not requested"),
        pytest.param([], CommitFinished("sink", 0), id="a commit that was not requested"),
        pytest.param([start()], start(), id="an epoch during an epoch"),
        pytest.param([start()], ManifestWritten(1), id="a manifest before its acks"),
        pytest.param(
            [RestoreCheckpoint(manifest(4))], start(5), id="an epoch before the restored commits"
        ),
        pytest.param(
            [RestoreCheckpoint(manifest(4))], CommitFinished("x", 4), id="an unknown sink"
        ),
        pytest.param(
            [RestoreCheckpoint(manifest(4))],
            CommitFinished("sink", 3),
            id="a commit of another epoch",
        ),
        pytest.param([start(), TaskFailed(1, "x")], start(), id="an epoch without a restore"),
    ],
)
def test_steps_out_of_order_are_refused_with_the_story(coordinator, before, event):
    for earlier in before:
        coordinator.handle(earlier)
    phase = coordinator.phase
    with pytest.raises(CheckpointError, match="is not allowed in phase") as raised:
        coordinator.handle(event)
    assert raised.value.detail.count("->") == len(before)
    assert coordinator.phase is phase


def test_an_unknown_event_is_refused(coordinator):
    with pytest.raises(ArgumentError, match="unknown event CoordinatorEvent"):
        coordinator.handle(CoordinatorEvent())


def test_no_checkpoint_at_all_cannot_be_retained():
    with pytest.raises(ArgumentError, match="cannot retain 0 checkpoints"):
        CheckpointCoordinator("job", "a job", retained=0)
