"""Runs the test suites and prints how long each of them took.

`python tools/run_tests.py` runs the tests of `make test`; with `--full` those that are marked `full` as well. Further arguments go to
pytest. There are two lanes, which run side by side: the suites that run in one process, spread over workers, and the suites that start
Spark, servers and other processes, one after another, because only one Spark session runs at a time. Output of the second lane is shown
when a suite ends. All suites run, also if one fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NO_TESTS = 5  # pytest's exit code if nothing was selected


@dataclass(frozen=True)
class Suite:
    """Some folders of tests that one pytest process runs, with its arguments."""

    name: str
    folders: tuple[str, ...]
    arguments: tuple[str, ...] = ()

    def command(self, more: Sequence[str], modules: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs the suite, or only some modules of it."""
        paths = modules or [f"tests/{folder}" for folder in self.folders]
        return [sys.executable, "-m", "pytest", "-q", *self.arguments, *more, *paths]


@dataclass(frozen=True)
class Outcome:
    """How a suite ended, and after how many seconds."""

    name: str
    exit_code: int
    seconds: float
    summary: str

    @property
    def passed(self) -> bool:
        """Whether the suite counts as passed."""
        return self.exit_code in {0, NO_TESTS}

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "FAILED"
        return f"{self.name:<24}{verdict:<8}{self.seconds:7.0f} s  {self.summary}"


# More workers than cores, because jobs in tests wait for each other more than they compute. A worker without tests takes over those of
# another, so that no worker is left alone with the slow ones at the end.
WORKERS = ("-n", str(2 * (os.cpu_count() or 2)), "--dist", "worksteal")
IN_PROCESS = (Suite("unit, jobs, sql, zoo", ("unit", "jobs", "sql", "zoo"), WORKERS),)
WITH_PROCESSES = (
    Suite("connectors", ("connectors",), ("-n", "2", "--dist", "loadgroup")),
    Suite("spark", ("spark",)),
    Suite("faults", ("faults",)),
    Suite("e2e", ("e2e",)),
)
SUITES = (*IN_PROCESS, *WITH_PROCESSES)
# What `make test` runs of them: the tests without the marker `full`, with a part of the examples that Hypothesis makes.
CI_PART = ("-m", "not full", "--hypothesis-profile=ci")


def run_suite(suite: Suite, arguments: Sequence[str], *, live: bool) -> Outcome:
    """Run a suite; show its output as it comes, or all of it at the end."""
    started = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        suite.command(arguments),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if live:
                sys.stdout.write(line)
                sys.stdout.flush()
    if not live:
        sys.stdout.write(f"\n=== {suite.name} ===\n{''.join(lines)}")
        sys.stdout.flush()
    summary = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return Outcome(suite.name, process.returncode, time.monotonic() - started, summary)


def run_lanes(lanes: Sequence[Sequence[Suite]], arguments: Sequence[str]) -> list[Outcome]:
    """Run lanes side by side and the suites of each one after another; return how they ended, in order."""
    outcomes: list[list[Outcome]] = [[] for _ in lanes]

    def run_lane(number: int) -> None:
        for suite in lanes[number]:
            outcomes[number].append(run_suite(suite, arguments, live=number == 0))

    threads = [threading.Thread(target=run_lane, args=(number,)) for number in range(len(lanes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcome for lane in outcomes for outcome in lane]


def main(arguments: Sequence[str]) -> int:
    """Run the suites; return the exit code."""
    parser = argparse.ArgumentParser(description="run the test suites")
    parser.add_argument(
        "--full", action="store_true", help="also run the tests that are marked full"
    )
    options, more = parser.parse_known_args(arguments)
    selected = [*(() if options.full else CI_PART), *more]
    outcomes = run_lanes((IN_PROCESS, WITH_PROCESSES), selected)
    print("\n=== suites ===", *outcomes, sep="\n", flush=True)
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
