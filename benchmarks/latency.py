"""`python -m benchmarks.latency`: how old a record is behind one keyed exchange, with exactly-once checkpoints every second.

All engines read the same feed (`feed.py`) at the same rates, one after another, and a function of the job notes the age of each
record behind the exchange. The age counts from when a record was due, so an engine that does not keep up shows it.
"""

from __future__ import annotations

import argparse
import array
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import peers, report
from benchmarks.feed import TIMEOUT_S, Feed, Phase, plan
from benchmarks.runner import HERE, JOBS, PYFLINK, environment_of

ROOT = HERE.parent
RATES = (1_000, 10_000, 50_000)
QUANTILES = (0.5, 0.99, 0.999)
LATE_S = 30.0  # how long an engine may need for what is left when the feed has hung up
QUIET_S = 5.0  # one that notes no ages for so long has nothing left


@dataclass(frozen=True)
class Engine:
    """Something that reads the feed: its process gets `--input host:port --output directory`."""

    name: str
    command: tuple[str, ...]
    kind: str = "penstock"  # whose environment variables it needs

    @property
    def is_installed(self) -> bool:
        return Path(self.command[0]).exists()


def penstock(name: str, *options: str) -> Engine:
    """A way to run our own job."""
    script = str(JOBS / "latency.py")
    configured = [part for option in options for part in ("--config", option)]
    return Engine(name, (sys.executable, script, "--engine", "penstock", *configured))


def pyflink(name: str, mode: str, *options: str) -> Engine:
    """A way to run the same job in PyFlink."""
    settings = (f"python.execution-mode={mode}", *options)
    configured = [part for option in settings for part in ("--config", option)]
    script = str(JOBS / "latency.py")
    return Engine(name, (str(PYFLINK), script, "--engine", "pyflink", *configured), "pyflink")


def peer(name: str) -> Engine:
    """Another library, in its own environment."""
    return Engine(name, tuple(peers.command(name, "latency")), name)


ENGINES = [
    penstock("Penstock, pipelined", "penstock.execution.mode=pipelined"),
    # Not in epochs: Spark may give a slot to another process for the next one, and a socket cannot follow.
    # Its default collects records for up to a second before it hands them to Python.
    pyflink("PyFlink, process", "process", "python.fn-execution.bundle.time=10"),
    pyflink("PyFlink, thread", "thread"),
    *(peer(name) for name in peers.PEERS),
]
OURS = ENGINES[0].name
COLOURS = {**report.COLOURS, OURS: "#1b3f8b"}


@dataclass(frozen=True)
class Ages:
    """The ages of the records of one phase, in milliseconds, at some quantiles; and how many records there were."""

    rate: int
    sent: int
    found: int
    quantiles: tuple[float, ...]

    @property
    def kept_up(self) -> bool:
        """Whether the engine read at the rate of the feed."""
        return self.found >= 0.98 * self.sent and self.quantiles[0] < 1_000


def measure(
    engine: Engine, phases: Sequence[Phase], work: Path, root: Path | None = None
) -> list[Ages]:
    """Run an engine over all phases; Penstock from the tree `root`, if it is given."""
    output = work / "latency"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    feed = Feed(phases, lambda: any(output.rglob("*.ages")))
    feed.start()
    command = [*engine.command, "--input", f"127.0.0.1:{feed.port}", "--output", str(output)]
    environment = environment_of(engine.kind)
    if root is not None:
        environment["PYTHONPATH"] = str(root)
    log = output / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )
        try:
            limit = sum(phase.seconds for phase in phases) * 2 + TIMEOUT_S
            _wait(process, feed, limit, output)
        finally:
            _end(process)
    if process.returncode not in {0, -signal.SIGTERM, -signal.SIGKILL}:
        raise RuntimeError(f"{engine.name} failed:\n{log.read_text(errors='replace')[-4000:]}")
    return read_ages(output, phases)


def _wait(process: subprocess.Popen[bytes], feed: Feed, limit: float, output: Path) -> None:
    """Wait for the feed to be read, and for the engine to end or to have nothing more."""
    deadline = time.monotonic() + limit
    while feed.is_alive() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    deadline = time.monotonic() + LATE_S
    while process.poll() is None and time.monotonic() < deadline:
        noted = max((path.stat().st_mtime for path in output.rglob("*.ages")), default=0.0)
        if time.time() - noted > QUIET_S:
            return
        time.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let nothing of an engine disturb the next one."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(5)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def read_ages(output: Path, phases: Sequence[Phase]) -> list[Ages]:
    """Read what the job's functions noted: microseconds and phase in one number."""
    import numpy as np

    noted = array.array("q")
    for path in output.rglob("*.ages"):
        noted.frombytes(path.read_bytes())
    numbers = np.frombuffer(noted, dtype=np.int64)
    measured = []
    for phase in phases:
        if phase.number:
            ages = numbers[numbers % 16 == phase.number] // 16 / 1000
            quantiles = tuple(np.quantile(ages, QUANTILES)) if len(ages) else (float("inf"),) * 3
            sent = int(phase.rate * phase.seconds)
            measured.append(Ages(phase.rate, sent, len(ages), tuple(map(float, quantiles))))
    return measured


