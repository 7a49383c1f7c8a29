"""`python -m benchmarks.against REVISION`: is Penstock as fast as it was? The same jobs on both, in turns, in one run.

Without Spark the CPU time of the process counts, which other work on the machine hardly changes; on Spark the time of
`execute()`. Of each side the best round counts. The process ends with 1 if a job takes longer than `--limit` allows.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from benchmarks import report
from benchmarks.cases import Case, cases
from benchmarks.compare import check, prepare
from benchmarks.runner import run_job

ROOT = Path(__file__).parent.parent
JOBS = ("windows, 100 keys", "windows, 10 000 keys", "state and timers")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("revision", help="a commit of this repository")
    parser.add_argument(
        "--job", action="append", choices=[case.title for case in cases(1, 1)], help="only these"
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side")
    parser.add_argument("--scale", type=float, default=0.5, help="part of the benchmark's data")
    parser.add_argument("--limit", type=float, default=1.03, help="largest ratio that is accepted")
    parser.add_argument("--backend", default="hashmap", choices=["hashmap", "rocksdb"])
    parser.add_argument("--spark", action="store_true", help="on Spark instead of in one process")
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
    # Workers of Spark inherit both, and look into the directory that they are started in first.
    os.environ["PYTHONPATH"] = str(tree)
    with contextlib.chdir(tree):
        run = run_job(case.script, "penstock", source, output, *options)
    check(f"{case.title} of {tree.name}", run.totals, case.expect(source))
    return run.seconds


def compare(case: Case, before: Path, args: argparse.Namespace) -> tuple[float, float]:
    """Return the best time of both trees; they take turns, and who begins changes."""
    best = {before: float("inf"), ROOT: float("inf")}
    for number in range(args.rounds):
        for tree in (before, ROOT) if number % 2 else (ROOT, before):
            best[tree] = min(best[tree], seconds_of(case, tree, args))
    return best[before], best[ROOT]


def main() -> None:
    args = parse()
    args.work = args.work.resolve()
    wanted = args.job or JOBS
    table = Table("job", f"{args.revision} (s)", "now (s)", "ratio")
    slower = []
    report.warn_if_busy()
    with checked_out(args.revision) as before:
        for case in cases(args.scale, 1):
            if case.title not in wanted:
                continue
            with report.console.status(case.title):
                then, now = compare(case, before, args)
            table.add_row(case.title, f"{then:.2f}", f"{now:.2f}", f"{now / then:.3f}")
            if now > then * args.limit:
                slower.append(case.title)
    kind = "execute(), on Spark" if args.spark else "CPU time, in one process"
    table.title = f"{kind}; {args.backend}, best of {args.rounds}"
    report.console.print(table)
    if slower:
        sys.exit(f"slower than {args.limit} x: {', '.join(slower)}")


if __name__ == "__main__":
    main()
