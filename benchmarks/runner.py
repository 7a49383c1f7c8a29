"""Runs a job file in a process of its own and reads what it wrote."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks import peers

HERE = Path(__file__).parent
JOBS = HERE / "jobs"
PYFLINK = HERE / ".pyflink-venv" / "bin" / "python"


@dataclass(frozen=True)
class Totals:
    """What a job wrote: the number of lines, and the sums of their first two fields."""

    lines: int
    first: int
    second: int


@dataclass(frozen=True)
class Run:
    """One run of a job: the time of `execute()`, what it wrote, and the largest Python worker."""

    seconds: float
    totals: Totals
    worker_peak_bytes: int = 0


class WorkerMemory(threading.Thread):
    """Samples the resident memory of the Python processes below a process and keeps the largest."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.2):
            try:
                children = psutil.Process(self.pid).children(recursive=True)
            except psutil.NoSuchProcess:
                return
            for child in children:
                try:
                    if "python" in child.name():
                        self.peak = max(self.peak, child.memory_info().rss)
                except psutil.Error:
                    continue


def run_job(
    script: str,
    engine: str,
    source: Path,
    output: Path,
    *options: str,
    timeout: float = 1800,
    watch_memory: bool = False,
) -> Run:
    """Run `jobs/<script>.py`; engine is penstock, pyflink or sql, or a library that has a windowed job of its own."""
    if engine in peers.PEERS:
        command = peers.command(engine, "windows")
    else:
        python = sys.executable if engine == "penstock" else str(PYFLINK)
        command = [python, str(JOBS / f"{script}.py")]
    command += ["--input", str(source), "--output", str(output)]
    if engine in {"penstock", "pyflink"}:
        command += ["--engine", engine]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment_of(engine),
        start_new_session=True,
    )
    memory = WorkerMemory(process.pid)
    if watch_memory:
        memory.start()
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        memory.done.set()
    if process.returncode != 0:
        raise RuntimeError(f"{script} on {engine} failed:\n{out[-2000:]}\n{err[-4000:]}")
    seconds = json.loads(out.strip().splitlines()[-1])["seconds"]
    return Run(seconds, read_totals(output), memory.peak)


def environment_of(engine: str) -> dict[str, str]:
    """Return the environment variables of a process. What this one imports from is not a business of other libraries."""
    if engine == "penstock":
        # An installed package has its modules compiled; a checkout has, too, unless Python is configured not to.
        return {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
    if engine != "pyflink":
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # PyFlink's thread mode embeds an interpreter that does not know the virtual environment.
    packages = next((PYFLINK.parent.parent / "lib").glob("python*/site-packages"))
    return {**os.environ, "PYTHONPATH": str(packages)}


def read_totals(output: Path) -> Totals:
    """Add up the visible output files, wherever the engine's buckets put them."""
    lines = first = second = 0
    for path in output.rglob("*"):
        if not path.is_file() or path.name.startswith((".", "_")):
            continue
        with path.open() as file:
            for line in file:
                fields = line.rstrip("\n").split(",")
                lines += 1
                first += int(fields[0])
                second += int(fields[1]) if len(fields) > 1 else 0
    return Totals(lines, first, second)
