"""Metrics: counted per epoch in tasks, added up on the driver."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.runtime.metrics import OperatorMetricGroup, SlidingMeter, added, merge


def test_a_group_reports_all_metrics_under_their_full_names():
    group = OperatorMetricGroup()
    group.counter("seen").inc(3)
    group.counter("seen").dec()
    group.add_group("db").add_group("table", "users").counter("rows").inc()
    group.add_group("db").distribution("size").update(7)
    group.meter("rate").mark_event(2)
    group.gauge("level", lambda: 42)
    assert group.report() == {
        "seen": ("counter", 2),
        "rate": ("meter", 2),
        "level": ("gauge", 42),
        "db.table.users.rows": ("counter", 1),
        "db.size": ("distribution", {"sum": 7, "count": 1, "min": 7, "max": 7}),
    }


def test_counts_begin_at_zero_in_the_next_epoch_and_the_objects_stay_the_same():
    group = OperatorMetricGroup()
    counter, meter = group.counter("n"), group.meter("m", 5)
    distribution = group.add_group("g").distribution("d")
    group.gauge("level", lambda: 1)
    counter.inc()
    meter.mark_event()
    distribution.update(3)
    group.reset()
    assert (counter.get_count(), meter.get_count()) == (0, 0)
    assert distribution.report() == {"sum": 0, "count": 0, "min": None, "max": None}
    counter.inc()
    assert group.report()["n"] == ("counter", 1)
    assert group.report()["level"] == ("gauge", 1)
    assert group.meter("m") is meter
    assert meter.get_rate() > 0  # it is that of the last seconds


def test_a_gauge_must_be_callable():
    with pytest.raises(ArgumentTypeError, match="a gauge needs a callable"):
        OperatorMetricGroup().gauge("level", 5)


def distribution_of(values):
    group = OperatorMetricGroup()
    for value in values:
        group.distribution("d").update(value)
    group.distribution("d")
    return group.report()


@given(st.lists(st.lists(st.integers(-100, 100), max_size=5), max_size=6))
def test_merged_distributions_are_those_of_all_values(parts):
    total = {}
    for part in parts:
        total = merge(total, distribution_of(part))
    values = [value for part in parts for value in part]
    assert total == (distribution_of(values) if parts else {})


def test_counters_and_meters_add_up_and_of_gauges_the_last_one_stays():
    first = {"n": ("counter", 2), "m": ("meter", 1), "g": ("gauge", 5), "only": ("counter", 1)}
    second = {"n": ("counter", 3), "m": ("meter", 4), "g": ("gauge", 6)}
    assert merge(first, second) == {
        "n": ("counter", 5),
        "m": ("meter", 5),
        "g": ("gauge", 6),
        "only": ("counter", 1),
    }
    assert first["n"] == ("counter", 2)  # the totals before are left as they were


def test_measured_values_are_json_with_labels_for_key_groups():
    group = OperatorMetricGroup()
    group.counter("seen").inc(3)
    group.meter("rate").mark_event(2)
    group.gauge("level", lambda: "x" * 500)
    group.gauge("object", lambda: {1, 2})
    group.gauge("decimal", lambda: Decimal("1.5"))
    group.add_group("plain").counter("n")
    group.add_group("topic", "orders").add_group("partition", "3").gauge("lag", lambda: 7)
    measured = group.measure()
    assert json.loads(json.dumps(measured))["seen"] == ["counter", 3]
    assert measured["rate"] == ("meter", {"count": 2, "rate": 2.0})
    assert measured["level"] == ("gauge", "x" * 200)
    assert measured["object"] == ("gauge", "{1, 2}")
    assert measured["decimal"] == ("gauge", 1.5)
    assert measured["plain.n"] == ("counter", 0)
    assert measured["topic.orders.partition.3.lag"] == (
        "gauge",
        7,
        "topic.partition.lag",
        (("topic", "orders"), ("partition", "3")),
    )


def test_a_gauge_that_fails_is_left_out_and_complained_about_once(caplog):
    group = OperatorMetricGroup()
    group.gauge("broken", lambda: 1 / 0)
    group.counter("n")
    assert group.measure() == {"n": ("counter", 0)}
    assert group.report() == {"n": ("counter", 0)}
    assert caplog.text.count("gauge 'broken' failed") == 1


def test_the_rate_of_a_meter_is_that_of_its_span():
    now = [0.0]
    meter = SlidingMeter(10, lambda: now[0])
    rates = []
    for second in range(40):
        now[0] = float(second)
        meter.mark_event(5 if second < 20 else 0)
        rates.append(meter.get_rate())
    assert rates[15] == pytest.approx(5, rel=0.15)
    assert rates[25] == pytest.approx(2.5, rel=0.3)  # half of the span is quiet
    assert rates[35] == 0
    meter.mark_event(10)
    meter.reset()
    now[0] = 41.0
    assert meter.get_count() == 0
    assert meter.get_rate() > 0  # an epoch that ends is not a reason to forget it


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda group: group.counter(""), ArgumentError),
        (lambda group: group.counter(7), ArgumentTypeError),
        (lambda group: group.add_group(None), ArgumentTypeError),
        (lambda group: group.meter("m", 0), ArgumentError),
        (lambda group: group.gauge("", lambda: 1), ArgumentError),
    ],
)
def test_names_and_spans_are_checked_when_they_are_given(call, error):
    with pytest.raises(error):
        call(OperatorMetricGroup())


def test_measurements_of_epochs_add_up_except_gauges():
    distribution = {"sum": 1, "count": 1, "min": 1, "max": 1}
    assert added(("counter", 1, "n", ()), ("counter", 2, "n", ())) == ("counter", 3, "n", ())
    assert added(("gauge", 1), ("gauge", 2)) == ("gauge", 2)
    assert added(("counter", 1), ("gauge", 2)) == ("gauge", 2)  # another one by the same name
    assert added(("meter", {"count": 1, "rate": 9.0}), ("meter", {"count": 2, "rate": 3.0})) == (
        "meter",
        {"count": 3, "rate": 3.0},
    )
    _, found = added(("distribution", distribution), ("distribution", {**distribution, "max": 5}))
    assert found == {"sum": 2, "count": 2, "min": 1, "max": 5}
