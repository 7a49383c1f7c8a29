"""The states of subtasks in a long epoch come from Spark's own tasks, not from the plan."""

from __future__ import annotations

import time

from penstock.graph.execution_state import ExecutionState

SLOW_S = 4.0


def slowly(value):
    time.sleep(SLOW_S)
    return value


def test_a_subtask_runs_since_spark_has_started_its_task(env):
    env.set_parallelism(1)
    stream = env.from_collection([1]).map(slowly).key_by(lambda value: value)
    stream.map(lambda value: value).print()
    began = int(time.time() * 1000)
    client = env.execute_async("slow")
    master = client._controller.master
    client.get_job_execution_result().result(60)

    first, second = (vertex.subtasks[0].current for vertex in master.execution_graph.vertices)
    running = [each.timestamp(ExecutionState.RUNNING) for each in (first, second)]

    # The ACKs of both come at the end, at one moment: that would be the time of both.
    assert began <= running[0] <= running[1] - SLOW_S * 900
    assert first.state is second.state is ExecutionState.FINISHED
