"""Whole jobs that are looked at while they run: what a slot tells about itself, also when user code keeps it."""

from __future__ import annotations

import logging
import threading

import pytest

from penstock.datastream import MapFunction
from penstock.errors import ArgumentError, JobRequestError, UnsupportedOperationError
from penstock.graph.task_id import TaskId
from penstock.rest.services.flame_graphs import FlameGraphs, FlameGraphType, FlameNode
from penstock.runtime.inspection.requests import LogTail, SlotId, StackSamples, ThreadDump
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.waiting import wait_until

TIMEOUT_S = 60
ENTERED = threading.Event()
LET_GO = threading.Event()


class StuckUntilLetGo(MapFunction):
    """Waits in user code until the test lets it go."""

    def map(self, value):
        ENTERED.set()
        assert LET_GO.wait(TIMEOUT_S)
        return value


class SpinsUntilLetGo(MapFunction):
    """Works in user code until the test lets it go."""

    def map(self, value):
        logging.getLogger("of the user").warning("spinning for %s", value)
        ENTERED.set()
        while not LET_GO.is_set():
            sum(range(100))
        return value


@pytest.fixture
def start():
    """Starts a job that is in user code when it returns."""
    started = []

    def run(function):
        ENTERED.clear()
        LET_GO.clear()
        with MiniCluster("pipelined"):
            env = configured({}, 1)
            env.from_collection([1]).key_by(lambda n: n).map(function).print()
            client = env.execute_async("watched")
        started.append(client)
        controller = client._controller
        assert ENTERED.wait(TIMEOUT_S)
        wait_until(lambda: controller.slots())  # the driver hears of it a moment later
        return controller, client

    yield run
    LET_GO.set()
    for client in started:
        client.get_job_execution_result().result(TIMEOUT_S)


def task_of(controller, part):
    """The only task of the vertex that has this in its name."""
    vertices = controller.master.job.plan.vertices
    return TaskId(next(v.id for v in vertices if part in v.name), 0)


def test_a_thread_dump_shows_where_user_code_is_stuck(start):
    controller, _ = start(StuckUntilLetGo())
    task = task_of(controller, "Map")
    threads = controller.inspect(task, ThreadDump()).result(TIMEOUT_S)
    assert [each.runs_tasks for each in threads].count(True) == 1
    assert threads[0].runs_tasks
    stack = "\n".join(threads[0].stack)
    assert "StuckUntilLetGo.map" in stack
    assert "test_inspection.py" in stack
    assert threads[0].stack[0].startswith("threading.")  # innermost first: Condition.wait


def test_samples_of_a_stuck_task_show_it_waiting(start):
    controller, _ = start(StuckUntilLetGo())
    task = task_of(controller, "Map")
    stacks = controller.inspect(task, StackSamples(10, 5, task)).result(TIMEOUT_S)
    assert stacks.samples == 10
    ((stack, (on, off)),) = stacks.counts.items()
    assert (on, off) == (0, 10)
    assert stack[0].startswith("penstock.runtime.task.pipelined.pipelined_slot.SlotLoop.turn:")
    assert any("StuckUntilLetGo.map:" in each for each in stack)


def test_samples_of_a_busy_task_show_it_on_a_processor(start):
    controller, _ = start(SpinsUntilLetGo())
    task = task_of(controller, "Map")

    seen = []

    def is_seen_on_a_processor():
        stacks = controller.inspect(task, StackSamples(50, 2, task)).result(TIMEOUT_S)
        seen.extend(
            on
            for stack, (on, _) in stacks.counts.items()
            if any("SpinsUntilLetGo.map" in each for each in stack)
        )
        return sum(seen) > 10

    # Other threads of this process have the interpreter's lock in between, for long where others have the processors.
    wait_until(is_seen_on_a_processor)


