"""What listens to the events of a job to show its progress, and the reports that it gets."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from penstock.checkpoint.manifest import Manifest
from penstock.common.job_status import JobStatus
from penstock.jobmanager.job import Job
from penstock.jobmanager.metrics.live_metrics import LiveMetrics, VertexMetrics
from penstock.jobmanager.metrics.metric_totals import Counts
from penstock.jobmanager.modes import mode_reason, prefers_pipelined
from penstock.runtime.task.shared.task_metrics import RECORDS_SENT, LatencyHistogram

_MIN, _MAX = -(2**63), 2**63 - 1
_SHOWN_LINES = 12  # of the cause of a restart


@dataclass(frozen=True, slots=True)
class JobStart:
    """What is known of a job before it runs. `mode` is the one that it prefers; a warning tells if it gets another."""

    job_id: str
    pipelined: bool
    reason: str  # of the mode
    parallelism: int

    @property
    def mode(self) -> str:
        """The execution mode, as messages have it."""
        return f"{'pipelined' if self.pipelined else 'epoch'} mode ({self.reason})"

    @classmethod
    def of(cls, job: Job) -> JobStart:
        """Describe a job by its plan."""
        batch, bounded = job.settings.batch_mode, job.bounded
        stays = prefers_pipelined(job.mode, batch=batch, bounded=bounded)
        reason = mode_reason(job.mode, batch=batch, bounded=bounded, origin=job.mode_origin)
        highest = max((vertex.parallelism for vertex in job.plan.vertices), default=1)
        return cls(job.job_id, stays, reason, highest)


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended. Records are counted up to the last report of each subtask."""

    status: JobStatus
    records_in: int = 0
    records_out: int = 0
    late: int = 0  # dropped


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """One completed epoch in numbers.

    `checkpoint_s` is the part of `duration_s` after the last ACK: manifest, commits, retention. `sinks` are the records
    that each sink wrote, by the sink's name.
    """

    checkpoint_id: int
    records_in: int
    duration_s: float
    watermark: int
    state_bytes: int
    final: bool
    checkpoint_s: float = 0.0
    sinks: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, job: Job, manifest: Manifest, counts: Counts, duration_s: float
    ) -> CheckpointReport:
        """Summarise a completed epoch from its counters."""
        return cls(
            checkpoint_id=manifest.checkpoint_id,
            records_in=sum(
                counts.get(operator, {}).get("numRecordsIn", 0)
                for _, operator, _, _ in job.sources()
            ),
            duration_s=duration_s,
            watermark=min(manifest.watermarks.values(), default=_MIN),
            state_bytes=manifest.state_size,
            final=manifest.final,
            checkpoint_s=min(max(time.time() - manifest.created_ms / 1000, 0.0), duration_s),
            sinks=_written(job, counts),
        )


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """The current metrics of a job in pipelined mode.

    `latency` is that of markers from the sources to the ends of the job. `vertices` are in the order of the plan, by name.
    """

    records_in: float  # per second, over all sources
    latency: LatencyHistogram
    watermark: int | None
    vertices: tuple[tuple[str, VertexMetrics], ...]

    @classmethod
    def of(cls, job: Job, live: LiveMetrics) -> ProgressReport | None:
        """Summarise the last reports of subtasks; None if there are none, or in epoch mode."""
        if live.empty or not live.pipelined:
            return None
        figures = {vertex.id: live.vertex(vertex.id) for vertex in job.plan.vertices}
        ends = [vertex.id for vertex in job.plan.vertices if not vertex.outputs]
        watermarks = [figures[end].watermark for end in ends]
        known = [watermark for watermark in watermarks if watermark is not None]
        return cls(
            records_in=sum(
                figures[each.id].records_in for each in job.plan.vertices if each.is_source
            ),
            latency=live.latency(ends),
            watermark=min(known) if known and len(known) == len(ends) else None,
            vertices=tuple((each.name, figures[each.id]) for each in job.plan.vertices),
        )


def _written(job: Job, counts: Counts) -> dict[str, int]:
    names = {
        operator.operator_id: operator.name.removeprefix("Sink: ")
        for vertex in job.plan.vertices
        for operator in vertex.operators
        if operator.spec.writes_to is not None
    }
    written = dict.fromkeys(names.values(), 0)
    for operator_id, name in names.items():
        written[name] += counts.get(operator_id, {}).get(RECORDS_SENT, 0)
    return written


class Progress(Protocol):
    """Listens to the events of a job."""

    def on_start(self, start: JobStart) -> None:
        """Record that the job starts; called once, before Spark is started."""

    def watch(self, live: Callable[[], ProgressReport | None]) -> None:
        """Set the function that returns the current metrics; it may be called from any thread."""

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """Record a completed epoch."""

    def on_restart(self, restarts: int, delay_ms: int, error: Exception) -> None:
        """Record that the job failed and will be restarted."""

    def close(self, end: JobEnd) -> None:
        """Record the end of the job."""


def print_line(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)


class QuietProgress:
    """Reports nothing but restarts, by calling `say` with their text."""

    def __init__(self, say: Callable[[str], None] = print_line) -> None:
        self._say = say

    def on_start(self, start: JobStart) -> None:
        """Ignore."""

    def watch(self, live: Callable[[], ProgressReport | None]) -> None:
        """Ignore."""

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """Ignore."""

    def on_restart(self, restarts: int, delay_ms: int, error: Exception) -> None:
        """Say the cause in short."""
        reason = str(error).splitlines()
        # The end of a traceback has the exception.
        shown = "\n".join(
            reason if len(reason) <= _SHOWN_LINES else ["...", *reason[-_SHOWN_LINES:]]
        )
        self._say(f"job failed, restart {restarts} in {delay_ms} ms:\n{shown}")

    def close(self, end: JobEnd) -> None:
        """Ignore."""


def show_time(watermark: int) -> str:
    """Format a watermark.

    >>> show_time(0), show_time(-(2**63)), show_time(2**63 - 1)
    ('1970-01-01 00:00:00', 'none yet', 'end')
    """
    if watermark <= _MIN + 1:
        return "none yet"
    if watermark >= _MAX:
        return "end"
    try:
        return datetime.fromtimestamp(watermark / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(watermark)
