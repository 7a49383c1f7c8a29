"""`python -m benchmarks.nexmark.compare`: Nexmark's queries over the same files, on Flink SQL and on Penstock, in turns, in one run.

Flink runs in its JVM (nothing of a query is Python there), with object reuse, mini-batches and split distinct aggregates. Rows go to `blackhole`, those of q10 to files. Each engine starts anew for each query; what the start takes is
measured by the same query over a thousand events, and the steady rate is of the rest. With `--check`, final tables are compared instead, over few events.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.nexmark.files import Files
from benchmarks.nexmark.generator import Nexmark
from benchmarks.nexmark.tables import statements
from benchmarks.runner import HERE, PYFLINK, environment_of

QUERIES: Final = tuple(f"q{number}" for number in range(24))
NOT_BY_FLINK: Final = {"q6": "OVER on a changing input", "q13": "files cannot be looked up"}
ENGINES: Final = ("flink", "penstock")
JARS: Final = (
    "org.apache.flink:flink-sql-parquet:2.3.0",
    "org.apache.flink:flink-shaded-hadoop-2-uber:2.8.3-10.0",
)
FEW: Final = 1_000
OPTIONS: Final = {
    "parallelism.default": "2",
    "table.local-time-zone": "UTC",
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}


@dataclass(frozen=True)
class Measured:
    """A query on an engine: events, seconds, and those of the start alone."""

    query: str
    engine: str
    events: int
    seconds: float
    start: float

    @property
    def steady(self) -> float:
        """Events per second after the start."""
        return self.events / max(self.seconds - self.start, 0.01)


def jars(work: Path) -> list[Path]:
    """Return what Flink needs to read Parquet, fetched with Maven if it is not here yet."""
    found = []
    for each in JARS:
        _, name, version = each.split(":")
        jar = work / f"{name}-{version}.jar"
        if not jar.exists():
            fetch = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={each}"]
            subprocess.run([*fetch, f"-DoutputDirectory={work}"], check=True)
        found.append(jar)
    return found


class Runner:
    """Runs queries of both engines, each in a process of its own."""

    def __init__(self, work: Path, form: str, timeout: float) -> None:
        self._work = work
        self._form = form
        self._timeout = timeout
        self._jars = jars(work)

    def run(self, engine: str, query: str, home: Path, **more: str) -> str:
        """Run a query once; return what it printed."""
        text = (HERE / "nexmark" / "queries" / f"{query}.sql").read_text()
        options = dict(OPTIONS)
        if engine == "flink":
            options["pipeline.jars"] = ";".join(f"file://{jar}" for jar in self._jars)
        else:
            options["spark.master"] = "local[2]"
        with tempfile.TemporaryDirectory(dir=self._work) as directory:
            if query == "q10" and "collect" not in more:
                more["files"] = f"{directory}/files"
            asked = Path(directory, "asked.json")
            tables = statements(str(home), self._form)
            asked.write_text(
                json.dumps({"query": text, "tables": tables, "options": options, **more})
            )
            python = str(PYFLINK) if engine == "flink" else sys.executable
            command = [python, str(HERE / "nexmark" / "job.py"), str(asked)]
            environment = environment_of("pyflink" if engine == "flink" else engine)
            if engine == "flink":
                environment["FLINK_ENV_JAVA_OPTS"] = "-Xmx8g"
            else:
                command.append("penstock")
                environment["PYTHONPATH"] = str(HERE.parent)
            ran = subprocess.run(
                command,
                capture_output=True,
                text=True,
                env=environment,
                timeout=self._timeout,
                check=False,
            )
        if ran.returncode:
            raise RuntimeError(f"{query} on {engine}: {ran.stderr.strip()[-800:]}")
        return ran.stdout

    def seconds(self, engine: str, query: str, home: Path) -> float:
        """Run a query once; return how long its job took."""
        found = re.findall(r"^\{.*\}$", self.run(engine, query, home), re.MULTILINE)
        return float(json.loads(found[-1])["seconds"])


def measure(args: argparse.Namespace) -> list[Measured]:
    args.work.mkdir(parents=True, exist_ok=True)
    runner = Runner(args.work, args.format, args.timeout)
    few = Files(Nexmark(FEW, args.rate), args.format).write(args.work)
    many = Files(Nexmark(args.events, args.rate), args.format).write(args.work)
    found = []
    for query in args.query or QUERIES:
        for engine in args.engine or ENGINES:
            if engine == "flink" and query in NOT_BY_FLINK:
                continue
            start = runner.seconds(engine, query, few)
            best = min(runner.seconds(engine, query, many) for _ in range(args.rounds))
            found.append(Measured(query, engine, args.events, best, start))
            print(
                f"{query} {engine}: {best:.2f} s, start {start:.2f} s, {found[-1].steady:,.0f} events/s",
                flush=True,
            )
    return found


def check(args: argparse.Namespace) -> None:
    """Compare final tables."""
    args.work.mkdir(parents=True, exist_ok=True)
    runner = Runner(args.work, args.format, args.timeout)
    home = Files(Nexmark(30_000, 1_000), args.format, files=1).write(args.work)
    for query in args.query or QUERIES:
        if query in NOT_BY_FLINK or query == "q12":
            continue
        tables = []
        for engine in ENGINES:
            target = args.work / f"{query}-{engine}.json"
            runner.run(engine, query, home, collect=str(target))
            tables.append(json.loads(target.read_text())["rows"])
        print(query, "equal" if tables[0] == tables[1] else "DIFFERENT", len(tables[0]), flush=True)


def ratios(found: list[Measured]) -> dict[str, tuple[float, float]]:
    """Return for each query how many times as fast Penstock is: after the start, and with it."""
    by = {(each.query, each.engine): each for each in found}
    return {
        query: (
            ours.steady / by[query, "flink"].steady,
            by[query, "flink"].seconds / ours.seconds,
        )
        for (query, engine), ours in by.items()
        if engine == "penstock" and (query, "flink") in by
    }


def mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def show(found: list[Measured]) -> Table:
    table = Table(title=f"Nexmark, events per second ({report.machine()})")
    for column in ("query", "Flink SQL", "Penstock", "times Flink", "times Flink, with the start"):
        table.add_column(column, justify="right")
    by = {(each.query, each.engine): each for each in found}
    compared = ratios(found)
    for query in dict.fromkeys(each.query for each in found):
        shown = [
            f"{by[query, engine].steady:,.0f}" if (query, engine) in by else ""
            for engine in ENGINES
        ]
        pair = compared.get(query)
        table.add_row(
            query, *shown, *(["", ""] if pair is None else [f"{each:.2f}" for each in pair])
        )
    if compared:
        both = [mean([pair[at] for pair in compared.values()]) for at in (0, 1)]
        table.add_row("mean", "", "", *(f"{each:.2f}" for each in both))
    return table


def draw(found: list[Measured], target: Path) -> None:
    """Draw how many times as fast as Flink each query is."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib import pyplot as plt

    compared = ratios(found)
    names = list(compared)
    figure, axes = plt.subplots(figsize=(9, 3.2))
    axes.bar(names, [compared[name][0] for name in names], color="#3b7dd8")
    axes.axhline(1, color="#888888", linewidth=1)
    axes.set_ylabel("times Flink SQL")
    axes.set_title("Nexmark: events per second, Flink SQL 2.3 = 1 (2 cores)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nexmark.compare", description=__doc__
    )
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="events per second of event time")
    parser.add_argument("--format", choices=["parquet", "csv"], default="parquet")
    parser.add_argument("--query", action="append", choices=QUERIES)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--rounds", type=int, default=1, help="the best of so many")
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--check", action="store_true", help="compare final tables instead")
    parser.add_argument("--draw", type=Path, help="an SVG file")
    parser.add_argument("--save", type=Path, help="figures as JSON; added to those that are there")
    parser.add_argument("--work", type=Path, default=HERE / ".work")
    return parser.parse_args()


def main() -> None:
    args = parse()
    if args.check:
        check(args)
        return
    found = measure(args)
    if args.save is not None:
        before = json.loads(args.save.read_text()) if args.save.exists() else []
        kept = [Measured(**each) for each in before]
        new = {(each.query, each.engine) for each in found}
        found = [each for each in kept if (each.query, each.engine) not in new] + found
        found.sort(key=lambda each: (int(each.query[1:]), each.engine))
        args.save.write_text(json.dumps([vars(each) for each in found], indent=1))
    Console().print(show(found))
    if args.draw is not None:
        draw(found, args.draw)


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    main()
