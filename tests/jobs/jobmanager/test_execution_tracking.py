"""The ExecutionGraph follows what happens to a job."""

from __future__ import annotations

import pytest

from penstock.common.job_status import JobStatus
from penstock.errors import JobCancelledError, JobExecutionError
from penstock.graph.compiler import compile_program
from penstock.graph.settings import GraphSettings
from penstock.graph.task_id import TaskId
from penstock.jobmanager.controller import LocalJobController
from penstock.jobmanager.execution.execution_graph import HISTORY, ExecutionGraph, generate
from penstock.jobmanager.execution.execution_state import ExecutionState
from penstock.jobmanager.execution.failure_history import (
    KEPT_FAILURES,
    FailureEntry,
    FailureHistory,
)
from penstock.jobmanager.job_master.execution_tracking import (
    acknowledged,
    deployed,
    follow,
    restarted,
    running,
)
from penstock.jobmanager.running.driver import ExecutionFailedError
from penstock.runtime.network.messages import TaskAck, TaskFailedError, TaskFailure
from penstock.testing import MiniCluster
from penstock.testing.faults import StepFault, protocol_faults, watched_steps
from tests.builders.counting_job import environment, totals

J, S = JobStatus, ExecutionState


@pytest.fixture
def graph():
    env = environment(2)
    totals(env).print()
    plans = compile_program(env._transformations, GraphSettings(parallelism=2))
    return generate(plans.job_graph, job_id="j", now_ms=0)


def states(graph: ExecutionGraph) -> list[list[str]]:
    return [[each.current.state.name for each in vertex.subtasks] for vertex in graph.vertices]


def all_states(graph: ExecutionGraph) -> list[str]:
    return sorted(state for vertex in states(graph) for state in vertex)


WAYS = [
    pytest.param([J.RUNNING, J.FINISHED], S.FINISHED, id="a good life"),
    pytest.param([J.RUNNING, J.CANCELED], S.CANCELED, id="cancelled while it runs"),
    pytest.param([J.CANCELED], S.CANCELED, id="cancelled before it runs"),
    pytest.param([J.RUNNING, J.FAILED], S.CANCELED, id="failed for good at once"),
    pytest.param([J.RUNNING, J.FAILING, J.FAILED], S.CANCELED, id="failed for good"),
    pytest.param([J.RUNNING, J.FAILING, J.CANCELED], S.CANCELED, id="cancelled while it fails"),
    pytest.param(
        [J.RUNNING, J.FAILING, J.RESTARTING, J.CANCELED],
        S.CANCELED,
        id="cancelled before a restart",
    ),
    pytest.param(
        [J.RUNNING, J.FAILING, J.RESTARTING, J.RUNNING, J.FINISHED], S.FINISHED, id="restarted"
    ),
]


@pytest.mark.parametrize("runs", [False, True], ids=["never-deployed", "running"])
@pytest.mark.parametrize(("statuses", "state"), WAYS)
def test_every_way_to_an_end_is_allowed(graph, statuses, state, runs) -> None:
    for moment, status in enumerate(statuses):
        graph = follow(graph, status, moment)
        if runs and status is J.RUNNING:
            graph = acknowledged(deployed(graph, moment), 1, ack(graph, 0, 1), moment)
    assert graph.status is statuses[-1]
    assert {v.current.state for job in graph.vertices for v in job.subtasks} == {state}


def test_a_running_job_is_cancelling_before_it_is_canceled(graph) -> None:
    graph = follow(follow(graph, J.RUNNING, 1), J.CANCELED, 2)
    assert [status for status, _ in graph.timestamps][-2:] == [J.CANCELLING, J.CANCELED]


def ack(graph: ExecutionGraph, vertex: int, subtask: int) -> TaskAck:
    return TaskAck(TaskId(graph.vertices[vertex].id, subtask), "a", {}, {}, b"")


