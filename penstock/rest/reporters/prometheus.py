"""Metrics in Prometheus's format, with the names and labels of Flink's Prometheus reporter.

Counters are gauges without `_total`, as in Flink, so that dashboards for Flink work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from penstock.rest.reporters.samples import MetricSample

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9:_]")
_NOT_IN_LABELS: Final = re.compile(r"[^a-zA-Z0-9_]")


class _Gathered(Collector):
    """The metrics of one scrape."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        yield from self._families


def expose(
    samples: Iterable[MetricSample], accepts: str, *, filters: bool = True
) -> tuple[bytes, str]:
    """Return all samples as text in the format that a client accepts, and its media type.

    With `filters`, characters other than letters, digits, `:` and `_` in the values of labels become `_`, as in Flink.
    """
    encode, media_type = choose_encoder(accepts)
    gathered = _Gathered(families(samples, filters=filters))
    return encode(gathered), media_type


def families(samples: Iterable[MetricSample], *, filters: bool) -> list[Metric]:
    """Return the samples by name, those of one name together."""
    found: dict[str, Metric] = {}
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()  # different names may become equal
    for sample in samples:
        name = metric_name(sample)
        family = found.get(name)
        if family is None:
            family = found[name] = _family(name, sample)
        elif isinstance(family, SummaryMetricFamily) is not bool(sample.quantiles):
            continue  # user metrics of two types with one name: the first one wins
        labels = {
            _NOT_IN_LABELS.sub("_", label): _NOT_IN_NAMES.sub("_", value) if filters else value
            for label, value in sample.labels.items()
        }
        series = (name, frozenset(labels.items()))
        if series in seen:
            continue
        seen.add(series)
        if sample.quantiles:
            for share, value in sample.quantiles.items():
                family.add_sample(name, {**labels, "quantile": share}, value)
            family.add_sample(f"{name}_count", labels, sample.value)
        else:
            family.add_sample(name, labels, sample.value)
    return list(found.values())


def metric_name(sample: MetricSample) -> str:
    """Return the name of a metric in Prometheus.

    >>> metric_name(MetricSample(("taskmanager", "job", "task"), "buffers.inPoolUsage", {}, 0.5))
    'flink_taskmanager_job_task_buffers_inPoolUsage'
    """
    return _NOT_IN_NAMES.sub("_", "_".join(("flink", *sample.scope, sample.name)))


def _family(name: str, sample: MetricSample) -> Metric:
    *groups, last = sample.name.split(".")
    scope = _NOT_IN_NAMES.sub("_", "_".join((*sample.scope, *groups)))
    make = SummaryMetricFamily if sample.quantiles else GaugeMetricFamily
    return make(name, f"{last} (scope: {scope})")
