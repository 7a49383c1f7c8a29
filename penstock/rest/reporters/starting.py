"""The metric reporters of this process. The first job that configures a reporter starts it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from penstock import options
from penstock.errors import PenstockError
from penstock.options.configuration import Configuration
from penstock.processes.process_metrics import ProcessFigures
from penstock.rest.reporters.samples import MetricSample, samples
from penstock.rest.routing.routes import Services

_log = logging.getLogger(__name__)

_figures = ProcessFigures()


def gather(services: Services) -> list[MetricSample]:
    """Return the current metrics of the jobs of this process."""
    jobs = services.jobs.views()
    return list(samples(jobs, services.now_ms(), _figures.take(), _cluster(services)))


def _cluster(services: Services) -> dict[str, int]:
    from penstock.rest.services.taskmanagers import TaskManagers

    executors = [each.executor for each in TaskManagers.now(services.jobs).all]
    return {
        "numRegisteredTaskManagers": len(executors),
        "taskSlotsTotal": sum(each.slots for each in executors),
        "taskSlotsAvailable": sum(max(0, each.slots - each.busy_slots) for each in executors),
    }


class Reporter(Protocol):
    """Exports metrics to an external system."""

    def close(self) -> None:
        """Export the last values, and stop."""


class Reporters:
    """The running reporters."""

    def __init__(self) -> None:
        self._running: dict[str, Reporter] = {}

    def ensure_started(self, configuration: Configuration, services: Services) -> None:
        """Start the configured reporters that do not run yet. If one cannot start, only log a warning."""
        given = configuration.get(options.METRICS_REPORTERS).split(",")
        for name in filter(None, map(str.strip, given)):
            create = _REPORTERS.get(name)
            if create is None:
                _log.warning("unknown metrics reporter '%s'; available are prom and otel", name)
                continue
            if name in self._running:
                continue
            try:
                self._running[name] = create(configuration, services)
            except (PenstockError, OSError) as error:
                _log.warning("metrics reporter '%s' cannot start: %s", name, error)

    def close(self) -> None:
        """Stop all."""
        while self._running:
            self._running.popitem()[1].close()


# Imported late: the dependencies of reporters load slowly, and most jobs have none.


def _prometheus(configuration: Configuration, services: Services) -> Reporter:
    from penstock.rest.reporters.prometheus_port import PrometheusReporter

    return PrometheusReporter(configuration, lambda: gather(services))


def _open_telemetry(configuration: Configuration, services: Services) -> Reporter:
    from penstock.rest.reporters.opentelemetry import OpenTelemetryReporter

    return OpenTelemetryReporter(configuration, lambda: gather(services))


_REPORTERS: dict[str, Callable[[Configuration, Services], Reporter]] = {
    "prom": _prometheus,
    "otel": _open_telemetry,
}
