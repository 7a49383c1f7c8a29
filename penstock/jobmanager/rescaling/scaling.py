"""Passes observations of a job to the autoscaler."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from penstock.errors import PenstockError
from penstock.graph.stage_plan import StageVertex
from penstock.jobmanager.job import Job
from penstock.jobmanager.metrics.metric_totals import Counts
from penstock.jobmanager.rescaling.autoscaler import Autoscaler, ScalingDecision
from penstock.jobmanager.rescaling.load import IntervalObservation, SourceObservation
from penstock.jobmanager.rescaling.replanning import rescaled
from penstock.jobmanager.sources.source_coordinator import SourceCoordinator
from penstock.options.autoscaler_settings import AutoscalerSettings

_log = logging.getLogger(__name__)


class JobScaling:
    """Observes a job around its checkpoints; does nothing unless the autoscaler is enabled.

    It changes the parallelism of all operators that do not set one.
    """

    def __init__(self, settings: AutoscalerSettings) -> None:
        self._settings = settings
        self._autoscaler = Autoscaler(settings)
        self._backlogs: dict[str, int | None] = {}
        self._highest: tuple[Job, int] | None = None  # cached for the current plan
        self._mute: set[str] = set()  # sources whose backlog failed

    def before_interval(self, sources: Sequence[SourceCoordinator]) -> None:
        """Record the backlogs."""
        if self._settings.enabled:
            self._backlogs = {source.operator_id: self._backlog(source) for source in sources}

    def after_interval(
        self,
        job: Job,
        checkpoint_id: int,
        sources: Sequence[SourceCoordinator],
        counts: Counts,
        *,
        span_ms: tuple[int, int],
        interval_ms: int,
        cores: Callable[[], int | None] = lambda: None,
        busy_share: float | None = None,
    ) -> ScalingDecision | None:
        """Record a completed epoch; return a decision if the parallelism should change.

        `cores` returns the number of tasks that can run at once, None if unknown. `busy_share` is the busy share
        of the busiest slot; None if slots do not report it, as in epoch mode, where epochs last as long as there is work.
        """
        if not self._settings.enabled:
            return None
        start_ms, end_ms = span_ms
        observed = tuple(self._observe(source, counts) for source in sources)
        if (
            busy_share is not None
        ):  # sources read continuously: the backlog now is the one before the next interval
            self._backlogs = {each.operator_id: each.backlog_after for each in observed}
        decision = self._autoscaler.observe(
            IntervalObservation(
                checkpoint_id=checkpoint_id,
                start_ms=start_ms,
                end_ms=end_ms,
                interval_ms=interval_ms,
                parallelism=job.program.settings.parallelism,
                busy_s=(end_ms - start_ms) / 1000 * (1.0 if busy_share is None else busy_share),
                sources=observed,
                data_left=busy_share is not None or any(source.has_data() for source in sources),
                max_parallelism=self._highest_parallelism(job),
                cores=cores(),
            )
        )
        if decision is not None and not self._settings.applies:
            _log.info("job '%s' would be rescaled: %s", job.name, decision)
            return None
        return decision

    def reset(self) -> None:
        """Discard the measurements before a failure."""
        self._autoscaler.reset()

    def on_change(self, former: Job, job: Job) -> None:
        """Record that the job was rescaled. If single operators were rescaled, measuring starts again."""
        if former.program.settings.rescaled != job.program.settings.rescaled:
            self._autoscaler.reset()

    def _highest_parallelism(self, job: Job) -> int:
        if self._highest is None or self._highest[0] is not job:
            self._highest = job, highest_parallelism(job)
        return self._highest[1]

    def _backlog(self, source: SourceCoordinator) -> int | None:
        """Return the backlog; None if it is unknown or reading it fails, which does not affect the job."""
        if source.operator_id in self._mute:
            return None
        try:
            return source.backlog()
        except Exception:  # noqa: BLE001 - the user's enumerator may raise anything
            self._mute.add(source.operator_id)
            _log.warning(
                "reading the backlog of source '%s' failed; the autoscaler ignores it",
                source.operator_id,
                exc_info=True,
            )
            return None

    def _observe(self, source: SourceCoordinator, counts: Counts) -> SourceObservation:
        return SourceObservation(
            operator_id=source.operator_id,
            records=counts.get(source.operator_id, {}).get("numRecordsIn", 0),
            backlog_before=self._backlogs.get(source.operator_id),
            backlog_after=self._backlog(source),
            unit=source.backlog_unit,
        )


def highest_parallelism(job: Job) -> int:
    """Return the highest possible parallelism of all operators that follow the default."""
    default = job.program.settings.parallelism
    try:
        more = rescaled(job, default + 1)
    except PenstockError:  # the parallelism cannot be increased at all
        return default
    before, after = _vertices_by_operator(job), _vertices_by_operator(more)
    limits = [
        vertex.max_parallelism
        for operator, vertex in before.items()
        if vertex.parallelism != after[operator].parallelism
    ]
    return min(limits, default=default)


def _vertices_by_operator(job: Job) -> dict[str, StageVertex]:
    return {
        operator.operator_id: vertex
        for vertex in job.plan.vertices
        for operator in vertex.operators
    }