def show(results: dict[str, list[Ages]]) -> Table:
    """One line for each rate and engine; the ratio is that of p99."""
    table = Table(title=f"Age of a record behind one keyed exchange, ms ({report.machine()})")
    for column in ("records/s", "engine"):
        table.add_column(column)
    for column in ("p50", "p99", "p99.9", "p99: times Penstock's"):
        table.add_column(column, justify="right")
    rates = [ages.rate for ages in next(iter(results.values()), [])]
    for number, rate in enumerate(rates):
        ours = results[OURS][number] if OURS in results else None
        for name, measured in results.items():
            ages = measured[number]
            shown = [f"{value:,.1f}" for value in ages.quantiles] if ages.found else ["-"] * 3
            ratio = ages.quantiles[1] / ours.quantiles[1] if ours and name != OURS else None
            reported = "does not keep up" if not ages.kept_up else f"{ratio:,.1f}x" if ratio else ""
            first = next(iter(results)) == name
            last = list(results)[-1] == name
            table.add_row(f"{rate:,}" if first else "", name, *shown, reported, end_section=last)
    table.caption = (
        "From the moment a record was due until a Python function behind the exchange has it. Exactly-once checkpoints every "
        f"second, where there are any. {peers.NOTES}"
    )
    return table


def draw(results: dict[str, list[Ages]], directory: Path) -> None:
    """Draw p50 and p99 at each rate as latency.svg; an engine that does not keep up has no bar there."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib import pyplot as plt

    rates = [ages.rate for ages in next(iter(results.values()))]
    figure, panels = plt.subplots(
        1, len(rates), figsize=(3.2 * len(rates), 0.9 + 0.38 * len(results))
    )
    for number, (rate, axes) in enumerate(zip(rates, panels, strict=True)):
        for place, (name, measured) in enumerate(results.items()):
            ages = measured[number]
            if not ages.kept_up:
                axes.text(0.12, place, "does not keep up", va="center", fontsize=7, color="#777777")
                continue
            p50, p99, _ = ages.quantiles
            axes.plot(
                [p50, p99], [place, place], color=COLOURS[name], linewidth=5, solid_capstyle="butt"
            )
            axes.plot([p50], [place], "o", color=COLOURS[name], markersize=5)
            axes.text(p99 * 1.25, place, f"{p99:,.1f}", va="center", fontsize=7)
        axes.set_xscale("log")
        axes.set_xlim(0.1, 20_000)
        axes.set_title(f"{rate:,} records/s", fontsize=9)
        axes.set_yticks(
            range(len(results)), list(results) if number == 0 else [""] * len(results), fontsize=8
        )
        axes.invert_yaxis()
        axes.tick_params(axis="x", labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(
        "age of a record behind the exchange: p50 (dot) to p99, ms (logarithmic)", fontsize=8
    )
    figure.text(0.99, 0.01, report.machine(), ha="right", fontsize=6, color="#777777")
    figure.tight_layout()
    directory.mkdir(parents=True, exist_ok=True)
    figure.savefig(directory / "latency.svg", metadata={"Date": None})
    plt.close(figure)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--engine", action="append", choices=[each.name for each in ENGINES])
    parser.add_argument("--rate", action="append", type=int, help="records per second")
    parser.add_argument(
        "--warm-up", type=float, default=4.0, help="seconds, from the first record on"
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="measured at each rate")
    parser.add_argument("--work", type=Path, default=HERE / ".work")
    parser.add_argument("--draw", action="store_true", help="draw docs/images/latency.svg")
    return parser.parse_args()


def run(
    work: Path, engines: Sequence[str] | None, rates: Sequence[int], warm_up: float, seconds: float
) -> dict[str, list[Ages]]:
    """Measure all engines that are installed, or those asked for."""
    phases = plan(rates, warm_up_s=warm_up, settle_s=2.0, measured_s=seconds)
    results = {}
    for engine in ENGINES:
        if engines and engine.name not in engines:
            continue
        if not engine.is_installed:
            report.console.print(f"{engine.name} is not installed (tools/setup.sh bench)")
            continue
        with report.console.status(engine.name):
            results[engine.name] = measure(engine, phases, work)
        figures: list[Any] = [
            f"{a.quantiles[0]:.1f} / {a.quantiles[1]:.1f}" for a in results[engine.name]
        ]
        report.console.print(
            f"{engine.name:22} p50 / p99 (ms): {', '.join(figures)}", highlight=False
        )
    return results


def main() -> None:
    args = parse()
    report.warn_if_busy()
    rates = tuple(args.rate or RATES)
    results = run(args.work.resolve(), args.engine, rates, args.warm_up, args.seconds)
    report.console.print(show(results))
    report.save(args.work / "results.json", latency=results)
    if args.draw:
        draw(results, ROOT / "docs" / "images")


if __name__ == "__main__":
    main()
