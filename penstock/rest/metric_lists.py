"""Metrics of a process in Flink's shapes: names without `get`, values with it, and over several processes aggregated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from penstock.rest.messages import HttpError, Request


def _skew(values: Sequence[float]) -> float:
    """Return how uneven values are, in percent: as Flink has it, by how much they differ from their average."""
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


def listed(metrics: Mapping[str, float], request: Request) -> list[dict[str, str]]:
    """Return names, or the values that are asked for."""
    wanted = request.query.get("get")
    if wanted is None:
        return [{"id": name} for name in metrics]
    return [
        {"id": name, "value": str(metrics[name])} for name in wanted.split(",") if name in metrics
    ]


def aggregated(every: Sequence[Mapping[str, float]], request: Request) -> list[dict[str, Any]]:
    """Return names, or the values that are asked for, of several processes together."""
    wanted = request.query.get("get")
    names = dict.fromkeys(name for metrics in every for name in metrics)
    if wanted is None:
        return [{"id": name} for name in names]
    chosen = request.query.get("agg", ",".join(_AGGREGATIONS)).split(",")
    for each in chosen:
        if each not in _AGGREGATIONS:
            raise HttpError(
                HTTPStatus.BAD_REQUEST,
                f"aggregation '{each}' is unknown",
                f"hint: there are {', '.join(_AGGREGATIONS)}",
            )
    found = []
    for name in wanted.split(","):
        values = [float(metrics[name]) for metrics in every if name in metrics]
        if values:
            found.append({"id": name, **{each: _AGGREGATIONS[each](values) for each in chosen}})
    return found
