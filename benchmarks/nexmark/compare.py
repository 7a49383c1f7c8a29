"""`python -m benchmarks.nexmark.compare`: Nexmark's queries over the same files, on Flink SQL and on Penstock, in turns, in one run.

Flink runs in its JVM (nothing of a query is Python there), with object reuse, mini-batches and split distinct aggregates. Rows go to `blackhole`, those of q10 to files. Each engine starts again for each query; what the start takes is
measured by the same query over a thousand events, and the steady rate is of the rest. What the processors did is measured, too: unlike seconds on the clock, it hardly depends on what else the machine does. With `--check`,
final tables are compared instead, over few events.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
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
class Took:
    """What a run took: seconds on the clock, and of all processors together."""

    seconds: float
    processor: float

    def least(self, other: Took) -> Took:
        """Return the better of two runs, by each clock."""
        return Took(min(self.seconds, other.seconds), min(self.processor, other.processor))


@dataclass(frozen=True)
class Measured:
    """A query on an engine: events, seconds, and those of the start alone."""

    query: str
    engine: str
    events: int
    seconds: float
    start: float
    processor: float
    processor_start: float

    @property
    def steady(self) -> float:
        """Events per second after the start."""
        return self.events / max(self.seconds - self.start, 0.01)

    @property
    def work(self) -> float:
        """Seconds of a processor for a million events after the start."""
        return max(self.processor - self.processor_start, 0.01) / self.events * 1e6


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
    """Runs queries of both engines, each in a process of its own; Penstock from the tree `root`."""

    def __init__(self, work: Path, form: str, timeout: float, root: Path = HERE.parent) -> None:
        self._work = work
        self._form = form
        self._timeout = timeout
        self._root = root

    def run(self, engine: str, query: str, home: Path, **more: str) -> str:
        """Run a query once; return what it printed."""
        text = (HERE / "nexmark" / "queries" / f"{query}.sql").read_text()
        options = dict(OPTIONS)
        if engine == "flink":
            options["pipeline.jars"] = ";".join(f"file://{jar}" for jar in jars(self._work))
        else:
            options["spark.master"] = "local[2]"
        with tempfile.TemporaryDirectory(dir=self._work) as directory:
            if query == "q10":
                more.setdefault("files", f"{directory}/files")
            if "checkpoints" in more:
                options["execution.checkpointing.interval"] = more.pop("checkpoints")
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
                environment["PYTHONPATH"] = str(self._root)
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

    def took(self, engine: str, query: str, home: Path) -> Took:
        """Run a query once; return how long its job took."""
        found = re.findall(r"^\{.*\}$", self.run(engine, query, home), re.MULTILINE)
        reported = json.loads(found[-1])
        return Took(float(reported["seconds"]), float(reported["processor"]))


def measure(args: argparse.Namespace) -> list[Measured]:
    args.work.mkdir(parents=True, exist_ok=True)
    runner = Runner(args.work, args.format, args.timeout)
    few = Files(Nexmark(FEW, args.rate), args.format).write(args.work)
    many = Files(Nexmark(args.events, args.rate), args.format).write(args.work)
    found = []
    for query in args.query or QUERIES:
        engines = [
            engine
            for engine in args.engine or ENGINES
            if engine != "flink" or query not in NOT_BY_FLINK
        ]
        for each in _in_turns(runner, query, engines, (few, many), args):
            found.append(each)
            print(
                f"{query} {each.engine}: {each.seconds:.2f} s, start {each.start:.2f} s, {each.steady:,.0f} events/s; "
                f"processors {each.processor:.1f} s, start {each.processor_start:.1f} s",
                flush=True,
            )
    return found


def _in_turns(
    runner: Runner,
    query: str,
    engines: list[str],
    homes: tuple[Path, Path],
    args: argparse.Namespace,
) -> list[Measured]:
    """Run a query on the engines in turns; of several rounds the best counts, and of two starts in each."""
    best: dict[tuple[str, Path], Took] = {}
    few, many = homes
    for _ in range(args.rounds):
        for engine in engines:
            for home in (few, many, few):
                took = runner.took(engine, query, home)
                best[engine, home] = took.least(best.get((engine, home), took))
    return [
        Measured(
            query,
            engine,
            args.events,
            best[engine, many].seconds,
            best[engine, few].seconds,
            best[engine, many].processor,
            best[engine, few].processor,
        )
        for engine in engines
    ]


def check(args: argparse.Namespace) -> None:
    """Compare final tables, and of q10 the files that were written. What q12 counts depends on the clock on the wall, and windows that are open when the bids end give no rows: no bidder may have more bids than there are."""
    args.work.mkdir(parents=True, exist_ok=True)
    runner = Runner(args.work, args.format, args.timeout)
    home = Files(Nexmark(30_000, 1_000), args.format, files=1).write(args.work)
    different = []
    for query in args.query or QUERIES:
        if query in NOT_BY_FLINK:
            continue
        with tempfile.TemporaryDirectory(dir=args.work) as directory:
            tables = [
                _final(runner, engine, query, home, Path(directory, engine)) for engine in ENGINES
            ]
        if query == "q12":
            made = _bids(home, args.format)
            same = not any(each - made for each in tables)
        else:
            same = tables[0] == tables[1] and bool(tables[0])
        if not same:
            different.append(query)
        print(query, "as Flink" if same else "DIFFERENT", *map(len, tables), flush=True)
    if different:
        raise SystemExit(f"other tables than Flink's, or empty ones: {', '.join(different)}")


def _final(
    runner: Runner, engine: str, query: str, home: Path, target: Path
) -> Counter[tuple[str, ...]]:
    """Return the rows of a final table, and how often each is there."""
    if query == "q10":
        runner.run(engine, query, home, files=str(target), checkpoints="1 s")
        return _written(target)
    runner.run(engine, query, home, collect=str(target))
    rows = json.loads(target.read_text())["rows"]
    if query != "q12":
        return Counter((row,) for row in rows)
    bids: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        bidder, count, *_ = json.loads(row)
        bids[(str(bidder),)] += count
    return bids


def _bids(home: Path, form: str) -> Counter[tuple[str, ...]]:
    """Return how many bids each bidder makes."""
    files = str(home / "bid" / f"*.{form}")
    bidders = (
        pl.read_parquet(files, columns=["bidder"])
        if form == "parquet"
        else pl.read_csv(files, has_header=False, columns=[1])
    )
    return Counter((str(bidder),) for bidder in bidders.to_series().to_list())


def _written(directory: Path) -> Counter[tuple[str, ...]]:
    """Return the rows of the visible files below a directory, with the names of their partitions. Which texts are quoted is each engine's own."""
    found: Counter[tuple[str, ...]] = Counter()
    for path in directory.rglob("*"):
        if path.is_file() and not path.name.startswith((".", "_")):
            partition = path.parent.relative_to(directory).parts
            with path.open(newline="") as file:
                found.update((*partition, *row) for row in csv.reader(file))
    return found


