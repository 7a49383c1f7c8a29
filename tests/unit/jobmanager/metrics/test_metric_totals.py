"""Metrics over completed checkpoints: subtasks that stay tell what they have counted so far, epochs tell their own part."""

from __future__ import annotations

from penstock.graph.task_id import TaskId
from penstock.jobmanager.metrics.metric_totals import MetricTotals
from penstock.runtime.network.messages import TaskAck


def ack(count, attempt="a", subtask=0, **more):
    metrics = {"map": {"seen": ("counter", count), **more}}
    return TaskAck(TaskId("v", subtask), attempt, {}, {}, b"", metrics=metrics)


def seen(totals):
    return totals.metrics["map"]["seen"][1]


def test_epochs_are_added_up():
    totals = MetricTotals()
    changes = [totals.take([ack(3, attempt)]) for attempt in ("a", "b", "c")]
    assert [each["map"]["seen"] for each in changes] == [3, 3, 3]
    assert seen(totals) == 9


def test_a_subtask_that_stays_tells_all_that_it_has_counted_so_far():
    totals = MetricTotals()
    changes = [totals.take([ack(count), ack(2 * count, subtask=1)]) for count in (3, 5)]
    assert [each["map"]["seen"] for each in changes] == [9, 6]
    assert seen(totals) == 15


def test_an_attempt_that_failed_counts_up_to_its_last_completed_checkpoint():
    totals = MetricTotals()
    totals.take([ack(3, "a")])
    assert totals.take([ack(4, "b")]) == {"map": {"seen": 4}}
    assert seen(totals) == 7


def test_subtasks_that_are_gone_after_a_change_of_parallelism_have_counted():
    totals = MetricTotals()
    totals.take([ack(3, subtask=0), ack(4, subtask=1)])
    totals.take([ack(1, "b", subtask=0)])
    assert seen(totals) == 8
    totals.take([ack(2, "c", subtask=0), ack(5, "c", subtask=1)])
    assert seen(totals) == 15


def test_gauges_show_the_last_value_and_distributions_grow():
    totals = MetricTotals()
    first = {"sum": 3, "count": 1, "min": 3, "max": 3}
    second = {"sum": 10, "count": 2, "min": 3, "max": 7}
    totals.take([ack(1, level=("gauge", 1), size=("distribution", first))])
    totals.take([ack(1, level=("gauge", 5), size=("distribution", second))])
    assert totals.metrics["map"]["level"] == ("gauge", 5)
    assert totals.metrics["map"]["size"] == ("distribution", second)
