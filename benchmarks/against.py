"""`python -m benchmarks.against REVISION`: is Penstock as fast as it was? The same jobs on both, in turns, in one run.

Jobs without Spark and Nexmark queries (`--nexmark`) are compared by CPU time, which other work on the machine hardly changes; jobs on Spark
by the time of `execute()`, and `--latency` by the 99th percentile. Of each side the best round counts. The process ends with 1 if a job
takes longer than `--limit` allows.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.table import Table

from benchmarks import latency, report
from benchmarks.cases import Case, cases
from benchmarks.compare import check, prepare
from benchmarks.feed import plan
from benchmarks.nexmark.compare import QUERIES, Runner
from benchmarks.nexmark.files import Files
from benchmarks.nexmark.generator import Nexmark
from benchmarks.runner import run_job

ROOT = Path(__file__).parent.parent
JOBS = ("windows, 100 keys", "windows, 10 000 keys", "state and timers")
Measure = Callable[[Path], float]  # runs something once with the package of a tree


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("revision", help="a commit of this repository")
    parser.add_argument(
        "--job",
        action="append",
        choices=[case.title for case in cases(1, 1)],
        help="compare these jobs (default: three of them, unless --nexmark or --latency is given)",
    )
    parser.add_argument(
        "--nexmark", action="append", choices=QUERIES, metavar="QUERY", help="a query, such as q5"
    )
    parser.add_argument("--events", type=int, default=1_000_000, help="of Nexmark")
    parser.add_argument(
        "--latency", action="append", type=int, metavar="RATE", help="at so many records per second"
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side")
    parser.add_argument("--scale", type=float, default=0.5, help="part of the data of the jobs")
    parser.add_argument("--limit", type=float, default=1.03, help="largest ratio that is accepted")
    parser.add_argument("--backend", default="hashmap", choices=["hashmap", "rocksdb"])
    parser.add_argument("--spark", action="store_true", help="jobs on Spark, not in one process")
    parser.add_argument("--work", type=Path, default=ROOT / "benchmarks" / ".work")
    return parser.parse_args()


@contextlib.contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Give the tree of a revision in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="penstock-against-") as directory:
        tree = Path(directory, "tree")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run(
            [*git, "add", "--quiet", "--detach", str(tree), revision],
            check=True,
        )
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def seconds_of(case: Case, tree: Path, args: argparse.Namespace) -> float:
    """Run a case once with the package of a tree, and check what it wrote."""
    source, output = prepare(case.data, args.work)
    options = ["--config", f"state.backend.type={args.backend}"]
    if not args.spark:
        options.append("--no-spark")
    os.environ["PYTHONPATH"] = str(tree)
    run = run_job(case.script, "penstock", source, output, *options)
    check(f"{case.title} of {tree.name}", run.totals, case.expect(source))
    return run.seconds


def nexmark_measure(query: str, args: argparse.Namespace) -> Measure:
    """Return what measures a Nexmark query: seconds of all processors together."""
    home = Files(Nexmark(args.events, 10_000), "csv").write(args.work)

    def measure(tree: Path) -> float:
        runner = Runner(args.work, "csv", timeout=900, root=tree)
        return runner.took("penstock", query, home).processor

    return measure


def latency_measure(rate: int, args: argparse.Namespace) -> Measure:
    """Return what measures the age of records in pipelined mode: the 99th percentile in seconds."""
    engine = next(each for each in latency.ENGINES if each.name == latency.OURS)

    def measure(tree: Path) -> float:
        phases = plan([rate], warm_up_s=4.0, settle_s=2.0, measured_s=8.0)
        [ages] = latency.measure(engine, phases, args.work, root=tree)
        if not ages.kept_up:
            raise RuntimeError(f"{tree.name} does not keep up with {rate} records/s")
        return ages.quantiles[1] / 1000

    return measure


def measures(args: argparse.Namespace) -> Iterator[tuple[str, Measure]]:
    """Give everything that is to be compared, with its title."""
    jobs = args.job or (() if args.nexmark or args.latency else JOBS)
    for case in cases(args.scale, 1):
        if case.title in jobs:
            yield case.title, lambda tree, case=case: seconds_of(case, tree, args)
    for query in args.nexmark or ():
        yield f"Nexmark {query}, CPU time", nexmark_measure(query, args)
    for rate in args.latency or ():
        yield f"p99 at {rate:,} records/s", latency_measure(rate, args)


def compare(measure: Measure, before: Path, rounds: int) -> tuple[float, float]:
    """Return the best result of both trees; they take turns, and who begins changes."""
    best = {before: float("inf"), ROOT: float("inf")}
    for number in range(rounds):
        for tree in (before, ROOT) if number % 2 else (ROOT, before):
            # Workers of Spark inherit the directory, and look into it for modules first.
            with contextlib.chdir(tree):
                best[tree] = min(best[tree], measure(tree))
    return best[before], best[ROOT]


def main() -> None:
    args = parse()
    args.work = args.work.resolve()
    table = Table("job", f"{args.revision} (s)", "now (s)", "ratio")
    slower = []
    report.warn_if_busy()
    with checked_out(args.revision) as before:
        for title, measure in measures(args):
            with report.console.status(title):
                then, now = compare(measure, before, args.rounds)
            table.add_row(title, f"{then:.4g}", f"{now:.4g}", f"{now / then:.3f}")
            if now > then * args.limit:
                slower.append(title)
    kind = "execute(), on Spark" if args.spark else "CPU time, in one process"
    table.title = f"jobs: {kind}; {args.backend}; best of {args.rounds}"
    report.console.print(table)
    if slower:
        sys.exit(f"slower than {args.limit} x: {', '.join(slower)}")


if __name__ == "__main__":
    main()
