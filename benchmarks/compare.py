"""Penstock in both modes against PyFlink, Flink SQL and others: the same files, the same results, side by side."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers
from benchmarks.cases import Case
from benchmarks.data import DataSet
from benchmarks.runner import Run, Totals, run_job

# A run on this much data takes as long as the engine needs to start a job.
START_UP_RECORDS = 1_000

ENGINES: dict[str, tuple[str, tuple[str, ...]]] = {
    "Penstock": ("penstock", ("--config", "penstock.execution.mode=epochs")),
    "Penstock, pipelined": ("penstock", ("--config", "penstock.execution.mode=pipelined")),
    "Flink SQL (JVM)": ("sql", ()),
    "PyFlink, process": ("pyflink", ("--config", "python.execution-mode=process")),
    "PyFlink, thread": ("pyflink", ("--config", "python.execution-mode=thread")),
    **{name: (name, ()) for name in peers.PEERS},
}


@dataclass(frozen=True)
class Measurement:
    """An engine's time for a case, and its time for next to nothing."""

    engine: str
    records: int
    of_records: int
    seconds: float
    start_up: float

    @property
    def rate(self) -> float:
        """Records per second, end to end."""
        return self.records / self.seconds

    @property
    def steady_rate(self) -> float | None:
        """Records per second without the time that starting the job takes; None if that is most of it."""
        working = self.seconds - self.start_up
        if working < self.start_up / 2:
            return None
        return (self.records - START_UP_RECORDS) / working


def measure(case: Case, engine: str, work: Path, repeat: int) -> Measurement | None:
    """Run a case on an engine, check its output, and time it: the best of `repeat` runs."""
    kind, options = ENGINES[engine]
    if (kind == "sql" and case.sql is None) or engine in case.without:
        return None
    if kind in peers.PEERS and (case.script != "windowed_bids" or not peers.is_installed(kind)):
        return None
    script = case.sql if kind == "sql" and case.sql else case.script
    data = case.data if kind in {"penstock", "sql"} else case.capped
    times = repeat if kind in {"penstock", "sql"} else 1
    small = DataSet(START_UP_RECORDS, data.auctions)
    start_up = min(_checked(case, script, kind, options, small, work).seconds for _ in range(times))
    seconds = min(_checked(case, script, kind, options, data, work).seconds for _ in range(times))
    return Measurement(engine, data.records, case.data.records, seconds, start_up)


def _checked(
    case: Case, script: str, kind: str, options: tuple[str, ...], data: DataSet, work: Path
) -> Run:
    source, output = prepare(data, work)
    run = run_job(script, kind, source, output, *options)
    check(f"{case.title} on {kind}", run.totals, case.expect(source))
    return run


def prepare(data: DataSet, work: Path) -> tuple[Path, Path]:
    """Return where the data is and where a job may write: nothing is there yet."""
    output = work / "out"
    shutil.rmtree(output, ignore_errors=True)
    return data.write(work / "data"), output


def check(what: str, got: Totals, expected: Totals) -> None:
    """Refuse to compare engines that do not agree."""
    if got != expected:
        raise AssertionError(f"{what}: wrote {got}, expected {expected}")
