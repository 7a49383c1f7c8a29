"""The ExecutionGraph follows the job's status."""

from __future__ import annotations

import pytest

from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.graph.execution_graph import generate
from penstock.graph.execution_state import ExecutionState
from penstock.jobmanager.execution_tracking import follow
from penstock.testing.mini_cluster import MiniCluster

J, S = JobStatus, ExecutionState


@pytest.fixture
def graph():
    with MiniCluster() as cluster:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([1]).print()
        env.execute("a job")
    return generate(cluster.masters[0].job.job_graph, job_id="j", now_ms=0)


WAYS = [
    pytest.param([J.RUNNING, J.FINISHED], S.FINISHED, id="a good life"),
    pytest.param([J.RUNNING, J.CANCELED], S.CANCELED, id="cancelled while it runs"),
    pytest.param([J.CANCELED], S.CANCELED, id="cancelled before it runs"),
    pytest.param([J.RUNNING, J.FAILED], S.FAILED, id="failed for good at once"),
    pytest.param([J.RUNNING, J.FAILING, J.FAILED], S.FAILED, id="failed for good"),
    pytest.param([J.RUNNING, J.FAILING, J.CANCELED], S.FAILED, id="cancelled while it fails"),
    pytest.param(
        [J.RUNNING, J.FAILING, J.RESTARTING, J.CANCELED], S.FAILED, id="cancelled before a restart"
    ),
    pytest.param(
        [J.RUNNING, J.FAILING, J.RESTARTING, J.RUNNING, J.FINISHED], S.FINISHED, id="restarted"
    ),
]


@pytest.mark.parametrize(("statuses", "state"), WAYS)
def test_every_way_to_an_end_is_allowed(graph, statuses, state) -> None:
    for moment, status in enumerate(statuses):
        graph = follow(graph, status, moment)
    assert graph.status is statuses[-1]
    assert {v.current.state for job in graph.vertices for v in job.subtasks} == {state}


def test_a_running_job_is_cancelling_before_it_is_canceled(graph) -> None:
    graph = follow(follow(graph, J.RUNNING, 1), J.CANCELED, 2)
    assert [status for status, _ in graph.timestamps][-2:] == [J.CANCELLING, J.CANCELED]
