"""Metrics for Prometheus have the names, labels and kinds that Flink's reporter gives them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.common.job_status import JobStatus
from penstock.rest.reporters.prometheus import expose
from penstock.rest.reporters.samples import samples
from penstock.runtime.task.shared.task_metrics import LatencyHistogram
from tests.builders.rest_fakes import NOW, FakeController

REPORT = {
    "numRecordsIn": 10,
    "busyTimeMsPerSecond": 300,
    "buffers.inPoolUsage": 0.5,
    "currentInputWatermark": NOW,
    "operators": {
        "o1": {
            "numRecordsIn": ("counter", 10),
            "numRecordsInPerSecond": ("meter", {"count": 10, "rate": 2.5}),
            "shop.sizes": ("distribution", {"count": 2, "sum": 5, "min": 1, "max": 4}),
            "level": ("gauge", 7),
            "state": ("gauge", "open"),
            "topic.my orders.lag": ("gauge", 3, "topic.lag", (("topic", "my orders"),)),
        }
    },
    "latency": {"v1": LatencyHistogram([1.0] * 99 + [50.0])},
    "process": {"host": "machine", "pid": 7, "Status.JVM.CPU.Load": 0.25},
}


@pytest.fixture
def controller():
    found = FakeController(name="my job")
    found.report(0, REPORT, {**REPORT, "numRecordsIn": 20})
    return found


def exposed(controller, accepts="", **options):
    process = {"host": "driver", "Status.JVM.Threads.Count": 9}
    cluster = {"taskSlotsTotal": 8, "taskSlotsAvailable": 3, "numRegisteredTaskManagers": 1}
    found = samples([controller.view()], NOW, process, cluster)
    content, media_type = expose(found, accepts, **options)
    return content.decode(), media_type


@pytest.fixture
def families(controller):
    text, _ = exposed(controller)
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_a_subtask_has_flinks_names_and_labels(families, controller):
    family = families["flink_taskmanager_job_task_numRecordsIn"]
    assert family.type == "gauge"  # as Flink's counters are: no _total
    assert family.documentation == "numRecordsIn (scope: taskmanager_job_task)"
    assert [(each.labels["subtask_index"], each.value) for each in family.samples] == [
        ("0", 10),
        ("1", 20),
    ]
    assert family.samples[0].labels == {
        "host": "machine",
        "tm_id": "machine_7",
        "job_id": str(controller.job_id),
        "job_name": "my_job",
        "task_id": "v1",
        "task_name": "Source:_clicks",
        "subtask_index": "0",
        "task_attempt_num": "1",
    }
    pool = families["flink_taskmanager_job_task_buffers_inPoolUsage"]
    assert pool.documentation == "inPoolUsage (scope: taskmanager_job_task_buffers)"


def test_operators_have_their_own_labels_and_keys_of_groups_are_labels_too(families):
    operator = "flink_taskmanager_job_task_operator"
    sample = families[f"{operator}_numRecordsIn"].samples[0]
    assert (sample.labels["operator_id"], sample.labels["operator_name"]) == (
        "o1",
        "Source:_clicks",
    )
    assert families[f"{operator}_numRecordsInPerSecond"].samples[0].value == 2.5
    lag = families[f"{operator}_topic_lag"].samples[0]
    assert (lag.value, lag.labels["topic"]) == (3, "my_orders")
    figures = {
        name: families[f"{operator}_shop_sizes_{name}"].samples[0].value
        for name in ("count", "sum", "min", "max", "mean")
    }
    assert figures == {"count": 2, "sum": 5, "min": 1, "max": 4, "mean": 2.5}
    assert f"{operator}_state" not in families  # a text


def test_latencies_are_a_summary(families):
    name = "flink_taskmanager_job_latency_source_id_operator_id_operator_subtask_index_latency"
    family = families[name]
    assert family.type == "summary"
    first = [each for each in family.samples if each.labels["operator_subtask_index"] == "0"]
    quantiles = {each.labels["quantile"]: each.value for each in first if "quantile" in each.labels}
    assert quantiles["0.5"] == pytest.approx(1, rel=0.05)
    assert quantiles["0.999"] == pytest.approx(50, rel=0.05)
    assert [each.value for each in first if each.name.endswith("_count")] == [100]


def test_jobs_and_processes_have_figures_of_their_own(families):
    assert families["flink_jobmanager_numRunningJobs"].samples[0].value == 1
    restarts = families["flink_jobmanager_job_numRestarts"].samples[0]
    assert restarts.labels["job_name"] == "my_job"
    assert families["flink_jobmanager_job_lastCheckpointDuration"].samples[0].value == -1
    assert families["flink_jobmanager_Status_JVM_Threads_Count"].samples[0].value == 9
    slots = [
        families[f"flink_jobmanager_taskSlots{each}"].samples[0].value
        for each in ("Total", "Available")
    ]
    assert slots == [8, 3]
    assert families["flink_jobmanager_numRegisteredTaskManagers"].samples[0].value == 1
    (load,) = families["flink_taskmanager_Status_JVM_CPU_Load"].samples  # of both subtasks once
    assert load.labels == {"host": "machine", "tm_id": "machine_7"}


def test_values_of_labels_stay_as_they_are_where_that_is_wanted(controller):
    text, _ = exposed(controller, filters=False)
    assert 'job_name="my job"' in text
    assert 'task_name="Source: clicks"' in text


def test_a_client_that_wants_openmetrics_gets_it(controller):
    text, media_type = exposed(controller, "application/openmetrics-text; version=1.0.0")
    assert media_type.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


def test_an_ended_job_tells_that_it_has_ended_and_nothing_of_its_subtasks(controller):
    job = replace(controller.view(), end_ms=NOW, status=JobStatus.FINISHED)
    content, _ = expose(samples([job], NOW, {}), "")
    assert b"flink_taskmanager_job_task" not in content
    assert b'flink_jobmanager_numRunningJobs{host=""} 0.0' in content


def test_names_that_become_the_same_are_reported_once(controller):
    operators = {"o1": {"a.b": ("gauge", 1), "a_b": ("gauge", 2)}}
    controller.report(0, {"numRecordsIn": 1, "operators": operators})
    text, _ = exposed(controller)
    lines = [
        line
        for line in text.splitlines()
        if line.startswith("flink_taskmanager_job_task_operator_a_b")
    ]
    assert len(lines) == 1
