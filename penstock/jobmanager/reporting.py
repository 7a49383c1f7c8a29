"""What happens around each checkpoint besides the checkpoint: totals, progress, the autoscaler, a claimed savepoint."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from penstock.checkpoint.manifest import Manifest
from penstock.errors import CheckpointError
from penstock.jobmanager.job import Job
from penstock.jobmanager.progress import EpochReport, Progress
from penstock.jobmanager.requests import RescaleRequest
from penstock.jobmanager.running.driver import Driver, Span
from penstock.jobmanager.scaling import JobScaling
from penstock.jobmanager.starting_point import dispose_of_claimed
from penstock.runtime.metrics import merge

_log = logging.getLogger(__name__)


class Reporting:
    """Follows the checkpoints of a job. `cores` tells how many tasks can run at once."""

    def __init__(self, job: Job, progress: Progress, cores: Callable[[], int | None]) -> None:
        self.progress = progress
        self.scaling = JobScaling(job.autoscaler)
        self._cores = cores
        # Totals over the completed checkpoints of this run, by operator id: what failed is not in them.
        self.metrics: dict[str, dict[str, Any]] = {}
        self._claimed = job.checkpoints.claimed  # whether a claimed savepoint may still be there

    def on_trigger(self, driver: Driver) -> None:
        """Take note that a checkpoint is begun."""
        self.scaling.before_epoch(driver.sources)

    def on_completed(self, job: Job, driver: Driver, span: Span) -> RescaleRequest | None:
        """Take note of a completed checkpoint; return a request if the autoscaler has one."""
        manifest = driver.manifest
        assert manifest is not None
        self._dispose_of_claimed(job, manifest)
        metrics = dict(self.metrics)  # others read the one that is there
        for ack in driver.acks:
            for operator, report in ack.metrics.items():
                metrics[operator] = merge(metrics.get(operator, {}), report)
        self.metrics = metrics
        self.progress.on_epoch(
            EpochReport.of(job, manifest, driver.acks, span.ended_s - span.started_s)
        )
        decision = self.scaling.after_epoch(
            job,
            manifest.epoch,
            driver.sources,
            driver.acks,
            span_ms=(int(span.started_s * 1000), int(span.ended_s * 1000)),
            interval_ms=int(driver.interval_s * 1000),
            cores=self._cores,
        )
        if decision is None:
            return None
        return RescaleRequest((decision.parallelism,), str(decision), former=decision.former)

    def _dispose_of_claimed(self, job: Job, manifest: Manifest) -> None:
        if not self._claimed:
            return
        try:
            self._claimed = not dispose_of_claimed(job.checkpoints, manifest)
        except CheckpointError as error:  # it is tried again after the next checkpoint
            _log.warning("the claimed savepoint cannot be deleted: %s", error)
