"""Metrics, by PyFlink's names: what a function's `runtime_context.get_metrics_group()` hands out."""

from __future__ import annotations

from penstock.metrics.metricbase import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
