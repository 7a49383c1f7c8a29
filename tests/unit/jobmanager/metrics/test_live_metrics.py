"""What the subtasks of pipelined jobs have reported, added up by vertex and job."""

from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.task_id import TaskId
from penstock.jobmanager.metrics.live_metrics import (
    LATENCY_WINDOW_MS,
    LiveMetrics,
)
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task.pipelined.slot_messages import SlotReport
from penstock.runtime.task.shared.task_metrics import LatencyHistogram, merged

SOURCE, SINK = "source", "sink"


def report(slot, **by_vertex):
    return SlotReport(slot, {TaskId(vertex, slot): each for vertex, each in by_vertex.items()})


def working(busy, back_pressured=0, **more):
    idle = 1000 - busy - back_pressured
    return {
        "busyTimeMsPerSecond": busy,
        "backPressuredTimeMsPerSecond": back_pressured,
        "idleTimeMsPerSecond": idle,
        **more,
    }


def test_shares_are_those_of_the_worst_subtask_and_rates_are_sums():
    live = LiveMetrics()
    live.take(report(0, source=working(200, 500, numRecordsInPerSecond=10)), 0)
    live.take(report(1, source=working(600, 0, numRecordsInPerSecond=30)), 0)
    found = live.vertex(SOURCE)
    assert (found.busy, found.back_pressured, found.idle) == pytest.approx((0.6, 0.5, 0.3))
    assert (found.records_in, found.reported) == (40, 2)


def test_the_watermark_of_a_vertex_is_the_lowest_and_unknown_while_a_subtask_has_none():
    live = LiveMetrics()
    live.take(report(0, sink={"currentInputWatermark": 7}), 0)
    live.take(report(1, sink={"currentInputWatermark": -(2**63)}), 0)
    assert live.vertex(SINK).watermark is None
    live.take(report(1, sink={"currentInputWatermark": 5}), 1)
    assert live.vertex(SINK).watermark == 5


def test_a_report_takes_the_place_of_the_one_before():
    live = LiveMetrics()
    live.take(report(0, source=working(900)), 0)
    live.take(report(0, source=working(100)), 1000)
    assert live.vertex(SOURCE).busy == pytest.approx(0.1)


def test_what_subtasks_of_one_slot_use_of_its_thread_adds_up_and_the_busiest_slot_counts():
    live = LiveMetrics()
    assert live.take_busy_share() is None
    live.take(report(0, source=working(300), sink=working(400)), 0)
    live.take(report(0, source=working(100), sink=working(200)), 1000)
    live.take(report(1, source=working(100), sink=working(100)), 1000)
    assert live.take_busy_share() == pytest.approx(0.5)


def test_where_no_report_came_since_the_last_question_the_share_is_what_it_was():
    live = LiveMetrics()
    live.take(report(0, source=working(300)), 0)
    assert live.take_busy_share() == live.take_busy_share() == pytest.approx(0.3)


def test_reports_of_subtasks_that_have_ended_are_forgotten():
    live = LiveMetrics()
    live.take(report(0, source=working(300), sink=working(1)), 0)
    live.forget([TaskId(SOURCE, 0)])
    assert not live.subtask(TaskId(SOURCE, 0))
    assert live.subtask(TaskId(SINK, 0))
    live.forget()
    assert live.empty
    assert live.take_busy_share() is None


def test_latencies_of_the_last_seconds_count_at_the_vertices_that_are_asked_for():
    live = LiveMetrics()

    def arrived(now, millis, vertex=SINK):
        histogram = {"latency": {SOURCE: LatencyHistogram([millis] * 10)}}
        live.take(SlotReport(0, {TaskId(vertex, 0): histogram}), now)

    arrived(0, 500.0)
    arrived(1000, 2.0)
    arrived(1000, 0.1, vertex="in between")
    assert live.latency([SINK]).quantile(0.99) == pytest.approx(500, rel=0.05)
    arrived(1000 + LATENCY_WINDOW_MS, 2.0)
    assert live.latency([SINK]).quantile(0.99) == pytest.approx(2, rel=0.05)


@given(st.lists(st.floats(0.02, 1e6), min_size=1), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_a_quantile_is_that_of_the_latencies_but_for_the_width_of_a_bucket(latencies, share):
    place = max(math.ceil(share * len(latencies)) - 1, 0)
    expected = sorted(latencies)[place]
    found = pickle.loads(pickle.dumps(LatencyHistogram(latencies)))
    assert found.quantile(share) == pytest.approx(expected, rel=0.03)


def test_histograms_of_several_subtasks_count_together():
    parts = [LatencyHistogram([1.0, 2.0]), LatencyHistogram([3.0])]
    assert merged(parts) == LatencyHistogram([1.0, 2.0, 3.0])
    assert merged([]).quantile(0.5) == 0.0


def test_a_latency_that_clocks_of_two_machines_make_negative_took_no_time():
    assert LatencyHistogram([-5.0]).quantile(0.5) < 0.02


def checkpoint_id(records, busy_ms, **measured):
    operators = {"o1": {"numRecordsOut": ("counter", records), **measured}}
    report = {
        "numRecordsIn": records,
        "accumulateBusyTimeMs": busy_ms,
        "chainShares": [0.75, 0.25],
        "operators": operators,
    }
    return TaskAck(TaskId(SOURCE, 0), "attempt", {}, {}, b"", report=report)


def test_what_subtasks_of_epochs_counted_adds_up_and_rates_are_those_of_the_last_one():
    live = LiveMetrics()
    live.take_final_reports(
        [checkpoint_id(100, 500, seen=("counter", 1), numLateRecordsDropped=("counter", 2))], 1.0
    )
    live.take_final_reports(
        [checkpoint_id(50, 500, seen=("counter", 4), numLateRecordsDropped=("counter", 3))], 2.0
    )
    report = live.subtask(TaskId(SOURCE, 0))
    assert (report["numRecordsIn"], report["numRecordsInPerSecond"]) == (150, 25)
    assert report["accumulateBusyTimeMs"] == 1000
    shares = [report[f"{each}TimeMsPerSecond"] for each in ("busy", "backPressured", "idle")]
    assert shares == [250, 0, 750]
    assert report["numLateRecordsDropped"] == 5
    measured = report["operators"]["o1"]
    assert measured["seen"] == ("counter", 5)
    assert measured["numRecordsOutPerSecond"] == ("meter", {"count": 150, "rate": 25.0})
    assert measured["busyTimeMsPerSecond"] == ("gauge", 187.5)
    assert report["exchangeTimeMsPerSecond"] == 62.5
    assert live.vertex(SOURCE).busy == pytest.approx(0.25)
    assert not live.pipelined
    assert live.take_busy_share() is None  # the autoscaler knows epochs by their duration


def test_a_job_that_changes_its_mode_forgets_the_reports_of_the_other_one():
    live = LiveMetrics()
    live.take_final_reports([checkpoint_id(100, 500)], 1.0)
    live.take(report(0, sink=working(300)), 0)
    assert live.pipelined
    assert not live.subtask(TaskId(SOURCE, 0))
    live.take_final_reports([checkpoint_id(7, 500)], 1.0)
    assert not live.subtask(TaskId(SINK, 0))
    assert live.subtask(TaskId(SOURCE, 0))["numRecordsIn"] == 7
