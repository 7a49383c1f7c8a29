"""The Grafana dashboard shows something in every panel: a real Prometheus has answers to all that it asks, of a running job."""

from __future__ import annotations

import re

import pytest

from penstock.rest import publish
from penstock.testing import MiniCluster
from tests.builders.measured_job import measured_environment
from tests.builders.waiting import wait_until
from tools import gen_grafana
from tools.servers.prometheus import PrometheusServer

# What dashboards that others made for Flink ask for.
ASKED_BY_OTHERS = (
    "flink_jobmanager_job_uptime",
    "flink_jobmanager_job_numRestarts",
    "flink_jobmanager_job_fullRestarts",
    "flink_jobmanager_job_lastCheckpointSize",
    "flink_jobmanager_job_lastCheckpointDuration",
    "flink_jobmanager_job_numberOfCompletedCheckpoints",
    "flink_jobmanager_job_numberOfFailedCheckpoints",
    "flink_jobmanager_job_numberOfInProgressCheckpoints",
    "flink_jobmanager_job_totalNumberOfCheckpoints",
    "flink_jobmanager_numRegisteredTaskManagers",
    "flink_jobmanager_numRunningJobs",
    "flink_jobmanager_taskSlotsAvailable",
    "flink_jobmanager_taskSlotsTotal",
    "flink_jobmanager_Status_JVM_CPU_Load",
    "flink_jobmanager_Status_JVM_Memory_Heap_Used",
    "flink_jobmanager_Status_JVM_Threads_Count",
    "flink_taskmanager_Status_JVM_CPU_Load",
    "flink_taskmanager_Status_JVM_Memory_Heap_Used",
    "flink_taskmanager_job_task_backPressuredTimeMsPerSecond",
    "flink_taskmanager_job_task_buffers_inPoolUsage",
    "flink_taskmanager_job_task_buffers_inputQueueLength",
    "flink_taskmanager_job_task_buffers_outPoolUsage",
    "flink_taskmanager_job_task_buffers_outputQueueLength",
    "flink_taskmanager_job_task_busyTimeMsPerSecond",
    "flink_taskmanager_job_task_currentInputWatermark",
    "flink_taskmanager_job_task_idleTimeMsPerSecond",
    "flink_taskmanager_job_task_numBytesIn",
    "flink_taskmanager_job_task_numBytesOut",
    "flink_taskmanager_job_task_numRecordsIn",
    "flink_taskmanager_job_task_numRecordsInPerSecond",
    "flink_taskmanager_job_task_numRecordsOut",
    "flink_taskmanager_job_task_numRecordsOutPerSecond",
    "flink_taskmanager_job_task_operator_currentInputWatermark",
    "flink_taskmanager_job_task_operator_currentOutputWatermark",
    "flink_taskmanager_job_task_operator_numLateRecordsDropped",
    "flink_taskmanager_job_task_operator_numRecordsIn",
    "flink_taskmanager_job_task_operator_numRecordsInPerSecond",
    "flink_taskmanager_job_task_operator_numRecordsOut",
    "flink_taskmanager_job_task_operator_numRecordsOutPerSecond",
    "flink_taskmanager_job_task_operator_watermarkLag",
)


@pytest.fixture
def prometheus(publisher, tmp_path):
    """A Prometheus that scrapes a running job."""
    env = measured_environment(
        tmp_path, **{"metrics.reporters": "prom", "metrics.reporter.prom.port": "0"}
    )
    with MiniCluster("pipelined"):
        job = env.execute_async("measured")
        publish.publish(job._controller, env.get_configuration())
        publisher.settle()
        port = publisher.endpoint.reporters._running["prom"].port
        server = PrometheusServer(f"127.0.0.1:{port}").start()
        yield server
        server.close()
        job.cancel().exception(60)


def test_every_panel_has_something_to_show_and_so_have_dashboards_for_flink(prometheus):
    expressions = {
        target["expr"]: panel["title"]
        for panel in gen_grafana.dashboard()["panels"]
        for target in panel.get("targets", ())
    }
    assert len(expressions) > 25

    def empty():
        return [
            (title, expression)
            for expression, title in expressions.items()
            if not prometheus.query(expression.replace("$job_id", ".*").replace("$task", ".*"))
        ]

    wait_until(lambda: not empty())
    known = set(prometheus.series("__name__"))
    assert [name for name in ASKED_BY_OTHERS if name not in known] == []
    assert prometheus.query('flink_taskmanager_job_task_operator_topic_orders{topic="orders"}')


def test_the_file_is_what_the_tool_writes_and_panels_do_not_lie_on_each_other():
    assert gen_grafana.TARGET.read_text() == gen_grafana.text(), "python -m tools.gen_grafana"
    panels = gen_grafana.dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    for panel in panels:
        for target in panel.get("targets", ()):
            for variable in re.findall(r"\$(\w+)", target["expr"]):
                assert variable in {"job_id", "task"}
