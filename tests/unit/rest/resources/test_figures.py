"""Back-pressure and metrics of jobs over real HTTP."""

from __future__ import annotations

import pytest

from penstock.runtime.task.shared.task_metrics import LatencyHistogram
from tests.builders.rest_fakes import NOW

ID = "a" * 32
JOB = f"/v1/jobs/{ID}"


def reported(busy, back_pressured, **more):
    return {
        "busyTimeMsPerSecond": busy,
        "backPressuredTimeMsPerSecond": back_pressured,
        "idleTimeMsPerSecond": 1000 - busy - back_pressured,
        **more,
    }


FIRST = reported(300, 600, numRecordsIn=10, currentInputWatermark=7)
SECOND = reported(100, 0, numRecordsIn=20, currentInputWatermark=8)


@pytest.fixture
def pipelined(controller):
    controller.report(0, FIRST, SECOND)
    return controller


def test_the_back_pressure_of_a_vertex_has_flinks_shape(ask, pipelined):
    status, content = ask("GET", f"{JOB}/vertices/v1/backpressure")
    assert status == 200
    assert (content["status"], content["backpressureLevel"], content["end-timestamp"]) == (
        "ok",
        "high",
        NOW,
    )
    assert content["subtasks"][1] == {
        "subtask": 1,
        "attempt-number": 1,
        "backpressureLevel": "ok",
        "backpressure-level": "ok",
        "ratio": 0.0,
        "idleRatio": 0.9,
        "busyRatio": 0.1,
    }


def test_a_vertex_that_runs_in_epochs_has_no_back_pressure_to_show(ask, controller):
    assert ask("GET", f"{JOB}/vertices/v1/backpressure") == (200, {"status": "deprecated"})
    assert ask("GET", f"{JOB}/vertices/v1/metrics") == (200, [])
    metrics = ask("GET", JOB)[1]["vertices"][0]["metrics"]
    assert (metrics["read-records"], metrics["read-records-complete"]) == (0, False)


def test_metrics_of_a_vertex_are_listed_chosen_and_added_up(ask, pipelined):
    assert ask("GET", f"{JOB}/vertices/v1/watermarks") == (
        200,
        [
            {"id": "0.currentInputWatermark", "value": "7"},
            {"id": "1.currentInputWatermark", "value": "8"},
        ],
    )
    _, known = ask("GET", f"{JOB}/vertices/v1/metrics")
    assert {"id": "1.numRecordsIn"} in known
    chosen = ask("GET", f"{JOB}/vertices/v1/metrics?get=1.numRecordsIn")
    assert chosen == (200, [{"id": "1.numRecordsIn", "value": "20"}])
    both = f"{JOB}/vertices/v1/subtasks/metrics?get=numRecordsIn"
    figures = {"min": 10, "max": 20, "sum": 30, "avg": 15.0, "skew": pytest.approx(33.3, abs=0.1)}
    assert ask("GET", both) == (200, [{"id": "numRecordsIn", **figures}])
    assert ask("GET", f"{both}&agg=sum") == (200, [{"id": "numRecordsIn", "sum": 30}])
    assert ask("GET", f"{both}&agg=median")[0] == 400
    assert ask("GET", f"{both}&agg=sum&subtasks=1-7") == (200, [{"id": "numRecordsIn", "sum": 20}])
    assert ask("GET", f"{both}&subtasks=one")[0] == 400
    one = f"{JOB}/vertices/v1/subtasks/1/metrics"
    assert {"id": "numRecordsIn"} in ask("GET", one)[1]
    assert ask("GET", f"{one}?get=numRecordsIn,nothing") == (
        200,
        [{"id": "numRecordsIn", "value": "20"}],
    )
    assert ask("GET", f"{JOB}/vertices/v1/subtasks/2/metrics")[0] == 404
    assert ask("GET", f"{JOB}/vertices/v1/jm-operator-metrics") == (200, [])


def test_metrics_of_operators_have_the_name_of_the_operator_before_them(ask, pipelined):
    first, second = [
        {
            "o1": {
                "seen": ("counter", 3),
                "level": ("gauge", "high"),
                "rate": ("meter", {"count": 9, "rate": 1.5}),
                "sizes": ("distribution", {"count": 2, "sum": 5, "min": 1, "max": 4}),
                "topic.a.lag": ("gauge", 7, "topic.lag", (("topic", "a"),)),
            }
        },
        {"o1": {"seen": ("counter", 4)}},
    ]
    pipelined.report(0, {**FIRST, "operators": first}, {**SECOND, "operators": second})
    prefix = "Source__clicks."
    names = ["seen", "level", "rate", "sizes_min", "sizes_mean", "topic.a.lag"]
    wanted = ",".join(f"0.{prefix}{name}" for name in names)
    _, found = ask("GET", f"{JOB}/vertices/v1/metrics?get={wanted}")
    assert [each["value"] for each in found] == ["3", "high", "1.5", "1", "2.5", "7"]
    both = f"{JOB}/vertices/v1/subtasks/metrics"
    assert ask("GET", f"{both}?get={prefix}seen&agg=sum") == (
        200,
        [{"id": f"{prefix}seen", "sum": 7}],
    )
    _, numbers = ask("GET", both)
    assert {"id": f"{prefix}rate"} in numbers
    assert {"id": f"{prefix}level"} not in numbers  # a text cannot be added up


def test_figures_of_a_job_are_listed_chosen_and_added_up_over_jobs(ask, controller):
    controller.statistics.on_trigger(1, {"v1": 2}, NOW - 100)
    controller.statistics.on_fail(1, "too slow", NOW)
    _, known = ask("GET", f"{JOB}/metrics")
    assert {"id": "lastCheckpointDuration"} in known
    chosen = ask("GET", f"{JOB}/metrics?get=numberOfFailedCheckpoints,lastCheckpointDuration")
    assert chosen == (
        200,
        [
            {"id": "numberOfFailedCheckpoints", "value": "1"},
            {"id": "lastCheckpointDuration", "value": "-1"},
        ],
    )
    every = ask("GET", "/jobs/metrics?get=numberOfFailedCheckpoints&agg=sum")
    assert every == (200, [{"id": "numberOfFailedCheckpoints", "sum": 1}])
    assert ask("GET", "/jobs/metrics?get=numRestarts&jobs=unknown")[0] == 404


def test_latencies_of_a_job_are_reported_by_source_and_target(ask, controller):
    latencies = LatencyHistogram([12.5] * 3)
    controller.report(1, {}, {"latency": {"v1": latencies}}, {})
    name = "latency.source_id.o1.operator_id.o2.operator_subtask_index.1.latency_p99"
    assert ask("GET", f"{JOB}/metrics?get={name}") == (
        200,
        [{"id": name, "value": str(latencies.to_json()["p99"])}],
    )


def test_a_pipelined_job_shows_what_its_vertices_have_read_and_how_busy_they_are(ask, pipelined):
    _, job = ask("GET", JOB)
    metrics = job["vertices"][0]["metrics"]
    assert (metrics["read-records"], metrics["read-records-complete"]) == (30, True)
    assert (metrics["busy-ratio"], metrics["backpressured-ratio"]) == (0.2, 0.3)
    _, vertex = ask("GET", f"{JOB}/vertices/v1")
    assert [each["metrics"]["read-records"] for each in vertex["subtasks"]] == [10, 20]
