"""Metrics have the types that PyFlink's programs import."""

from __future__ import annotations

from penstock.pyflink_compat import pyflink_names
from penstock.runtime.metrics import OperatorMetricGroup


def test_metric_groups_return_the_public_metric_types() -> None:
    with pyflink_names():
        from pyflink.metrics import Counter, Distribution, Meter, Metric
        from pyflink.metrics import MetricGroup as Group
        from pyflink.metrics.metricbase import Counter as SameCounter
    group = OperatorMetricGroup()
    assert isinstance(group, Group)
    assert isinstance(group.add_group("a"), Group)
    assert isinstance(group.counter("n"), Counter)
    assert isinstance(group.distribution("d"), Distribution)
    assert isinstance(group.meter("m"), Meter)
    assert issubclass(Counter, Metric)
    assert Counter is SameCounter
