"""Penstock alone: cost per record as the input grows, cold start, memory."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from benchmarks.cases import expect_windows
from benchmarks.compare import check
from benchmarks.data import DataSet
from benchmarks.runner import JOBS, run_job

MEMORY_LIMIT = 500_000_000


def scaling(work: Path, sizes: list[int]) -> dict[int, float]:
    """Return seconds per record for each size, on the windowed job with 100 auctions."""
    costs = {}
    for records in sizes:
        source = DataSet(records, 100).write(work / "data")
        shutil.rmtree(work / "out", ignore_errors=True)
        run = run_job("windowed_bids", "penstock", source, work / "out")
        check(f"{records} records", run.totals, expect_windows(source))
        costs[records] = run.seconds / records
    return costs


def cold_start(repeat: int) -> dict[str, float]:
    """Return the parts of the time from `python job.py` to its end, of the fastest of `repeat` runs."""
    best: dict[str, float] = {}
    for _ in range(repeat):
        start = time.time()
        command = [sys.executable, str(JOBS / "cold_start.py")]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        end = time.time()
        marks = json.loads(ran.stdout.strip().splitlines()[-1])
        moments = [("", start), *marks, ("shutting down", end)]
        parts = {name: moment - before for (_, before), (name, moment) in pairwise(moments)}
        if not best or end - start < sum(best.values()):
            best = parts
    return best


def skew(work: Path, records: int) -> tuple[float, float]:
    """Return the seconds of one-stage and of two-stage aggregation where one key has nine of ten records."""
    source = DataSet(records, 1_000).write(work / "data")
    runs = []
    for options in ((), ("--local-global",)):
        shutil.rmtree(work / "out", ignore_errors=True)
        runs.append(run_job("skewed_windows", "penstock", source, work / "out", *options))
    one_stage, two_stages = runs
    check("two stages against one", two_stages.totals, one_stage.totals)
    return one_stage.seconds, two_stages.seconds


def memory(work: Path, records: int) -> tuple[float, int]:
    """Run the windowed job over all records in one epoch; return seconds and the largest worker's bytes.

    With 100 keys: what an epoch touches stays in memory until its end (with 10 000 keys that is 12 M open windows, 1.1 GB
    a worker).
    """
    source = DataSet(records, 100).write(work / "data")
    shutil.rmtree(work / "out", ignore_errors=True)
    hour = "--config=execution.checkpointing.interval=1h"
    run = run_job("windowed_bids", "penstock", source, work / "out", hour, watch_memory=True)
    check("memory run", run.totals, expect_windows(source))
    if run.worker_peak_bytes > MEMORY_LIMIT:
        raise AssertionError(f"a worker took {run.worker_peak_bytes / 1e6:.0f} MB")
    return run.seconds, run.worker_peak_bytes
