"""The states of subtasks in a long epoch come from Spark's own tasks, not from the plan."""

from __future__ import annotations

import time
from pathlib import Path

from penstock.jobmanager.execution.execution_state import ExecutionState
from tests.builders.waiting import wait_until


class WaitsFor:
    """Passes a record on when there is a file."""

    def __init__(self, file):
        self.file = str(file)

    def __call__(self, value):
        while not Path(self.file).exists():
            time.sleep(0.01)
        return value


def test_a_subtask_runs_since_spark_has_started_its_task(env, tmp_path):
    env.set_parallelism(1)
    released = tmp_path / "released"
    stream = env.from_collection([1]).map(WaitsFor(released)).key_by(lambda value: value)
    stream.map(lambda value: value).print()
    began = int(time.time() * 1000)
    client = env.execute_async("slow")

    def executions():
        vertices = client._controller.master.execution_graph.vertices
        return [vertex.subtasks[0].current for vertex in vertices]

    # The ACKs of both come at the end, at one moment: what is known before comes from Spark.
    wait_until(lambda: executions()[0].state is ExecutionState.RUNNING)
    first, second = executions()
    assert second.state is not ExecutionState.RUNNING
    began_first = first.timestamp(ExecutionState.RUNNING)
    let_go = int(time.time() * 1000)
    released.touch()
    client.get_job_execution_result().result(120)

    first, second = executions()
    assert first.timestamp(ExecutionState.RUNNING) == began_first
    assert began <= began_first <= let_go <= second.timestamp(ExecutionState.RUNNING)
    assert first.state is second.state is ExecutionState.FINISHED
