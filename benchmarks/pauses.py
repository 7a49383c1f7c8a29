"""`python -m benchmarks.pauses`: what a job costs that has nothing to do, and how long it stands still when something happens to it.

- idle: the CPU time of a job without input, per slot;
- backpressure: how long a checkpoint takes while the channels are full, aligned and unaligned;
- recovery: from the death of a Python worker until records are processed again, with 100 000 keys of state;
- rescaling: how long no record is processed when the parallelism changes.

PyFlink runs the same jobs in the same run, where it has such a thing.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from rich.table import Table

from benchmarks import report
from benchmarks.feed import Feed, Phase
from benchmarks.runner import HERE, JOBS, PYFLINK, environment_of

PARTS = ("idle", "backpressure", "recovery", "rescaling")
SLOTS = 2
KEYS = 100_000
TIMEOUT_S = 90.0
COMPLETED_S = 60.0  # a checkpoint that takes longer is not waited for
NOTICED_S = 40.0  # a death that nothing came of for so long was not noticed

ENGINES = {
    "Penstock, pipelined": ("penstock", ("penstock.execution.mode=pipelined",)),
    "Penstock, epochs": ("penstock", ("penstock.execution.mode=epochs",)),
    "PyFlink, process": ("pyflink", ("python.execution-mode=process",)),
    "PyFlink, thread": ("pyflink", ("python.execution-mode=thread",)),
}


class Job:
    """A job in processes of its own: an engine's, with its JVM and its workers."""

    def __init__(self, engine: str, script: str, source: str, output: Path, *options: str) -> None:
        self.kind, configuration = ENGINES[engine]
        self.port = free_port()
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        self.output = output
        python = sys.executable if self.kind == "penstock" else str(PYFLINK)
        settings = [*configuration, f"rest.port={self.port}", f"rest.bind-port={self.port}"]
        settings += [option for option in options if not option.startswith("--")]
        command = [python, str(JOBS / f"{script}.py"), "--engine", self.kind]
        command += ["--input", source, "--output", str(output / "notes")]
        command += [option for option in options if option.startswith("--")]
        for setting in settings:
            command += ["--config", setting]
        self._log = output / "log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=environment_of(self.kind),
                start_new_session=True,
            )

    def end(self) -> None:
        """End all its processes."""
        family = [*self.family(), psutil.Process(self.process.pid)]
        for each in family:
            with contextlib.suppress(psutil.Error):
                each.kill()
        self.process.wait()

    def family(self) -> list[psutil.Process]:
        """All processes below that of the program."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def workers(self) -> list[psutil.Process]:
        """The Python processes that user functions run in; the newest last."""
        found = []
        for each in self.family():
            with contextlib.suppress(psutil.Error):
                line = " ".join(each.cmdline())
                is_daemon = "daemon" in line and each.parent().name() == "java"
                if "python" in each.name() and "java" not in line and not is_daemon:
                    found.append(each)
        return sorted(found, key=lambda each: each.pid)

    def ask(self, path: str) -> Any:
        """Ask the job's REST server."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return json.load(answer)

    def checkpoints(self) -> list[dict[str, Any]]:
        """The completed checkpoints, as REST tells them."""
        try:
            job = self.ask("/jobs")["jobs"][0]["id"]
            history = self.ask(f"/jobs/{job}/checkpoints").get("history", [])
        except (OSError, urllib.error.URLError, IndexError, ValueError):
            return []
        return [each for each in history if each["status"] == "COMPLETED"]

    def beats(self) -> list[int]:
        """The moments at which records were processed, in nanoseconds."""
        noted = array.array("q")
        for path in self.output.rglob("*.beats"):
            noted.frombytes(path.read_bytes()[: path.stat().st_size // 8 * 8])
        return sorted(noted)

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = TIMEOUT_S) -> None:
        """Wait for something; the job must not end before."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{what}: it never came\n{self._log.read_text()[-3000:]}")
            time.sleep(0.05)


@contextlib.contextmanager
def started(engine: str, script: str, source: str, work: Path, *options: str) -> Iterator[Job]:
    job = Job(engine, script, source, work / "pauses", *options)
    try:
        yield job
    finally:
        job.end()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def cpu_seconds(processes: list[psutil.Process]) -> float:
    total = 0.0
    for each in processes:
        with contextlib.suppress(psutil.Error):
            times = each.cpu_times()
            total += times.user + times.system
    return total


def idle(engine: str, work: Path, seconds: float) -> tuple[float, float]:
    """Return the share of a core that a slot's process uses without input, and that of all processes of the job."""
    notes = work / "pauses" / "notes"
    # It has records once, and then none for longer than is measured.
    feed = Feed([Phase(0, 0.001, 3600.0)], lambda: any(notes.rglob("*.ages")))
    feed.start()
    with started(engine, "latency", f"127.0.0.1:{feed.port}", work) as job:
        job.wait(lambda: any(notes.rglob("*.ages")), "the first record")
        time.sleep(5.0)  # until what starting has left is done
        before = cpu_seconds(job.workers()), cpu_seconds(job.family())
        time.sleep(seconds)
        after = cpu_seconds(job.workers()), cpu_seconds(job.family())
    workers, family = (b - a for a, b in zip(before, after, strict=True))
    return workers / seconds / SLOTS, family / seconds


def backpressure(engine: str, work: Path, *options: str, seconds: float) -> list[float]:
    """Return how long checkpoints took, in seconds, while the function behind the exchange was the bottleneck."""
    every = ("execution.checkpointing.interval=1s", *options)
    with started(engine, "steady", "1000", work, "--sleep-us=100", *every) as job:
        job.wait(lambda: bool(job.beats()), "the first record")
        time.sleep(3.0)  # until the channels are full
        first = {each["id"] for each in job.checkpoints()}
        deadline = time.monotonic() + COMPLETED_S
        done: list[dict[str, Any]] = []
        time.sleep(seconds)
        while not done and time.monotonic() < deadline:
            done = [each for each in job.checkpoints() if each["id"] not in first]
            time.sleep(0.2)
    return [each["end_to_end_duration"] / 1000 for each in done]


def recovery(engine: str, work: Path, kills: int) -> list[float]:
    """Return the seconds from each death of a worker to the first record that is processed after it."""
    options = (
        "execution.checkpointing.interval=1s",
        "restart-strategy.type=fixed-delay",
        "restart-strategy.fixed-delay.attempts=100",
        "restart-strategy.fixed-delay.delay=0 ms",
    )
    with started(engine, "steady", str(KEYS), work, *options) as job:
        job.wait(lambda: len(job.beats()) > 500, "some records")
        times = []
        for _ in range(kills):
            time.sleep(4.0)
            victim = job.workers()[-1]
            known = {path.name for path in job.output.rglob("*.beats")}
            moment = time.time_ns()
            os.kill(victim.pid, signal.SIGKILL)
            deadline = time.monotonic() + NOTICED_S
            while not (first := first_of_new(job.output, known)):
                if time.monotonic() > deadline:
                    return [*times, float("inf")]
                time.sleep(0.02)
            times.append((first - moment) / 1e9)
    return times


def first_of_new(output: Path, known: set[str]) -> int:
    """Return the first moment that a function noted which was not there before; 0 if there is none."""
    new = [path.read_bytes()[:8] for path in output.rglob("*.beats") if path.name not in known]
    return min((array.array("q", first)[0] for first in new if len(first) == 8), default=0)


def rescaling(engine: str, work: Path) -> list[float]:
    """Return the longest times without any record around changes of the parallelism, from 2 to 1 and back."""
    pauses = []
    with started(engine, "steady", str(KEYS), work, "execution.checkpointing.interval=1s") as job:
        job.wait(lambda: len(job.beats()) > 500, "some records")
        for parallelism in (1, 2):
            time.sleep(3.0)
            moment = time.time_ns()
            request_rescale(job, parallelism)
            time.sleep(8.0)
            beats = [beat for beat in job.beats() if beat > moment - 1_000_000_000]
            gaps = [after - before for before, after in pairwise(beats)]
            pauses.append(max(gaps) / 1e9)
    return pauses


def request_rescale(job: Job, parallelism: int) -> None:
    """Ask for another parallelism on the command line, as an operator would."""
    name = job.ask("/jobs")["jobs"][0]["id"]
    command = [sys.executable, "-m", "penstock", "rescale", name, str(parallelism)]
    subprocess.run(command, check=True, capture_output=True, text=True)


def measure(part: str, engine: str, work: Path, seconds: float) -> dict[str, str]:
    """Measure one thing with one engine; the figures by what they say."""
    ours = engine.startswith("Penstock, pipelined")
    if part == "idle":
        slot, family = idle(engine, work, seconds)
        return {
            "idle: CPU of a slot": f"{slot:.2%} of a core",
            "idle: CPU of all processes": f"{family:.1%} of a core",
        }
    if part == "backpressure" and "epochs" not in engine:
        found = {}
        for kind, setting in (("aligned", "false"), ("unaligned", "true")):
            option = f"execution.checkpointing.unaligned.enabled={setting}"
            found[f"checkpoint under back-pressure, {kind}"] = spread(
                backpressure(engine, work, option, seconds=seconds)
            )
        return found
    if (
        part == "recovery" and engine != "PyFlink, thread"
    ):  # its functions run in the JVM: there is no worker
        return {"records again after a worker's death": spread(recovery(engine, work, 3))}
    if part == "rescaling" and ours:
        return {"no records while rescaling": spread(rescaling(engine, work))}
    return {}


def spread(seconds: list[float]) -> str:
    if not seconds:
        return f"none within {COMPLETED_S:.0f} s"
    if max(seconds) == float("inf"):
        return f"not within {NOTICED_S:.0f} s"
    return f"{median(seconds):.2f} s, at most {max(seconds):.2f} s ({len(seconds)})"


def show(results: dict[str, dict[str, str]]) -> Table:
    table = Table(title=f"Idle, back-pressure, pauses ({report.machine()})")
    table.add_column("what")
    for engine in results:
        table.add_column(engine, justify="right")
    names = list(dict.fromkeys(name for found in results.values() for name in found))
    for name in names:
        table.add_row(name, *(found.get(name, "-") for found in results.values()))
    table.caption = f"Medians; {SLOTS} slots, {KEYS:,} keys of state in recovery and rescaling."
    return table


def run(
    work: Path, engines: list[str], parts: list[str], seconds: float
) -> dict[str, dict[str, str]]:
    """Measure the parts with all engines that are installed."""
    results: dict[str, dict[str, str]] = {}
    for engine in engines:
        if ENGINES[engine][0] == "pyflink" and not PYFLINK.exists():
            report.console.print(f"{engine} is not installed (tools/setup.sh bench)")
            continue
        results[engine] = {}
        for part in parts:
            with report.console.status(f"{part}: {engine}"):
                found = measure(part, engine, work, seconds)
            for name, figure in found.items():
                report.console.print(f"{engine:22} {name}: {figure}", highlight=False)
            results[engine] |= found
    return results


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pauses", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--engine", action="append", choices=list(ENGINES))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--work", type=Path, default=HERE / ".work")
    return parser.parse_args()


def main() -> None:
    args = parse()
    report.warn_if_busy()
    engines, parts = args.engine or list(ENGINES), args.only or list(PARTS)
    results = run(args.work.resolve(), engines, parts, args.seconds)
    report.console.print(show(results))
    report.save(args.work / "results.json", pauses=results)


if __name__ == "__main__":
    main()