def test_a_subtask_runs_from_its_first_ack_on(graph) -> None:
    graph = follow(graph, J.RUNNING, 1)
    assert states(graph) == [["SCHEDULED"] * 2] * 2
    graph = acknowledged(deployed(graph, 2), 1, ack(graph, 1, 0), 3)
    assert states(graph) == [["DEPLOYING"] * 2, ["RUNNING", "DEPLOYING"]]
    graph = acknowledged(deployed(graph, 4), 2, ack(graph, 1, 0), 5)
    one = graph.vertices[1].subtasks[0].current
    assert dict(one.timestamps) == {S.CREATED: 0, S.SCHEDULED: 1, S.DEPLOYING: 2, S.RUNNING: 3}
    assert (one.checkpoint, one.acknowledged_ms) == (2, 5)


def test_the_subtask_that_failed_has_the_cause_and_the_others_are_canceled(graph) -> None:
    error = ExecutionFailedError("epoch 1 failed")
    task = TaskId(graph.vertices[1].id, 1)
    error.__cause__ = TaskFailedError(TaskFailure(task, "failed", None, "KeyError: 'x'\n", None))
    graph = follow(deployed(follow(graph, J.RUNNING, 1), 2), J.FAILING, 3, error)
    assert states(graph) == [["CANCELED"] * 2, ["CANCELED", "FAILED"]]
    assert graph.vertices[1].subtasks[1].current.failure == "KeyError: 'x'"
    assert graph.failure == "failed"


def test_of_many_attempts_the_last_are_remembered(graph) -> None:
    for _ in range(HISTORY + 3):
        for status in (J.RUNNING, J.FAILING, J.RESTARTING):
            graph = follow(graph, status, 1)
    (first, *_), (*_, last) = (v.subtasks for v in graph.vertices)
    assert len(first.history) == len(last.history) == HISTORY
    assert last.current.attempt == HISTORY + 2
    assert last.history[-1].attempt == HISTORY + 1


# Live jobs


class Watching:
    """Keeps the graph of a job at each step, by the step and the epoch."""

    def __init__(self, cluster: MiniCluster) -> None:
        self._cluster = cluster
        self.seen: dict[tuple[str, int], ExecutionGraph] = {}

    def __call__(self, moment: str, checkpoint_id: int) -> None:
        self.seen[moment, checkpoint_id] = self._cluster.masters[0].execution_graph


def run(act=None, parallelism=2, **options):
    """Run a job of numbers and totals; `act(master, epoch)` is called before each epoch."""
    env = environment(parallelism, restart_strategy__type="fixed-delay", **options)
    with MiniCluster() as cluster:

        def hook(moment: str, checkpoint_id: int) -> None:
            if moment == "before run_pipe":
                act(cluster.masters[0], checkpoint_id)

        watching = Watching(cluster)
        totals(env).print()
        with watched_steps(hook, watching), pytest.raises(JobCancelledError):
            env.execute("numbers")
    return cluster.masters[0], watching.seen


def cancel_at(last, act=lambda master, checkpoint_id: None):
    def both(master, checkpoint_id):
        act(master, checkpoint_id)
        if checkpoint_id == last:
            master.cancel(graceful=True)

    return both


def test_subtasks_of_a_live_job_are_scheduled_deployed_and_acknowledge_every_checkpoint() -> None:
    master, seen = run(cancel_at(3))
    assert states(seen["before run_pipe", 1]) == [["SCHEDULED"] * 2] * 2
    for checkpoint_id in (1, 2, 3):
        graph = seen["after run_pipe", checkpoint_id]
        assert states(graph) == [["RUNNING"] * 2] * 2
        executions = [each.current for vertex in graph.vertices for each in vertex.subtasks]
        assert {each.checkpoint for each in executions} == {checkpoint_id}
        for each in executions:
            times = [time for _, time in each.timestamps]
            assert times == sorted(times)
            assert each.acknowledged_ms >= times[-1]
    assert states(master.execution_graph) == [["CANCELED"] * 2] * 2
    assert master.execution_graph.status is J.CANCELED


