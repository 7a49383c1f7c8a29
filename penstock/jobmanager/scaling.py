"""Feeds the autoscaler with a job's epochs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.common.autoscaler_settings import AutoscalerSettings
from penstock.jobmanager.autoscaler import Autoscaler, ScalingDecision
from penstock.jobmanager.job import Job
from penstock.jobmanager.load import EpochObservation, SourceObservation
from penstock.jobmanager.sources import SourceCoordinator
from penstock.runtime.messages import TaskAck

_log = logging.getLogger(__name__)


class JobScaling:
    """Observes a job around its epochs; does nothing unless the autoscaler is on.

    The parallelism that it changes is that of all operators which set none themselves.
    """

    def __init__(self, settings: AutoscalerSettings) -> None:
        self._settings = settings
        self._autoscaler = Autoscaler(settings)
        self._backlogs: dict[str, int | None] = {}

    def before_epoch(self, sources: Sequence[SourceCoordinator]) -> None:
        """Take note of what waits."""
        if self._settings.enabled:
            self._backlogs = {source.operator_id: source.backlog() for source in sources}

    def after_epoch(
        self,
        job: Job,
        epoch: int,
        sources: Sequence[SourceCoordinator],
        acks: Sequence[TaskAck],
        *,
        span_ms: tuple[int, int],
        interval_ms: int,
    ) -> ScalingDecision | None:
        """Take note of a completed epoch; return another parallelism if the job should have one."""
        if not self._settings.enabled:
            return None
        start_ms, end_ms = span_ms
        decision = self._autoscaler.observe(
            EpochObservation(
                epoch=epoch,
                start_ms=start_ms,
                end_ms=end_ms,
                interval_ms=interval_ms,
                parallelism=job.program.settings.parallelism,
                busy_s=(end_ms - start_ms) / 1000,
                sources=tuple(self._observe(source, acks) for source in sources),
                data_left=any(source.has_data() for source in sources),
                max_parallelism=_highest(job),
            )
        )
        if decision is not None and not self._settings.applies:
            _log.info("job '%s' would be rescaled: %s", job.name, decision)
            return None
        return decision

    def reset(self) -> None:
        """Forget what was measured before a failure."""
        self._autoscaler.reset()

    def _observe(self, source: SourceCoordinator, acks: Sequence[TaskAck]) -> SourceObservation:
        records = sum(
            ack.metrics.get(source.operator_id, {}).get("numRecordsIn", ("counter", 0))[1]
            for ack in acks
            if ack.vertex == source.vertex
        )
        return SourceObservation(
            operator_id=source.operator_id,
            records=records,
            backlog_before=self._backlogs.get(source.operator_id),
            backlog_after=source.backlog(),
            unit=source.backlog_unit,
        )


def _highest(job: Job) -> int:
    """Return the highest parallelism that all operators which follow the default can have."""
    default = job.program.settings.parallelism
    limits = [v.max_parallelism for v in job.plan.vertices if v.parallelism == default]
    return min(limits, default=default)
