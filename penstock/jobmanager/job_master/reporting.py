"""Bookkeeping around checkpoints: totals, progress, autoscaler, claimed savepoint."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from penstock.checkpoint.manifest import Manifest
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointError
from penstock.jobmanager.job import Job
from penstock.jobmanager.metrics.dropped_record_counts import (
    DroppedRecordLog,
    DroppedRecords,
    find_dropped,
)
from penstock.jobmanager.metrics.live_metrics import LiveMetrics
from penstock.jobmanager.metrics.metric_totals import Counts, MetricTotals
from penstock.jobmanager.metrics.operator_counts import counts_of_operators
from penstock.jobmanager.metrics.progress import (
    CheckpointReport,
    JobEnd,
    JobStart,
    Progress,
    ProgressReport,
)
from penstock.jobmanager.metrics.suspicious_record_counts import (
    SuspiciousRecordLog,
    SuspiciousRecords,
    find_suspicious,
)
from penstock.jobmanager.requests import RescaleRequest
from penstock.jobmanager.rescaling.autoscaler import ScalingDecision
from penstock.jobmanager.rescaling.scaling import JobScaling
from penstock.jobmanager.restoring.starting_point import dispose_of_claimed
from penstock.jobmanager.running.driver import CheckpointSpan, Driver
from penstock.records.dropped_records import LATE
from penstock.runtime.task.pipelined.slot_messages import SlotReport
from penstock.runtime.task.shared import task_metrics as names
from penstock.time import clock

_log = logging.getLogger(__name__)


class JobReporting:
    """Observes the checkpoints of a job. `cores` returns how many tasks can run at once."""

    def __init__(self, job: Job, progress: Progress, cores: Callable[[], int | None]) -> None:
        self.progress = progress
        self.scaling = JobScaling(job.autoscaler)
        self.live = LiveMetrics()
        self._job = job
        self._completed_s: float | None = (
            None  # when the last checkpoint was completed, if none failed since
        )
        self._cores = cores
        self._totals = MetricTotals()
        self._drop_log = DroppedRecordLog()
        self._suspicion_log = SuspiciousRecordLog()
        self._claimed = job.checkpoints.claimed  # whether a claimed savepoint may still exist
        progress.watch(lambda: ProgressReport.of(self._job, self.live))

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """Totals over the completed checkpoints of this run, by operator id, without failed attempts."""
        return self._totals.metrics

    def dropped(self) -> list[DroppedRecords]:
        """Return the dropped records by operator and reason."""
        return find_dropped(self._job.plan.vertices, self.live.by_vertex(), self.metrics)

    def suspicious(self) -> list[SuspiciousRecords]:
        """Return the suspicious records by operator."""
        return find_suspicious(self._job.plan.vertices, self.live.by_vertex(), self.metrics)

    def on_start(self) -> None:
        """Record that the job starts."""
        self.progress.on_start(JobStart.of(self._job))

    def on_trigger(self, driver: Driver) -> None:
        """Record that a checkpoint was triggered; in epoch mode before the first record of the epoch."""
        if not self.live.pipelined:
            self.scaling.before_interval(driver.sources)

    def on_report(self, report: SlotReport) -> None:
        """Record the metrics of the subtasks of a slot."""
        now_ms = clock.now_ms()
        self.live.take(report, now_ms)
        if self._drop_log.is_due(now_ms):
            self._log_records(now_ms)

    def _log_records(self, now_ms: int) -> None:
        self._drop_log.look(self.dropped(), now_ms)
        self._suspicion_log.look(self.suspicious())

    def on_end(self) -> None:
        """Log dropped records once more at the end of the job."""
        self._drop_log.finish(self.dropped(), clock.now_ms())
        self._suspicion_log.look(self.suspicious())

    def close(self, status: JobStatus) -> None:
        """Record how the job ended."""
        read = written = 0
        operators = counts_of_operators(
            self._job.plan.vertices, self.live.by_vertex(), self.metrics
        )
        for _, operator, counts in operators:
            if operator.kind == "source":
                read += counts.count(names.RECORDS_IN)
            if operator.spec.writes_to is not None:
                written += counts.count(names.RECORDS_SENT)
        late = sum(each.dropped for each in self.dropped() if each.metric == LATE)
        self.progress.close(JobEnd(status, read, written, late))

    def on_plan(self, job: Job) -> None:
        """Record that the job switched to another plan."""
        self._job = job
        self.live.forget()
        self._completed_s = None

    def on_completed(self, job: Job, driver: Driver, span: CheckpointSpan) -> RescaleRequest | None:
        """Record a completed checkpoint; return the autoscaler's request, if there is one."""
        manifest = driver.manifest
        assert manifest is not None
        self._dispose_of_claimed(job, manifest)
        counts = self._totals.take(driver.acks)
        if not self.live.pipelined:
            since = span.started_s if self._completed_s is None else self._completed_s
            self.live.take_final_reports(driver.acks, span.ended_s - since)
        # Always: in epoch mode a job reports nothing while it has nothing to read.
        self._log_records(clock.now_ms())
        self.progress.on_checkpoint(
            CheckpointReport.of(job, manifest, counts, span.ended_s - span.started_s)
        )
        decision = self._observe(job, driver, counts, span)
        if decision is None:
            return None
        return RescaleRequest((decision.parallelism,), str(decision), former=decision.former)

    def forget_load(self) -> None:
        """Discard the measurements before a failure."""
        self.scaling.reset()
        self._completed_s = None

    def _observe(
        self, job: Job, driver: Driver, counts: Counts, span: CheckpointSpan
    ) -> ScalingDecision | None:
        """Pass the interval between the last two checkpoints to the autoscaler.

        In epoch mode it is the span of the epoch. In pipelined mode subtasks were busy for a part of the interval.
        """
        share = self.live.take_busy_share()
        started_s, interval_s = span.started_s, driver.interval_s
        before, self._completed_s = self._completed_s, span.ended_s
        if share is not None:
            started_s = span.started_s if before is None else before
            interval_s = span.ended_s - started_s
        return self.scaling.after_interval(
            job,
            0 if driver.manifest is None else driver.manifest.checkpoint_id,
            driver.sources,
            counts,
            span_ms=(int(started_s * 1000), int(span.ended_s * 1000)),
            interval_ms=int(interval_s * 1000),
            cores=self._cores,
            busy_share=share,
        )

    def _dispose_of_claimed(self, job: Job, manifest: Manifest) -> None:
        if not self._claimed:
            return
        try:
            self._claimed = not dispose_of_claimed(job.checkpoints, manifest)
        except CheckpointError as error:  # tried again after the next checkpoint
            _log.warning("cannot delete the claimed savepoint: %s", error)
