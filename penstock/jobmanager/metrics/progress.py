"""Shows the progress of a job: a live table in a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from penstock.checkpoint.manifest import Manifest
from penstock.jobmanager.job import Job
from penstock.jobmanager.metrics.live_metrics import LiveMetrics, VertexMetrics
from penstock.jobmanager.metrics.metric_totals import Counts
from penstock.runtime.task.shared.task_metrics import LatencyHistogram

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_MIN, _MAX = -(2**63), 2**63 - 1
_REPORT_S = 1.0  # until the first reports in pipelined mode
_SHOWN_LINES = 12  # of the cause of a restart


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
        written[name] += counts.get(operator_id, {}).get("numRecordsSend", 0)
    return written


class Progress(Protocol):
    """Listens to the events of a job."""

    def watch(self, live: Callable[[], ProgressReport | None]) -> None:
        """Set the function that returns the current metrics; it may be called from any thread."""

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """Record a completed epoch."""

    def on_restart(self, restarts: int, delay_ms: int, error: Exception) -> None:
        """Record that the job failed and will be restarted."""

    def close(self, status: Any) -> None:
        """Record the end of the job."""


class QuietProgress:
    """Reports nothing but restarts."""

    def watch(self, live: Callable[[], ProgressReport | None]) -> None:
        """Ignore."""

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """Ignore."""

    def on_restart(self, restarts: int, delay_ms: int, error: Exception) -> None:
        """Print the cause in short."""
        reason = str(error).splitlines()
        # The end of a traceback has the exception.
        shown = "\n".join(
            reason if len(reason) <= _SHOWN_LINES else ["...", *reason[-_SHOWN_LINES:]]
        )
        print(
            f"job failed, restart {restarts} in {delay_ms} ms:\n{shown}",
            file=sys.stderr,
            flush=True,
        )

    def close(self, status: Any) -> None:
        """Ignore."""


class TerminalProgress(QuietProgress):
    """A small table on standard error that is updated while the job runs, and one line when it has ended."""

    def __init__(
        self,
        name: str,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from rich.console import Console
        from rich.live import Live

        self._name = name
        self._clock = clock
        self._started = self._reported = clock()
        self._first: float | None = None  # start of the first epoch
        self._live_since: float | None = None  # first report in pipelined mode
        self._last: CheckpointReport | None = None
        self._records = 0
        self._rate = 0.0
        self._restarts = 0
        self._sinks: dict[str, int] = {}
        self._ask: Callable[[], ProgressReport | None] = lambda: None
        self._console = console or Console(stderr=True)
        self._live = Live(
            get_renderable=self.render,
            console=self._console,
            refresh_per_second=4,
            transient=True,
            # Output of the job appears above the table if both go to the same terminal.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._live.start()

    def watch(self, live: Callable[[], ProgressReport | None]) -> None:
        """Set the function that is called when the table is drawn."""
        self._ask = live

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """Update the table with the epoch's numbers."""
        now = self._clock()
        if self._first is None:
            # The start of Spark does not count for the rate.
            began = now - report.duration_s if self._live_since is None else self._live_since
            self._first = self._reported = began
        self._rate = report.records_in / max(now - self._reported, 1e-3)
        self._reported = now
        self._records += report.records_in
        for sink, count in report.sinks.items():
            self._sinks[sink] = self._sinks.get(sink, 0) + count
        self._last = report

    def on_restart(self, restarts: int, delay_ms: int, error: Exception) -> None:
        """Print the cause above the table."""
        self._restarts = restarts
        super().on_restart(restarts, delay_ms, error)

    def render(self) -> RenderableType:
        """Return the current table."""
        from rich.box import ROUNDED
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        facts = Table.grid(padding=(0, 2))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column(overflow="fold")
        live = self._ask()
        if live is not None and self._live_since is None:
            self._live_since = self._clock() - _REPORT_S
        for label, text in self._lines(live):
            facts.add_row(label, Text(text))
        table = facts
        if live is not None:
            table = Table.grid()
            table.add_row(facts)
            table.add_row(_vertex_table(live))
        minutes, seconds = divmod(int(self._clock() - self._started), 60)
        title = f"{self._name}  {minutes:02}:{seconds:02}"
        return Panel(table, title=title, title_align="left", box=ROUNDED, expand=False)

    def _lines(self, live: ProgressReport | None) -> list[tuple[str, str]]:
        report = self._last
        if live is None and report is None:
            return [("status", "starting")]
        if live is not None:
            lines = self._pipelined_lines(live, report)
        else:
            assert report is not None
            checkpoint = f"checkpoint {report.checkpoint_s * 1000:,.0f} ms"
            lines = [
                (
                    "checkpoint_id",
                    f"{report.checkpoint_id:,}  {report.duration_s:.2f} s, of which {checkpoint}",
                ),
                ("records", f"{self._records:,}  {self._rate:,.0f}/s"),
                ("watermark", show_time(report.watermark)),
            ]
        if report is not None:
            lines.append(("state", f"{report.state_bytes / 1024:,.0f} KiB"))
        if self._sinks:
            written = "  ".join(f"{sink} {count:,}" for sink, count in self._sinks.items())
            lines.append(("written", written))
        if self._restarts:
            lines.append(("restarts", str(self._restarts)))
        return lines

    def _pipelined_lines(
        self, live: ProgressReport, report: CheckpointReport | None
    ) -> list[tuple[str, str]]:
        checkpoint = "none yet"
        if report is not None:
            ago = max(self._clock() - self._reported, 0.0)
            checkpoint = f"{report.checkpoint_id:,}  {ago:.0f} s ago, took {report.duration_s * 1000:,.0f} ms"
        # Records are counted at completed checkpoints; the rate is the current one.
        lines = [
            ("checkpoint", checkpoint),
            ("records", f"{self._records:,}  {live.records_in:,.0f}/s"),
        ]
        if live.latency.count:
            shares = (("p50", 0.5), ("p99", 0.99))
            shown = [
                f"{name} {_show_millis(live.latency.quantile(share))}" for name, share in shares
            ]
            lines.append(("latency", "  ".join(shown)))
        watermark = live.watermark if live.watermark is not None else _MIN
        lines.append(("watermark", show_time(watermark)))
        return lines

    def close(self, status: Any) -> None:
        """Replace the table by one line."""
        self._live.stop()
        busy = self._reported - self._first if self._first is not None else 0.0
        rate = self._records / max(busy, 1e-3)
        self._console.print(
            f"{self._name}: {status.name.lower()}, {self._records:,} records, {rate:,.0f} records/s",
            highlight=False,
            markup=False,
        )


def _vertex_table(live: ProgressReport) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("vertex", max_width=34, no_wrap=True, overflow="ellipsis")
    for heading, width in (("busy", 4), ("back-pressured", 14), ("in/s", 7), ("out/s", 7)):
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    for name, each in live.vertices:
        shares = (f"{each.busy:.0%}", f"{each.back_pressured:.0%}")
        table.add_row(Text(name), *shares, f"{each.records_in:,.0f}", f"{each.records_out:,.0f}")
    return table


def _show_millis(millis: float) -> str:
    """Format a duration.

    >>> _show_millis(0.314), _show_millis(12.6), _show_millis(1503)
    ('0.31 ms', '13 ms', '1.5 s')
    """
    if millis >= 1000:
        return f"{millis / 1000:.1f} s"
    return f"{millis:.0f} ms" if millis >= 10 else f"{millis:.2g} ms"


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


def create_progress(name: str, mode: str) -> Progress:
    """Choose by option `penstock.progress`: auto (a terminal gets the live table), always, never."""
    if mode == "always" or (mode == "auto" and sys.stderr.isatty()):
        return TerminalProgress(name)
    return QuietProgress()
