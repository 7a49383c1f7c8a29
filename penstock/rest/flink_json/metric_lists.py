"""Metrics of processes in Flink's JSON: names without `get`, values with it, aggregated over several processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from penstock.rest.flink_json.metric_values import AggregatedMetric, MetricInfo
from penstock.rest.messages import HttpError, Request


def _skew(values: Sequence[float]) -> float:
    """Return the skew of values in percent, as Flink computes it: their average deviation from the mean."""
    average = sum(values) / len(values)
    if not average:
        return 0.0
    return 100 * sum(abs(value - average) for value in values) / len(values) / average


_AGGREGATIONS: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
    "sum": sum,
    "skew": _skew,
}


def listed(metrics: Mapping[str, float], request: Request) -> list[MetricInfo]:
    """Return the metric names, or the requested values."""
    wanted = request.query.get("get")
    if wanted is None:
        return [MetricInfo(name) for name in metrics]
    return [MetricInfo(name, str(metrics[name])) for name in wanted.split(",") if name in metrics]


def aggregated(
    every: Sequence[Mapping[str, float]], request: Request
) -> list[MetricInfo] | list[AggregatedMetric]:
    """Return the metric names, or the requested values aggregated over several processes."""
    wanted = request.query.get("get")
    names = dict.fromkeys(name for metrics in every for name in metrics)
    if wanted is None:
        return [MetricInfo(name) for name in names]
    chosen = request.query.get("agg", ",".join(_AGGREGATIONS)).split(",")
    for each in chosen:
        if each not in _AGGREGATIONS:
            raise HttpError(
                HTTPStatus.BAD_REQUEST,
                f"unknown aggregation '{each}'",
                f"hint: use {', '.join(_AGGREGATIONS)}",
            )
    found = []
    for name in wanted.split(","):
        values = [float(metrics[name]) for metrics in every if name in metrics]
        if values:
            found.append(
                AggregatedMetric(id=name, **{each: _AGGREGATIONS[each](values) for each in chosen})
            )
    return found
