"""Tells a person how the job is doing: a live line on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from penstock.checkpoint.manifest import Manifest
from penstock.jobmanager.job import Job
from penstock.runtime.messages import TaskAck

_MIN, _MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class EpochReport:
    """One completed epoch in numbers."""

    epoch: int
    records_in: int
    duration_s: float
    watermark: int
    state_bytes: int
    final: bool

    @classmethod
    def of(
        cls, job: Job, manifest: Manifest, acks: Sequence[TaskAck], duration_s: float
    ) -> EpochReport:
        """Summarise an epoch."""
        sources = {vertex for vertex, _, _, _ in job.sources()}
        records = sum(
            report.get("numRecordsIn", ("counter", 0))[1]
            for ack in acks
            if ack.vertex in sources
            for report in ack.metrics.values()
        )
        return cls(
            epoch=manifest.epoch,
            records_in=records,
            duration_s=duration_s,
            watermark=min(manifest.watermarks.values(), default=_MIN),
            state_bytes=manifest.state_size,
            final=manifest.final,
        )


class Progress(Protocol):
    """Who is told about a job's life."""

    def on_epoch(self, report: EpochReport) -> None:
        """An epoch was completed."""

    def on_restart(self, restarts: int, delay_ms: int, error: Exception) -> None:
        """The job failed and will be restarted."""

    def close(self, status: Any) -> None:
        """The job has ended."""


class QuietProgress:
    """Says nothing but that the job had to be restarted."""

    def on_epoch(self, report: EpochReport) -> None:
        """Ignore."""

    def on_restart(self, restarts: int, delay_ms: int, error: Exception) -> None:
        """Tell why, in short."""
        reason = str(error).splitlines()
        shown = reason[-1] if len(reason) == 1 else "\n".join(reason[:12])
        print(  # noqa: T201
            f"job failed, restart {restarts} in {delay_ms} ms:\n{shown}", file=sys.stderr, flush=True
        )

    def close(self, status: Any) -> None:
        """Ignore."""


class TerminalProgress(QuietProgress):
    """A line that is written over at every epoch, on standard error."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.status import Status

        self._name = name
        self._records = 0
        self._busy_s = 0.0
        self._console = Console(stderr=True)
        self._status = Status(f"{name}: starting", console=self._console)
        self._status.start()

    def on_epoch(self, report: EpochReport) -> None:
        """Show the epoch's numbers."""
        self._records += report.records_in
        self._busy_s += report.duration_s
        rate = report.records_in / max(report.duration_s, 1e-3)
        self._status.update(
            f"{self._name}: epoch {report.epoch} | {self._records:,} records | {rate:,.0f} records/s | "
            f"watermark {show_time(report.watermark)} | checkpoint {report.duration_s:.2f} s, "
            f"{report.state_bytes / 1024:,.0f} KiB"
        )

    def close(self, status: Any) -> None:
        """Leave one line behind."""
        self._status.stop()
        rate = self._records / max(self._busy_s, 1e-3)
        self._console.print(
            f"{self._name}: {status.name.lower()}, {self._records:,} records, {rate:,.0f} records/s",
            highlight=False,
        )


def show_time(watermark: int) -> str:
    """Return a watermark as people read it.

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


def create_progress(name: str, mode: str) -> Progress:
    """Choose by option `penstock.progress`: auto (a terminal gets the live line), always, never."""
    if mode == "always" or (mode == "auto" and sys.stderr.isatty()):
        return TerminalProgress(name)
    return QuietProgress()
