"""What a person sees of a running job."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from penstock.common.job_status import JobStatus
from penstock.jobmanager.metrics import progress_displays
from penstock.jobmanager.metrics.line_progress import LineProgress
from penstock.jobmanager.metrics.live_metrics import VertexMetrics
from penstock.jobmanager.metrics.progress import (
    CheckpointReport,
    JobEnd,
    JobStart,
    ProgressReport,
    QuietProgress,
)
from penstock.jobmanager.metrics.progress_displays import create_progress
from penstock.jobmanager.metrics.terminal_progress import TerminalProgress
from penstock.options.configuration import Configuration
from penstock.runtime.task.shared.task_metrics import LatencyHistogram


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def console():
    return Console(file=io.StringIO(), force_terminal=False, width=100)


def report(checkpoint_id, **changes):
    values = {
        "records_in": 500,
        "duration_s": 1.0,
        "watermark": 60_000,
        "state_bytes": 2048,
        "final": False,
        "checkpoint_s": 0.012,
        "sinks": {"alerts": 3, "late": 0},
    }
    return CheckpointReport(checkpoint_id=checkpoint_id, **(values | changes))


def shown(live, console) -> str:
    with console.capture() as capture:
        console.print(live.render())
    return capture.get()


@pytest.fixture
def live(console):
    clock = Clock()
    table = TerminalProgress("the job", "on Spark", console, clock)
    table.clock = clock
    yield table
    table.close(JobEnd(JobStatus.FINISHED))


def test_the_table_says_that_the_job_is_starting(live, console) -> None:
    assert "starting" in shown(live, console)


def test_the_table_adds_up_records_and_shows_the_last_epoch(live, console) -> None:
    live.clock.now = 5.0
    live.on_checkpoint(report(1))
    live.clock.now = 6.0
    live.on_checkpoint(report(2, records_in=700, watermark=120_000))
    text = shown(live, console)
    for part in ("the job  00:06", "2  1.00 s, of which checkpoint 12 ms", "1,200  700/s"):
        assert part in text
    for part in ("1970-01-01 00:02:00", "2 KiB", "alerts 6  late 0"):
        assert part in text
    assert "restarts" not in text


def test_the_time_before_the_first_epoch_is_not_a_part_of_the_rate(live, console) -> None:
    live.clock.now = 30.0
    live.on_checkpoint(report(1, duration_s=2.0))
    assert "500  250/s" in shown(live, console)


def now(**changes):
    values = {
        "records_in": 5_000.0,
        "latency": LatencyHistogram([1.2] * 99 + [30.0]),
        "watermark": 60_000,
        "vertices": (
            ("Source: numbers", VertexMetrics(busy=0.12, back_pressured=0.5, records_out=5_000)),
            ("sum -> Sink", VertexMetrics(busy=0.98, records_in=5_000)),
        ),
    }
    return ProgressReport(**(values | changes))


def test_of_a_pipelined_job_the_table_shows_latency_and_how_busy_its_vertices_are(live, console):
    live.watch(now)
    live.clock.now = 5.0
    live.on_checkpoint(report(1, duration_s=0.035))
    live.clock.now = 8.0
    lines = shown(live, console).splitlines()
    text = "\n".join(lines)
    for part in ("1  3 s ago, took 35 ms", "500  5,000/s", "p50 1.2 ms  p99", "00:01:00", "2 KiB"):
        assert part in text
    (source,) = (line.split() for line in lines if "numbers" in line)
    assert source[-6:-1] == ["numbers", "12%", "50%", "0", "5,000"]
    (last,) = (line.split() for line in lines if "Sink" in line)
    assert last[-5:-1] == ["98%", "0%", "5,000", "0"]


def test_a_pipelined_job_is_shown_before_its_first_checkpoint(live, console) -> None:
    live.watch(lambda: now(latency=LatencyHistogram(), watermark=None))
    text = shown(live, console)
    assert "none yet" in text
    assert "latency" not in text


def test_restarts_are_counted_and_explained(live, console, capsys) -> None:
    live.on_checkpoint(report(1))
    live.on_restart(1, 1000, RuntimeError("boom"))
    assert "restarts" in shown(live, console)


def test_of_a_long_reason_the_end_is_shown(capsys) -> None:
    lines = [f"line {number}" for number in range(40)]
    QuietProgress().on_restart(2, 0, RuntimeError("\n".join(lines)))
    shown_lines = capsys.readouterr().err.splitlines()
    assert shown_lines == ["job failed, restart 2 in 0 ms:", "...", *lines[-12:]]


def test_the_end_leaves_one_line(console) -> None:
    clock = Clock()
    live = TerminalProgress("the job", "on Spark", console, clock)
    clock.now = 2.0
    live.on_checkpoint(report(1))
    live.close(JobEnd(JobStatus.CANCELED))
    assert console.file.getvalue().splitlines()[-1] == (
        "job 'the job' canceled after 2.0 s: 500 records in (500/s), 3 out, 1 checkpoint, 0 restarts, "
        "0 late records dropped"
    )


@pytest.mark.parametrize(
    ("mode", "terminal", "kind"),
    [
        ("never", True, "QuietProgress"),
        ("auto", False, "LineProgress"),
        ("lines", True, "LineProgress"),
        ("auto", True, "TerminalProgress"),
        ("always", False, "TerminalProgress"),
    ],
)
def test_the_option_and_the_terminal_decide(monkeypatch, mode, terminal, kind) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(progress_displays.sys, "stderr", stream)
    options = Configuration.from_dict({"penstock.progress": mode})
    chosen = create_progress("the job", options, "on Spark")
    chosen.close(JobEnd(JobStatus.FINISHED))
    assert type(chosen).__name__ == kind


def test_the_end_of_a_pipelined_job_tells_its_speed_from_its_first_report_on(console) -> None:
    clock = Clock()
    live = TerminalProgress("the job", "on Spark", console, clock)
    live.watch(now)
    clock.now = 11.0
    live.render()  # subtasks have run for a second
    clock.now = 15.0
    live.on_checkpoint(report(1, duration_s=0.05))
    live.close(JobEnd(JobStatus.FINISHED))
    assert (
        console.file.getvalue()
        .splitlines()[-1]
        .startswith("job 'the job' finished after 15.0 s: 500 records in (100/s)")
    )


def test_the_table_of_vertices_fits_a_terminal_of_80_columns() -> None:
    narrow = Console(file=io.StringIO(), force_terminal=False, width=80)
    live = TerminalProgress("the job", "on Spark", narrow, Clock())
    live.watch(
        lambda: now(
            vertices=(
                (
                    "a vertex with a long name of many operators " * 3,
                    VertexMetrics(busy=1.0, records_in=1e6),
                ),
            )
        )
    )
    text = shown(live, narrow)
    live.close(JobEnd(JobStatus.FINISHED))
    for part in ("busy", "back-pressured", "in/s", "out/s", "100%", "1,000,000"):
        assert part in text


START = JobStart("1a2b3c4d5e6f", pipelined=True, reason="a source is unbounded", parallelism=4)


class Page:
    """The page of a process: known from the moment on that it is served."""

    def __init__(self) -> None:
        self.waiting = []

    def __call__(self, tell) -> None:
        self.waiting.append(tell)

    def serve(self) -> None:
        for tell in self.waiting:
            tell("http://localhost:8081")


def test_without_a_terminal_the_start_and_the_end_are_a_line_each(capsys) -> None:
    clock = Clock()
    lines = LineProgress("clicks", "on Spark (local[4])", clock=clock)
    lines.on_start(START)
    clock.now = 10.0
    lines.on_checkpoint(report(1))
    lines.on_checkpoint(report(2))
    lines.on_restart(1, 0, RuntimeError("boom"))
    clock.now = 14.0
    lines.close(JobEnd(JobStatus.FINISHED, records_in=1250, records_out=7, late=1))
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        (
            "job 'clicks' (1a2b3c4d5e6f) starts on Spark (local[4]) in pipelined mode "
            "(a source is unbounded), parallelism 4"
        ),
        "job failed, restart 1 in 0 ms:",
        "boom",
        (
            "job 'clicks' finished after 14.0 s: 1,250 records in (250/s), 7 out, 2 checkpoints, 1 restart, "
            "1 late record dropped"
        ),
    ]


def test_a_line_for_each_checkpoint_is_an_option(capsys) -> None:
    lines = LineProgress("clicks", "in this process", checkpoints=True, clock=Clock())
    lines.on_checkpoint(report(7, duration_s=0.0351, records_in=1))
    assert capsys.readouterr().err == (
        "job 'clicks': checkpoint 7 completed in 35 ms, 1 record in, watermark 1970-01-01 00:01:00, state 2 KiB\n"
    )


def test_in_a_terminal_the_same_line_of_a_checkpoint_is_above_the_table(console) -> None:
    live = TerminalProgress("clicks", "on Spark", console, Clock(), checkpoints=True)
    live.on_checkpoint(report(7))
    live.close(JobEnd(JobStatus.FINISHED))
    assert "job 'clicks': checkpoint 7 completed in 1,000 ms" in console.file.getvalue()


def test_the_page_is_announced_when_it_is_served_and_never_after_the_end(capsys) -> None:
    page = Page()
    lines = LineProgress("clicks", "in this process", when_served=page)
    lines.on_start(START)
    page.serve()
    assert capsys.readouterr().err.splitlines()[1:] == [
        "job 'clicks' is on the page http://localhost:8081; to log in: penstock page 1a2b3c4d --open"
    ]
    lines.close(JobEnd(JobStatus.FINISHED))
    capsys.readouterr()
    page.serve()
    assert capsys.readouterr().err == ""


def test_a_page_that_is_served_already_is_part_of_the_first_line(capsys) -> None:
    lines = LineProgress(
        "clicks", "in this process", when_served=lambda tell: tell("http://localhost:8081")
    )
    lines.on_start(START)
    assert capsys.readouterr().err == (
        "job 'clicks' (1a2b3c4d5e6f) starts in this process in pipelined mode (a source is unbounded), parallelism 4, "
        "page http://localhost:8081\n"
    )


def test_the_table_says_what_runs_where(live, console) -> None:
    page = Page()
    live._when_served = page
    live.on_start(START)
    assert "Spark, pipelined mode (a source is unbounded), parallelism 4" in shown(live, console)
    page.serve()
    assert "http://localhost:8081" in shown(live, console)
