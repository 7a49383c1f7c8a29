"""Tasks of a job on Spark are looked at while they run: they are other processes."""

from __future__ import annotations

import os
import signal

import pytest

from penstock.errors import JobRequestError
from penstock.graph.task_id import TaskId
from penstock.runtime.inspection.requests import (
    KeySamples,
    ProcessDetails,
    StackSamples,
    TaskDetails,
    ThreadDump,
)
from tests.spark.pipelined_jobs import (
    SHORT_HEARTBEATS,
    checkpoints,
    master_of,
    process_of,
    start,
)

TIMEOUT_S = 60


@pytest.fixture
def client(tmp_path):
    """A job of one region."""
    running = start(tmp_path, "a", **SHORT_HEARTBEATS)
    checkpoints(running, 1)
    yield running
    running.cancel().result()


def test_a_worker_tells_its_stacks_threads_memory_keys_and_states(client, tmp_path):
    controller = client._controller
    (slot,) = controller.slots()
    worker = process_of(tmp_path, "a")
    assert slot.process == worker != os.getpid()
    counting = next(
        vertex for vertex in master_of(client).job.plan.vertices if "KEYED PROCESS" in vertex.name
    )
    task = TaskId(counting.id, 0)

    def ask(request):
        return controller.inspect(task, request).result(TIMEOUT_S)

    facts = ask(ProcessDetails())
    assert facts.process == worker
    assert facts.memory > 1 << 20
    threads = ask(ThreadDump())
    assert threads[0].runs_tasks
    assert any("SlotLoop" in line for line in threads[0].stack)
    assert not any("pytest" in line for each in threads for line in each.stack)
    stacks = ask(StackSamples(20, 5))
    assert stacks.samples == 20
    assert sum(map(sum, stacks.counts.values())) == 20
    assert ask(KeySamples(task, 10, keys=10)).sampled >= 10
    assert {each.name for each in ask(TaskDetails(task)).states} == {"count"}


def test_a_question_to_a_frozen_worker_is_given_up_when_it_is(client, tmp_path):
    controller = client._controller
    (slot,) = controller.slots()
    os.kill(process_of(tmp_path, "a"), signal.SIGSTOP)
    asked = controller.inspect(slot.id, ThreadDump())
    with pytest.raises(JobRequestError):
        asked.result(TIMEOUT_S)
    checkpoints(client, 3)  # another worker goes on
    (after,) = controller.slots()
    assert after.process != slot.process
    assert controller.inspect(after.id, ThreadDump()).result(TIMEOUT_S)
