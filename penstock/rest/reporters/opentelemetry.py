"""Periodic export of metrics by OTLP, with the names and attributes of Flink's OpenTelemetry reporter."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

import penstock
from penstock import options
from penstock.dependencies.extras import optional_module
from penstock.errors import ConfigurationError
from penstock.options.configuration import Configuration
from penstock.rest.reporters.samples import MetricSample

_log = logging.getLogger(__name__)

Gather = Callable[[], Iterable[MetricSample]]


class OpenTelemetryReporter:
    """Exports all metrics periodically, and once more when it is closed. Metrics that cannot be sent are lost."""

    def __init__(self, configuration: Configuration, gather: Gather) -> None:
        self._exporter = _create_exporter(configuration)
        self._resource = {
            "service.name": configuration.get(options.OTEL_SERVICE_NAME),
            "service.version": configuration.get(options.OTEL_SERVICE_VERSION)
            or penstock.__version__,
        }
        self._gather = gather
        self._interval_s = configuration.get(options.OTEL_INTERVAL).to_millis() / 1000
        self._timeout_ms = configuration.get(options.OTEL_TIMEOUT).to_millis()
        self._closed = threading.Event()
        self._complained = False
        self._thread = threading.Thread(target=self._run, name="penstock-otlp", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(self._interval_s):
            self._send()

    def _send(self) -> None:
        from opentelemetry.sdk.metrics.export import MetricExportResult

        try:
            data = metrics_data(self._gather(), self._resource)
            sent = self._exporter.export(data, timeout_millis=self._timeout_ms)
            if sent is MetricExportResult.SUCCESS:
                self._complained = False
                return
            reason = "the collector rejected them or cannot be reached"
        except Exception as error:  # noqa: BLE001 - a reporter must not disturb a job
            reason = f"{type(error).__name__}: {error}"
        if not self._complained:  # log once until it works again
            self._complained = True
            _log.warning("cannot send metrics by OTLP: %s", reason)

    def close(self) -> None:
        """Send the last values, and stop."""
        self._closed.set()
        self._thread.join(self._timeout_ms / 1000)
        self._send()
        self._exporter.shutdown()


def _create_exporter(configuration: Configuration) -> Any:
    protocol = configuration.get(options.OTEL_PROTOCOL)
    if protocol.lower() not in ("http", "http/protobuf"):
        raise ConfigurationError(
            f"option '{options.OTEL_PROTOCOL.key}': unsupported protocol '{protocol}', only http is supported",
            hint="collectors accept OTLP over http at port 4318 by default",
        )
    exporters = optional_module(
        "opentelemetry.exporter.otlp.proto.http.metric_exporter",
        extra="opentelemetry",
        needed_by="the OpenTelemetry metric reporter",
    )
    endpoint = configuration.get(options.OTEL_ENDPOINT)
    seconds = configuration.get(options.OTEL_TIMEOUT).to_millis() / 1000
    if endpoint is not None and not endpoint.rstrip("/").endswith("/v1/metrics"):
        endpoint = f"{endpoint.rstrip('/')}/v1/metrics"
    return exporters.OTLPMetricExporter(endpoint=endpoint, timeout=seconds)


def metrics_data(samples: Iterable[MetricSample], resource: dict[str, str]) -> Any:
    """Return samples as data of OpenTelemetry's SDK: sums for counters, gauges for the rest, one gauge for each quantile."""
    import time

    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        Metric,
        MetricsData,
        NumberDataPoint,
        ResourceMetrics,
        ScopeMetrics,
        Sum,
    )
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    now = time.time_ns()
    points: dict[tuple[str, bool], list[Any]] = {}
    for sample in samples:
        name = ".".join(("flink", *sample.scope, sample.name))
        if sample.quantiles:
            for share, value in sample.quantiles.items():
                attributes = {**sample.labels, "quantile": share}
                points.setdefault((name, False), []).append(
                    NumberDataPoint(attributes, 0, now, value)
                )
            name = f"{name}.count"
        point = NumberDataPoint(dict(sample.labels), 0, now, sample.value)
        points.setdefault((name, sample.counts), []).append(point)
    metrics = [
        Metric(
            name,
            "",
            "",
            Sum(found, AggregationTemporality.CUMULATIVE, is_monotonic=True)
            if counts
            else Gauge(found),
        )
        for (name, counts), found in points.items()
    ]
    scope = ScopeMetrics(InstrumentationScope("penstock", penstock.__version__), metrics, "")
    return MetricsData([ResourceMetrics(Resource(resource), [scope], "")])
