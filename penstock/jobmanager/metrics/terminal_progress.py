"""The live table of a running job in a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.jobmanager.metrics.line_progress import WhenServed, not_served
from penstock.jobmanager.metrics.progress import (
    CheckpointReport,
    JobEnd,
    JobStart,
    ProgressReport,
    QuietProgress,
    show_time,
)
from penstock.jobmanager.metrics.progress_texts import RunTotals, checkpoint_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_MIN = -(2**63)
_REPORT_S = 1.0  # until the first reports in pipelined mode


class TerminalProgress(QuietProgress):
    """A small table on standard error that is updated while the job runs, and one line when it has ended."""

    def __init__(
        self,
        name: str,
        where: str = "",
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        checkpoints: bool = False,
        when_served: WhenServed = not_served,
    ) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__()
        self._name = name
        self._where = where
        self._clock = clock
        self._totals = RunTotals(clock())
        self._start: JobStart | None = None
        self._page: str | None = None
        self._last: CheckpointReport | None = None
        self._checkpoints = checkpoints
        self._when_served = when_served
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

    def on_start(self, start: JobStart) -> None:
        """Show what runs and where."""
        self._start = start
        self._when_served(self._serve)

    def _serve(self, page: str) -> None:
        self._page = page

    def watch(self, live: Callable[[], ProgressReport | None]) -> None:
        """Set the function that is called when the table is drawn."""
        self._ask = live

    def on_checkpoint(self, report: CheckpointReport) -> None:
        """Update the table with the epoch's numbers; if wanted, print a line above it."""
        self._totals.add(report, self._clock())
        self._last = report
        if self._checkpoints:
            self._print(checkpoint_text(self._name, report))

    def on_restart(self, restarts: int, delay_ms: int, error: Exception) -> None:
        """Print the cause above the table."""
        self._totals.restarts = restarts
        super().on_restart(restarts, delay_ms, error)

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

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
        if live is not None:
            self._totals.begin_reading(self._clock() - _REPORT_S)
        for label, text in [*self._place(), *self._lines(live)]:
            facts.add_row(label, Text(text))
        table = facts
        if live is not None:
            table = Table.grid()
            table.add_row(facts)
            table.add_row(_vertex_table(live))
        minutes, seconds = divmod(int(self._clock() - self._totals.started), 60)
        title = f"{self._name}  {minutes:02}:{seconds:02}"
        return Panel(table, title=title, title_align="left", box=ROUNDED, expand=False)

    def _place(self) -> list[tuple[str, str]]:
        """Return what runs where: the facts of the line that starts the output elsewhere."""
        if self._start is None:
            return []
        mode = f"{self._start.mode}, parallelism {self._start.parallelism}"
        lines = [("runs", f"{self._where.removeprefix('on ')}, {mode}")]
        return lines if self._page is None else [*lines, ("page", self._page)]

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
                    "checkpoint",
                    f"{report.checkpoint_id:,}  {report.duration_s:.2f} s, of which {checkpoint}",
                ),
                ("records", f"{self._totals.records:,}  {self._totals.rate:,.0f}/s"),
                ("watermark", show_time(report.watermark)),
            ]
        if report is not None:
            lines.append(("state", f"{report.state_bytes / 1024:,.0f} KiB"))
        if self._totals.sinks:
            written = "  ".join(f"{sink} {count:,}" for sink, count in self._totals.sinks.items())
            lines.append(("written", written))
        if self._totals.restarts:
            lines.append(("restarts", str(self._totals.restarts)))
        return lines

    def _pipelined_lines(
        self, live: ProgressReport, report: CheckpointReport | None
    ) -> list[tuple[str, str]]:
        checkpoint = "none yet"
        if report is not None:
            ago = max(self._clock() - self._totals.reported, 0.0)
            checkpoint = f"{report.checkpoint_id:,}  {ago:.0f} s ago, took {report.duration_s * 1000:,.0f} ms"
        # Records are counted at completed checkpoints; the rate is the current one.
        lines = [
            ("checkpoint", checkpoint),
            ("records", f"{self._totals.records:,}  {live.records_in:,.0f}/s"),
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

    def close(self, end: JobEnd) -> None:
        """Replace the table by the summary."""
        self._live.stop()
        self._print(self._totals.end_text(self._name, end, self._clock()))


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
