"""The lines that tell how a job runs: at its start, at a checkpoint, at its end. Pure, and the same in a terminal and elsewhere."""

from __future__ import annotations

from penstock.jobmanager.metrics.progress import CheckpointReport, JobEnd, JobStart, show_time


class RunTotals:
    """What a run adds up to: records, their rate, sinks, checkpoints, restarts. Times are in seconds of any clock."""

    def __init__(self, now: float) -> None:
        self.started = now
        #: When the last checkpoint was completed
        self.reported = now
        #: When the first records may have been read: starting Spark does not count for the rate
        self.reading_since: float | None = None
        self.records = 0
        self.rate = 0.0  # between the last two checkpoints
        self.checkpoints = 0
        self.restarts = 0
        self.sinks: dict[str, int] = {}

    def add(self, report: CheckpointReport, now: float) -> None:
        """Add a completed checkpoint."""
        if self.reading_since is None:
            self.reading_since = now - report.duration_s
        if self.checkpoints == 0:
            self.reported = self.reading_since
        self.rate = report.records_in / max(now - self.reported, 1e-3)
        self.reported = now
        self.records += report.records_in
        self.checkpoints += 1
        for sink, count in report.sinks.items():
            self.sinks[sink] = self.sinks.get(sink, 0) + count

    def begin_reading(self, now: float) -> None:
        """Note that subtasks run: their first reports arrived."""
        if self.reading_since is None:
            self.reading_since = now

    def end_text(self, name: str, end: JobEnd, now: float) -> str:
        """Return the summary of a job that has ended."""
        records = max(end.records_in, self.records)
        since = self.started if self.reading_since is None else self.reading_since
        rate = round(records / max(now - since, 1e-3))
        parts = [
            f"{counted(records, 'record')} in" + (f" ({rate:,}/s)" if rate else ""),
            f"{max(end.records_out, sum(self.sinks.values())):,} out",
            counted(self.checkpoints, "checkpoint"),
            counted(self.restarts, "restart"),
            f"{counted(end.late, 'late record')} dropped",
        ]
        seconds = max(now - self.started, 0.0)
        return f"job '{name}' {end.status.name.lower()} after {seconds:.1f} s: {', '.join(parts)}"


def start_text(name: str, start: JobStart, where: str, page: str | None = None) -> str:
    """Return what runs where.

    >>> start = JobStart("1a2b", pipelined=False, reason="BATCH job", parallelism=2)
    >>> start_text("clicks", start, "on Spark (local[2])")
    "job 'clicks' (1a2b) starts on Spark (local[2]) in epoch mode (BATCH job), parallelism 2"
    """
    at = "" if page is None else f", page {page}"
    return f"job '{name}' ({start.job_id}) starts {where} in {start.mode}, parallelism {start.parallelism}{at}"


def page_text(name: str, start: JobStart, page: str) -> str:
    """Return where the web page of a job is. The token that logs in is not shown, because output may be kept in logs."""
    return f"job '{name}' is on the page {page}; to log in: penstock page {start.job_id[:8]} --open"


def checkpoint_text(name: str, report: CheckpointReport) -> str:
    """Return a completed checkpoint in one line.

    >>> checkpoint_text("clicks", CheckpointReport(3, 1200, 0.0353, 0, 2048, False))
    "job 'clicks': checkpoint 3 completed in 35 ms, 1,200 records in, watermark 1970-01-01 00:00:00, state 2 KiB"
    """
    parts = [
        f"checkpoint {report.checkpoint_id} completed in {report.duration_s * 1000:,.0f} ms",
        f"{counted(report.records_in, 'record')} in",
        f"watermark {show_time(report.watermark)}",
        f"state {report.state_bytes / 1024:,.0f} KiB",
    ]
    return f"job '{name}': {', '.join(parts)}"


def counted(number: int, what: str) -> str:
    """Return a number of things.

    >>> counted(1, "restart"), counted(2000, "restart")
    ('1 restart', '2,000 restarts')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