def test_the_cause_of_a_failure_is_shown_at_its_subtask() -> None:
    env = environment(2, restart_strategy__type="none")
    with MiniCluster() as cluster:
        numbers = env.from_collection([1, 2, 3])
        numbers.key_by(lambda n: n).map(lambda n: 1 // (n - 2)).print()
        with pytest.raises(JobExecutionError):
            env.execute("numbers")
    graph = cluster.masters[0].execution_graph
    assert (graph.status, all_states(graph)) == (J.FAILED, ["CANCELED", "CANCELED", "FAILED"])
    (failed,) = [
        each.current
        for vertex in graph.vertices
        for each in vertex.subtasks
        if each.current.state is S.FAILED
    ]
    assert "ZeroDivisionError" in failed.failure
    assert "ZeroDivisionError" in graph.failure
    assert LocalJobController(cluster.masters[0]).view().failure == graph.failure


def test_a_restart_makes_new_attempts_and_keeps_the_old_ones() -> None:
    options = {
        "restart_strategy__fixed_delay__attempts": "5",
        "restart_strategy__fixed_delay__delay": "0 s",
    }
    with protocol_faults(StepFault("before write_manifest", 2)):
        master, seen = run(cancel_at(3), **options)
    assert master.restarts == 1
    executions = [v for vertex in seen["after run_pipe", 3].vertices for v in vertex.subtasks]
    assert {(each.current.attempt, each.current.checkpoint) for each in executions} == {(1, 3)}
    assert {
        tuple((old.attempt, old.state, old.checkpoint) for old in each.history)
        for each in executions
    } == {((0, S.CANCELED, 2),)}
    names = [status.name for status, _ in master.execution_graph.timestamps]
    assert names == [
        "CREATED", "RUNNING", "FAILING", "RESTARTING", "RUNNING", "CANCELLING", "CANCELED",
    ]  # fmt: skip


def test_rescaling_begins_new_attempts_of_all_subtasks_there_are_now() -> None:
    master, seen = run(
        cancel_at(4, lambda master, checkpoint_id: checkpoint_id == 2 and master.request_rescale(3))
    )
    before, after = seen["after run_pipe", 2], seen["after run_pipe", 4]
    assert [len(vertex.subtasks) for vertex in before.vertices] == [2, 2]
    for vertex in after.vertices:
        assert [each.current.attempt for each in vertex.subtasks] == [1, 1, 0]
        assert {each.current.checkpoint for each in vertex.subtasks} == {4}
        old = vertex.subtasks[0].history[0]
        assert (old.state, old.checkpoint) == (S.CANCELED, 2)
    assert after.timestamps == before.timestamps  # the job itself has been running all the time
    assert master.restarts == 0


def test_a_subtask_that_has_nothing_left_to_do_is_finished_while_others_run() -> None:
    env = environment(1)
    with MiniCluster() as cluster:
        watching = Watching(cluster)

        def stop(moment: str, checkpoint_id: int) -> None:
            if (moment, checkpoint_id) == ("before run_pipe", 3):
                cluster.masters[0].cancel(graceful=True)

        totals(env).print()
        env.from_collection([1]).name("few").print()
        with watched_steps(watching, stop), pytest.raises(JobCancelledError):
            env.execute("two sources")
    found = {
        vertex.job_vertex.name: vertex.state.name
        for vertex in watching.seen["before run_pipe", 3].vertices
    }
    assert found.pop("Source: numbers") == "RUNNING"
    assert "FINISHED" in found.values()
    assert "RUNNING" in found.values()


def test_a_job_that_is_done_has_finished_in_all_its_subtasks() -> None:
    env = environment(2)
    with MiniCluster() as cluster:
        env.from_collection([1, 2, 3]).key_by(lambda n: n).reduce(lambda a, b: a + b).print()
        env.execute("numbers")
    graph = cluster.masters[0].execution_graph
    assert (graph.status, set(all_states(graph))) == (J.FINISHED, {"FINISHED"})
    for vertex in LocalJobController(cluster.masters[0]).view().vertices():
        assert vertex.start_ms <= vertex.end_ms


def tasks_of(graph, place):
    vertex = graph.vertices[place]
    return [TaskId(vertex.id, each.subtask) for each in vertex.subtasks]


def test_a_part_of_the_job_starts_again_while_the_rest_goes_on(graph: ExecutionGraph) -> None:
    graph = follow(graph, J.RUNNING, 1)
    graph = deployed(graph, 2)
    everything = [task for place in range(len(graph.vertices)) for task in tasks_of(graph, place)]
    graph = running(graph, everything, 3)
    assert set(all_states(graph)) == {"RUNNING"}
    part = tasks_of(graph, 0)
    failure = TaskFailure(part[1], "it failed", None, "ValueError: 7", None)
    graph = restarted(graph, part, failure, 4)
    assert states(graph)[0] == ["SCHEDULED", "SCHEDULED"]
    assert set(states(graph)[1]) == {"RUNNING"}
    assert [each.history[-1].state for each in graph.vertices[0].subtasks] == [
        S.CANCELED,
        S.FAILED,
    ]
    assert graph.vertices[0].subtasks[1].history[-1].failure == "ValueError: 7"
    graph = running(deployed(graph, 5, part), part, 6)
    assert set(all_states(graph)) == {"RUNNING"}
    assert {each.current.attempt for each in graph.vertices[0].subtasks} == {1}
    assert {each.current.attempt for each in graph.vertices[1].subtasks} == {0}


def test_what_had_finished_runs_again_with_its_part_of_the_job(graph: ExecutionGraph) -> None:
    graph = running(deployed(follow(graph, J.RUNNING, 1), 2), tasks_of(graph, 0), 3)
    part = tasks_of(graph, 0)
    for task in part:
        graph = graph.transition(*task, S.FINISHED, 4)
    graph = restarted(graph, part, None, 5)
    assert states(graph)[0] == ["SCHEDULED", "SCHEDULED"]


def test_a_failure_is_remembered_with_its_time_class_and_subtask(graph):
    task = TaskId(graph.vertices[1].id, 1)
    error = ExecutionFailedError("epoch 1 failed")
    text = "Traceback (most recent call last):\n  File 'job.py', line 3\nshop.NoStock: none left\n  of it"
    error.__cause__ = TaskFailedError(TaskFailure(task, "failed", None, text, None))

    graph = follow(graph, J.RUNNING, 1)
    graph = follow(graph, J.FAILING, 7, error)
    graph = follow(graph, J.FAILED, 8, error)

    assert graph.failures == FailureHistory(
        (
            FailureEntry(
                timestamp=7,
                name="shop.NoStock",
                stacktrace=text,
                vertex=task.vertex,
                subtask=1,
                attempt=0,
                task=f"{graph.vertices[1].job_vertex.name} (2/2)",
            ),
        ),
        1,
    )


def test_a_failure_outside_of_tasks_is_remembered_too(graph):
    error = ExecutionFailedError("restoring failed")
    error.__cause__ = FileNotFoundError("no such file")

    graph = follow(graph, J.FAILED, 3, error)

    [entry] = graph.failures.entries
    assert (entry.timestamp, entry.name, entry.vertex) == (3, "FileNotFoundError", None)
    assert "no such file" in entry.stacktrace


def test_the_last_failures_are_remembered(graph):
    for time in range(KEPT_FAILURES + 3):
        graph = follow(graph, J.RUNNING, time)
        graph = follow(graph, J.FAILING, time, ExecutionFailedError(f"failure {time}"))
        graph = follow(graph, J.RESTARTING, time)

    kept = graph.failures

    assert [entry.timestamp for entry in kept.entries] == list(range(3, KEPT_FAILURES + 3))
    assert kept.count == KEPT_FAILURES + 3