def test_samples_of_another_task_of_the_same_slot_leave_out_what_is_not_its_own(start):
    controller, _ = start(StuckUntilLetGo())
    other = task_of(controller, "Source")
    stacks = controller.inspect(other, StackSamples(5, 5, other)).result(TIMEOUT_S)
    assert stacks.samples == 5
    assert stacks.counts == {}


def test_the_log_of_a_slot_can_be_read_and_followed(start):
    controller, _ = start(SpinsUntilLetGo())
    (slot,) = controller.slots()
    assert slot.id == SlotId(0, 0)
    assert set(slot.tasks) == {task_of(controller, "Map"), task_of(controller, "Source")}
    lines = controller.inspect(slot.id, LogTail()).result(TIMEOUT_S)
    assert lines.lines[-1].endswith("subtask 1/1, attempt 0] - spinning for 1")
    logging.getLogger("of the user").warning("one more")
    more = controller.inspect(slot.id, LogTail(after=lines.last)).result(TIMEOUT_S)
    assert [line.rpartition(" - ")[2] for line in more.lines] == ["one more"]
    assert more.last == lines.last + 1


def test_a_slot_knows_no_request_but_those_of_the_fixed_set(start):
    controller, _ = start(StuckUntilLetGo())
    task = task_of(controller, "Map")

    class Unknown:
        """An unexpected request."""

        seconds = 0.0

    with pytest.raises(JobRequestError, match="unknown inspection request"):
        controller.inspect(task, Unknown()).result(TIMEOUT_S)


def test_a_task_that_does_not_run_is_refused(start):
    controller, client = start(StuckUntilLetGo())
    with pytest.raises(JobRequestError, match=r"task nothing\[7\] is not running"):
        controller.inspect(TaskId("nothing", 7), ThreadDump()).result(TIMEOUT_S)
    LET_GO.set()
    client.get_job_execution_result().result(TIMEOUT_S)
    with pytest.raises(JobRequestError, match="has ended"):
        controller.inspect(SlotId(0, 0), ThreadDump()).result(TIMEOUT_S)


def test_a_question_whose_slot_ends_is_answered_with_an_error(start):
    controller, client = start(StuckUntilLetGo())
    asked = controller.inspect(SlotId(0, 0), StackSamples(1000, 50))
    LET_GO.set()
    client.get_job_execution_result().result(TIMEOUT_S)
    with pytest.raises(JobRequestError):
        asked.result(TIMEOUT_S)


def test_a_job_in_epochs_says_that_it_cannot_be_looked_at():
    with MiniCluster("epochs"):
        env = configured({}, 1)
        env.from_collection([1]).print()
        client = env.execute_async("epochs")
        controller = client._controller
        asked = controller.inspect(SlotId(0, 0), ThreadDump())
        with pytest.raises((UnsupportedOperationError, JobRequestError), match=r"epoch mode|ended"):
            asked.result(TIMEOUT_S)
        assert controller.slots() == []
        client.get_job_execution_result().result(TIMEOUT_S)


@pytest.mark.parametrize(
    ("samples", "interval"), [(0, 10), (10_000, 1), (10, 0.5), (100, 1000)], ids=str
)
def test_samples_that_would_take_too_long_are_refused(samples, interval):
    with pytest.raises(ArgumentError, match="samples"):
        StackSamples(samples, interval)


def test_the_flame_graph_of_a_running_job_has_the_users_function(start):
    controller, _ = start(StuckUntilLetGo())
    graphs = FlameGraphs(samples=10)

    def graph_of_map():
        return graphs.get(controller, [task_of(controller, "Map")], FlameGraphType.OFF_CPU, 10**12)

    graph = wait_until(
        lambda: found if isinstance((found := graph_of_map()).data, FlameNode) else None
    )
    names = []
    node = graph.data
    while node.children:
        (node,) = node.children
        names.append(node.name)
    assert any(".StuckUntilLetGo.map:" in name for name in names)
    assert graph.data.value == 10