@dataclass(frozen=True)
class Ratio:
    """How many times as fast Penstock is: on the clock after the start, with the start, and by what the processors do after the start."""

    steady: float
    whole: float
    work: float


def ratios(found: list[Measured]) -> dict[str, Ratio]:
    """Return the ratios of the queries that both engines ran."""
    by = {(each.query, each.engine): each for each in found}
    return {
        query: Ratio(
            ours.steady / by[query, "flink"].steady,
            by[query, "flink"].seconds / ours.seconds,
            by[query, "flink"].work / ours.work,
        )
        for (query, engine), ours in by.items()
        if engine == "penstock" and (query, "flink") in by
    }


def mean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    logarithms = [math.log(each) for each in values]
    return math.exp(sum(logarithms) / len(logarithms))


def show(found: list[Measured]) -> Table:
    table = Table(title=f"Nexmark ({report.machine()})")
    for column in (
        "query",
        "Flink SQL, events/s",
        "Penstock, events/s",
        "times Flink",
        "with the start",
        "Flink SQL, processor s per M events",
        "Penstock, processor s per M events",
        "times Flink",
    ):
        table.add_column(column, justify="right")
    by = {(each.query, each.engine): each for each in found}
    compared = ratios(found)
    for query in dict.fromkeys(each.query for each in found):
        engines = [by.get((query, engine)) for engine in ENGINES]
        ratio = compared.get(query)
        table.add_row(
            query,
            *("" if each is None else f"{each.steady:,.0f}" for each in engines),
            "" if ratio is None else f"{ratio.steady:.2f}",
            "" if ratio is None else f"{ratio.whole:.2f}",
            *("" if each is None else f"{each.work:.2f}" for each in engines),
            "" if ratio is None else f"{ratio.work:.2f}",
        )
    if compared:
        steady, whole, work = (
            f"{mean(getattr(each, name) for each in compared.values()):.2f}"
            for name in ("steady", "whole", "work")
        )
        table.add_row("mean", "", "", steady, whole, "", "", work)
    return table


def draw(found: list[Measured], target: Path) -> None:
    """Draw how many times as fast as Flink SQL Penstock is, once the query runs and with the start."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib import pyplot as plt

    compared = ratios(found)
    places = range(len(compared))
    figure, axes = plt.subplots(figsize=(10, 3.4))
    for name, label, color, shift in (
        ("steady", "once the query runs", "#3b7dd8", -0.2),
        ("whole", "with the start", "#a9c8f0", 0.2),
    ):
        values = [getattr(ratio, name) for ratio in compared.values()]
        bars = axes.bar([at + shift for at in places], values, 0.4, color=color, label=label)
        axes.bar_label(bars, fmt="%.1f", fontsize=6)
    axes.set_xticks(list(places), list(compared))
    axes.axhline(1, color="#888888", linewidth=1)
    axes.set_ylabel("times Flink SQL")
    axes.set_title("Nexmark: events per second, Flink SQL 2.3 = 1")
    axes.legend(frameon=False)
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
