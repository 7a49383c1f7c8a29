"""Metrics: counted per epoch in tasks, added up on the driver."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ArgumentTypeError
from penstock.runtime.metrics import MetricGroup, merge


def test_a_group_reports_all_metrics_under_their_full_names():
    group = MetricGroup()
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
    group = MetricGroup()
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
    assert meter.get_rate() == 0


def test_a_gauge_must_be_callable():
    with pytest.raises(ArgumentTypeError, match="a gauge needs a callable"):
        MetricGroup().gauge("level", 5)


def distribution_of(values):
    group = MetricGroup()
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
