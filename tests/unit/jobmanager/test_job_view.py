"""The view of a job: what is collected when, and what is kept."""

from __future__ import annotations

from penstock.jobmanager.job_view import Lazy, SubtaskReport, VertexView
from penstock.runtime.task.shared.task_metrics import LatencyHistogram
from tests.builders.rest_fakes import FakeController


def test_a_part_is_collected_once_when_it_is_read():
    collected = []
    part = Lazy(lambda: collected.append(1) or "value")
    assert collected == []
    assert (part(), part(), collected) == ("value", "value", [1])


def test_a_part_that_could_not_be_collected_is_collected_again():
    attempts = iter([ValueError("not yet"), None])

    def collect():
        error = next(attempts)
        if error is not None:
            raise error
        return "value"

    part = Lazy(collect)
    try:
        part()
    except ValueError:
        assert part() == "value"
    else:
        raise AssertionError("the error is lost")


def test_a_collected_view_does_not_change():
    controller = FakeController()
    view = controller.view().collected()
    controller.vertices = []
    assert [vertex.id for vertex in view.vertices()] == ["v1", "v2"]
    assert controller.view().vertices() == ()


def test_a_report_has_the_metrics_of_the_subtask_and_its_operators_apart():
    operators = {"o1": {"seen": ("counter", 3)}}
    report = SubtaskReport(
        {"numRecordsIn": 3, "operators": operators, "latency": {"s": LatencyHistogram([1.0])}}
    )
    assert report.metrics == {"numRecordsIn": 3}
    assert report.operators == operators
    assert (report.number("numRecordsIn"), report.number("missing")) == (3, 0)
    latency = report.latencies["s"]
    assert latency["count"] == 1
    assert latency["min"] == latency["mean"] == latency["p99"] == latency["max"] > 0
    assert not SubtaskReport()


def test_a_subtask_that_has_not_reported_has_an_empty_report():
    vertex = FakeController.vertex("v", "map", 2, [], reports=(SubtaskReport({"a": 1}),))
    assert [bool(each) for each in vertex.all_reports()] == [True, False]
    assert not vertex.metrics.watermark
    assert isinstance(vertex, VertexView)
