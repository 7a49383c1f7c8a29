"""`python -m benchmarks`: all measurements in one go."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks import alone, compare, latency, pauses, report
from benchmarks.cases import cases
from benchmarks.runner import PYFLINK

PARTS = ("compare", "latency", "pauses", "scaling", "skew", "cold", "memory", "cost_law", "nexmark")
LONG_PARTS = ("long_run",)  # only when asked for
ROOT = Path(__file__).parent.parent


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        choices=PARTS + LONG_PARTS,
        action="append",
        help="run this part (may be repeated)",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, and no chart")
    parser.add_argument(
        "--engine", action="append", choices=list(compare.ENGINES), help="compare only these"
    )
    parser.add_argument(
        "--pyflink-records", type=int, default=300_000, help="PyFlink's part of the data"
    )
    parser.add_argument(
        "--repeat", type=int, default=2, help="runs of Penstock and Flink SQL; the best counts"
    )
    parser.add_argument(
        "--work", type=Path, default=ROOT / "benchmarks" / ".work", help="data and results"
    )
    return parser.parse_args()


def nexmark(work: Path, repeat: int, *, quick: bool) -> None:
    """Nexmark on Flink SQL and on Penstock, over Parquet and over CSV files."""
    for form in ("parquet", "csv"):
        options = ["--format", form, "--work", str(work)]
        options += ["--save", str(work / f"nexmark-{form}.json")]
        if quick:
            options += ["--events", "1000000"]
        else:
            options += ["--events", "5000000", "--rounds", str(repeat)]
            if form == "parquet":
                options += ["--draw", str(ROOT / "docs" / "images" / "nexmark.svg")]
        command = [sys.executable, "-m", "benchmarks.nexmark.compare", *options]
        subprocess.run(command, check=True)


def main() -> None:
    args = parse()
    parts = args.only or PARTS
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    scale = 0.1 if args.quick else 1.0
    sections: dict[str, object] = {}
    show = report.console.print
    report.warn_if_busy()

    if "compare" in parts:
        engines = args.engine or list(compare.ENGINES)
        if not PYFLINK.exists():
            show("PyFlink is not installed (tools/setup.sh bench): measuring the others only")
            engines = [
                name for name in engines if compare.ENGINES[name][0] not in {"pyflink", "sql"}
            ]
        results: report.Results = {}
        for case in cases(scale, args.pyflink_records):
            for engine in engines:
                with report.console.status(f"{case.title}: {engine}"):
                    measured = compare.measure(case, engine, work, args.repeat)
                if measured is not None:
                    results.setdefault(case.title, []).append(measured)
                    show(
                        f"{case.title:22} {engine:22} {measured.rate:>10,.0f} records/s",
                        highlight=False,
                    )
        show(report.comparison_table(results))
        sections["comparison"] = results
        if not args.quick and {"Penstock", "PyFlink, process"} <= set(engines):
            report.draw(results, ROOT / "docs" / "images")
    if "latency" in parts:
        ages = latency.run(work, None, latency.RATES, 4.0, 3.0 if args.quick else 8.0)
        show(latency.show(ages))
        sections["latency"] = ages
        if not args.quick:
            latency.draw(ages, ROOT / "docs" / "images")
    if "pauses" in parts:
        paused = pauses.run(work, list(pauses.ENGINES), list(pauses.PARTS), 10.0)
        show(pauses.show(paused))
        sections["pauses"] = paused
    if "scaling" in parts:
        with report.console.status("cost per record"):
            costs = alone.scaling(work, [int(m * 1_000_000 * scale) for m in (1, 3, 10)])
        show(report.scaling_table(costs))
        sections["scaling"] = costs
    if "skew" in parts:
        records = int(2_000_000 * scale)
        with report.console.status("a hot key"):
            one_stage, two_stages = alone.skew(work, records)
        show(
            f"{records:,} records, nine of ten on one key: {one_stage:.1f} s in one stage, {two_stages:.1f} s with "
            f"local_global, {one_stage / two_stages:.1f}x as fast"
        )
        sections["skew"] = {"one_stage": one_stage, "local_global": two_stages}
    if "cold" in parts:
        with report.console.status("cold start"):
            start = alone.cold_start(3)
        show(report.cold_start_table(start))
        sections["cold_start"] = start
    if "memory" in parts:
        records = int(20_000_000 * scale)
        with report.console.status("memory"):
            seconds, peak = alone.memory(work, records)
        show(
            f"{records:,} records in one epoch: {seconds:.1f} s, largest Python worker {peak / 1e6:.0f} MB"
        )
        sections["memory"] = {"records": records, "seconds": seconds, "worker_peak_bytes": peak}
    if "cost_law" in parts:
        small = ("--keys", "500000", "--timers", "100000") if args.quick else ()
        sections["cost_law_kept"] = in_own_process("cost_law", *small)
    if "nexmark" in parts:
        if PYFLINK.exists():
            nexmark(work, args.repeat, quick=args.quick)
        else:
            show("PyFlink is not installed (tools/setup.sh bench): nothing to compare Nexmark with")
    if "long_run" in parts:
        minutes = "2" if args.quick else "10"
        sections["long_run_bounded"] = {
            f"{mode}, {backend}": in_own_process(
                "long_run", "--minutes", minutes, "--mode", mode, "--backend", backend
            )
            for mode in ("epochs", "pipelined")
            for backend in ("rocksdb", "hashmap")
        }
    report.save(work / "results.json", **sections)


def in_own_process(module: str, *options: str) -> bool:
    """Run another benchmark, which prints its own tables; return whether it found what it should."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *options]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    main()
