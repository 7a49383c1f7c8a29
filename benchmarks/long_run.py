"""The long run: a job that never ends stays as it is, in memory, on disk and in the time that an epoch takes.

An unbounded job on Spark, `local[2]`, with a checkpoint every second: sliding windows, and keyed state with time to live, a
map and timers of both kinds, over keys that come and go; all of it into a file sink that rolls. Every few seconds the
benchmark looks at the driver, the JVM, the Python workers, and at all directories that the job writes to.

    python -m benchmarks.long_run [--minutes 10] [--mode pipelined] [--backend rocksdb] [--rate 2000]

What is judged is the last quarter against the second: `mean(last) <= 1.3 * mean(second) + slack`. In the first quarter windows
fill, state reaches its time to live and the JVM grows to its size, so it does not count. From then on the job is in a steady
state, and what still grows as the job goes on would be 2.3 times as much in the last quarter as in the second if
it began at nothing. The factor leaves room for a busy machine, the slack (a constant for each line of the table) for things that
are few or come in steps, such as one more worker process. `per hour` is the slope over the last three quarters, for
leaks that hide behind a large start. Epochs take longer on a machine that others use more: if its load has grown, only the
epochs' CPU time is judged. Exits with 1 if something is not bounded.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.table import Table

from benchmarks import report
from penstock.common import Configuration, Duration, Encoder, Time, WatermarkStrategy
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.datastream.window import SlidingEventTimeWindows
from penstock.testing.faults import watched_steps

SPLITS = 2
FACTOR = 1.3
GROWS = "[red]GROWS[/]"
TTL_S = 5
KEEP_OUTPUT_S = 20
JVM_HEAP = "480m"  # as small as Spark allows, so that its garbage is collected often and what stays is seen


class Ticks(Source):
    """Records at a fixed rate, for ever; what a pause left unread comes after it."""

    def __init__(self, rate):
        self.rate = rate

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return _TickEnumerator(restored)

    def create_reader(self):
        return _TickReader(self.rate / SPLITS)


class _TickEnumerator(SplitEnumerator):
    def __init__(self, restored):
        self.found = bool(restored)

    def discover(self):
        if self.found:
            return []
        self.found = True
        return [SourceSplit(f"ticks-{n}", (n, time.time()), 0) for n in range(SPLITS)]

    def no_more_splits(self):
        return False

    def snapshot(self):
        return self.found


class _TickReader(SourceReader):
    def __init__(self, rate):
        self.rate = rate

    def read(self, split, position, limits):
        number, since = split.payload
        due = int((time.time() - since) * self.rate)
        while position < due:
            stop = min(position + limits.batch_size, due)
            chance = random.Random(f"{number}/{position}")
            records = [self._record(n, chance) for n in range(position, stop)]
            stamps = [int((since + n / self.rate) * 1000) for n in range(position, stop)]
            position = stop
            yield SourceBatch(records, position, stamps)

    def _record(self, n, chance):
        """One in ten has a key that stays; the others have keys that are used for some seconds and never again."""
        if chance.random() < 0.1:
            return f"stays-{chance.randrange(50)}", chance.random()
        second = int(n / self.rate) - chance.randrange(4)
        return f"goes-{second}-{chance.randrange(100)}", chance.random()


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return one + other


class Churn(KeyedProcessFunction):
    """State that is never cleared, state that a timer clears, and timers that are registered again and again."""

    def open(self, runtime_context):
        ttl = StateTtlConfig.new_builder(Duration.of_seconds(TTL_S)).build()
        total = ValueStateDescriptor("total")
        total.enable_time_to_live(ttl)
        self.total = runtime_context.get_state(total)
        parts = MapStateDescriptor("parts")
        parts.enable_time_to_live(ttl)
        self.parts = runtime_context.get_map_state(parts)
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))
        self.counter = runtime_context.get_metrics_group().counter("records")

    def process_element(self, value, ctx):
        _, amount = value
        self.counter.inc()
        self.total.update((self.total.value() or 0.0) + amount)
        self.parts.put(int(amount * 4), amount)
        self.last.update(ctx.timestamp())
        timers = ctx.timer_service()
        timers.register_event_time_timer(ctx.timestamp() // 1000 * 1000 + 4000)
        timers.register_processing_time_timer(
            timers.current_processing_time() // 1000 * 1000 + 2000
        )

    def on_timer(self, timestamp, ctx):
        last = self.last.value()
        if last is not None and last <= timestamp - 3000:
            self.last.clear()
            yield f"{ctx.get_current_key()} {self.total.value()} {len(list(self.parts.keys()))}"


def build(env, output, rate):
    """Put the job together."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500))
    ticks = env.from_source(Ticks(rate), strategy, "ticks")
    keyed = ticks.key_by(lambda record: record[0])
    counts = keyed.window(SlidingEventTimeWindows.of(Time.seconds(8), Time.seconds(2)))
    policy = RollingPolicy.default_rolling_policy(1 << 20, 5000, 5000)

    def sink(name):
        built = FileSink.for_row_format(str(output / name), Encoder.simple_string_encoder())
        return built.with_rolling_policy(policy).build()

    counts.aggregate(Count()).sink_to(sink("windows")).name("windows")
    keyed.process(Churn()).sink_to(sink("churn")).name("churn")


@dataclass(frozen=True)
class Line:
    """A line of the table: what is measured, in which unit, and the slack of its verdict."""

    name: str
    unit: str
    slack: float


LOAD = Line("machine: load", "", float("inf"))  # not judged
LINES = (
    Line("checkpoint_id", "ms", 30),
    Line("epoch: CPU time", "ms", 30),
    LOAD,
    Line("driver: memory", "MB", 10),
    Line("driver: objects", "1000", 5),
    Line("driver: files open", "", 5),
    Line("driver: threads", "", 4),
    Line("JVM: memory", "MB", 60),
    Line("JVM: heap, lowest", "MB", 15),
    Line("JVM: files open", "", 10),
    Line("JVM: threads", "", 10),
    Line("workers: memory, all", "MB", 60),
    Line("workers: processes", "", 2),
    Line("workers: files open", "", 40),
    Line("checkpoints", "files", 10),
    Line("checkpoints", "MB", 0.3),
    Line("journal", "files", 4),
    Line("journal", "MB", 0.1),
    Line("local state", "files", 40),
    Line("local state", "MB", 0.5),
    Line("Spark's directory", "files", 10),
    Line("Spark's directory", "MB", 2),
    Line("temporary files", "files", 5),
    Line("sink: hidden", "files", 10),
    Line("sink: published", "files", 10),
)


class Epochs:
    """Takes the time of each checkpoint, from its trigger (or the start of its epoch) to the end of its clean-up."""

    def __init__(self):
        self.done: list[float] = []
        self._started = self._ended = 0.0

    def __call__(self, step, checkpoint_id):
        now = time.perf_counter()
        if step in {"before run_pipe", "before trigger"}:
            if self._started:
                self.done.append((self._ended - self._started) * 1000)
            self._started = now
        self._ended = now

    def take(self):
        """Return the epochs since the last call."""
        found, self.done = self.done, []
        return found


class Sampler:
    """Looks at the processes and directories of the job."""

    def __init__(self, base: Path, epochs: Epochs) -> None:
        self.base = base
        self.epochs = epochs
        self.me = psutil.Process()
        self._cpu_before: float | None = None

    def sample(self) -> dict[Line, list[float]]:
        epochs = self.epochs.take()
        found: dict[tuple[str, str], list[float]] = {("checkpoint_id", "ms"): epochs}

        def put(name: str, value: float, unit: str = "") -> None:
            found[name, unit] = [value]

        gc.collect()
        put("driver: memory", self.me.memory_info().rss / 1e6, "MB")
        # Blocks of memory, as counting objects would hold on to those that other threads are making: a tuple fails then.
        put("driver: objects", sys.getallocatedblocks() / 1000, "1000")
        put("driver: files open", self.me.num_fds())
        put("driver: threads", threading.active_count())
        jvm, workers = self._processes()
        cpu = sum(_each([self.me, jvm, *workers], _cpu_seconds))
        known = self._cpu_before is not None and cpu > self._cpu_before and bool(epochs)
        found["epoch: CPU time", "ms"] = (
            [(cpu - self._cpu_before) * 1000 / len(epochs)] if known else []
        )
        self._cpu_before = cpu
        put("machine: load", os.getloadavg()[0])
        put("JVM: memory", jvm.memory_info().rss / 1e6, "MB")
        put("JVM: heap, lowest", _heap_in_use() / 1e6, "MB")
        put("JVM: files open", jvm.num_fds())
        put("JVM: threads", jvm.num_threads())
        put("workers: memory, all", sum(_each(workers, lambda p: p.memory_info().rss)) / 1e6, "MB")
        put("workers: processes", len(workers))
        put("workers: files open", sum(_each(workers, psutil.Process.num_fds)))
        for name, folder in (
            ("checkpoints", "checkpoints"),
            ("local state", "local"),
            ("Spark's directory", "spark"),
        ):
            files, size = _content(self.base / folder)
            put(name, files, "files")
            put(name, size / 1e6, "MB")
        (journal,) = (self.base / "checkpoints").glob("*/epochs")
        files, size = _content(journal)
        put("journal", files, "files")
        put("journal", size / 1e6, "MB")
        put("temporary files", _content(self.base / "tmp")[0], "files")
        hidden = published = 0
        for file in (self.base / "output").rglob("*"):
            if file.suffix or file.name.startswith("."):
                hidden += 1
            elif file.is_file():
                published += 1
        put("sink: hidden", hidden, "files")
        put("sink: published", published, "files")
        return {line: found[line.name, line.unit] for line in LINES}

    def _processes(self) -> tuple[psutil.Process, list[psutil.Process]]:
        children = self.me.children(recursive=True)
        jvm = next(child for child in children if "java" in child.name())
        return jvm, [child for child in children if "python" in child.name()]


def _each(processes: Iterable[Any], value: Any) -> Iterator[float]:
    for process in processes:
        try:
            yield value(process)
        except psutil.Error:  # it has just ended
            continue


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _heap_in_use() -> float:
    from penstock.spark.session import get_context

    runtime = get_context()._jvm.java.lang.Runtime.getRuntime()  # noqa: SLF001 - PySpark has no public way
    return float(runtime.totalMemory() - runtime.freeMemory())


def _content(folder: Path) -> tuple[int, int]:
    """Return the number of files below a folder, and their bytes; a file with several names counts once."""
    seen: dict[int, int] = {}
    count = 0
    for directory, _, files in os.walk(folder):
        for name in files:
            try:
                status = os.stat(os.path.join(directory, name))
            except OSError:
                continue
            count += 1
            seen[status.st_ino] = status.st_size
    return count, sum(seen.values())


def consume(output: Path) -> None:
    """Take published files away after a while, as a reader of the output would."""
    oldest = time.time() - KEEP_OUTPUT_S
    for file in list(output.rglob("part-*")):
        if file.stat().st_mtime < oldest:
            file.unlink()


class Judge:
    """Puts the samples into quarters and says what is bounded."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        # By line: (moment, value). Tuples of numbers, so that they do not count as objects of the driver.
        self.samples: dict[Line, list[tuple[float, float]]] = {line: [] for line in LINES}

    def add(self, moment: float, found: dict[Line, list[float]]) -> None:
        for line, values in found.items():
            self.samples[line] += [(moment, value) for value in values]

    def quarter(self, line: Line, number: int) -> float:
        values = [
            value
            for moment, value in self.samples[line]
            if min(int(moment / self.seconds * 4), 3) == number
        ]
        if not values:
            return float("nan")
        if line.name.startswith("checkpoint_id"):
            return statistics.median(values)
        return min(values) if line.name.endswith("lowest") else statistics.mean(values)

    def slope(self, line: Line) -> float:
        """Return the growth per hour over the last three quarters."""
        points = [point for point in self.samples[line] if point[0] >= self.seconds / 4]
        if len(points) < 3:
            return 0.0
        return statistics.linear_regression(*zip(*points, strict=True)).slope * 3600

    def verdict(self, line: Line) -> str:
        if line is LOAD:
            return ""
        if self.quarter(line, 3) <= FACTOR * self.quarter(line, 1) + line.slack:
            return "bounded"
        busier = self.quarter(LOAD, 3) > 1.1 * self.quarter(LOAD, 1) + 0.5
        return "machine busier" if line.name == "checkpoint_id" and busier else GROWS

    def table(self, title: str) -> Table:
        table = Table(title=title)
        table.add_column("")
        for column in ("first quarter", "second", "last", "largest", "per hour", "slack"):
            table.add_column(column, justify="right")
        table.add_column("verdict")
        for line in LINES:
            largest = max((value for _, value in self.samples[line]), default=0.0)
            table.add_row(
                f"{line.name}, {line.unit}" if line.unit else line.name,
                *(f"{self.quarter(line, number):,.1f}" for number in (0, 1, 3)),
                f"{largest:,.1f}",
                f"{self.slope(line):+,.0f}",
                f"{line.slack:g}",
                self.verdict(line),
            )
        return table


def run(base: Path, mode: str, backend: str, seconds: float, rate: int, pause_s: float) -> Judge:
    """Run the job for a while and return what was seen."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.configure(
        Configuration.from_dict(
            {
                "spark.master": "local[2,4]",
                "spark.local.dir": str(base / "spark"),
                "spark.driver.memory": JVM_HEAP,
                "penstock.execution.mode": mode,
                "state.backend.type": backend,
                "state.backend.rocksdb.localdir": str(base / "local"),
                "execution.checkpointing.interval": "1 s",
                "execution.checkpointing.dir": str(base / "checkpoints"),
                "execution.checkpointing.num-retained": "2",
                "restart-strategy.type": "none",
            }
        )
    )
    build(env, base / "output", rate)
    epochs = Epochs()
    sampler = Sampler(base, epochs)
    judge = Judge(seconds)
    with watched_steps(epochs):
        client = env.execute_async(f"long run, {mode}, {backend}")
    try:
        while not epochs.take():  # until Spark is there
            _fail_if_ended(client)
            time.sleep(0.2)
        started = time.monotonic()
        while (moment := time.monotonic() - started) < seconds:
            judge.add(moment, sampler.sample())
            consume(base / "output")
            _fail_if_ended(client)
            time.sleep(pause_s)
    finally:
        if not client.get_job_status().result().is_globally_terminal_state():
            client.cancel().result()
    return judge


def _fail_if_ended(client: Any) -> None:
    if client.get_job_status().result().is_globally_terminal_state():
        client.get_job_execution_result().result()
        raise RuntimeError("the job has ended")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--mode", choices=("epochs", "pipelined"), default="epochs")
    parser.add_argument("--backend", choices=("rocksdb", "hashmap"), default="rocksdb")
    parser.add_argument("--rate", type=int, default=2000, help="records a second")
    parser.add_argument("--pause", type=float, default=3, help="seconds between two looks")
    parser.add_argument("--directory", default=None)
    options = parser.parse_args()
    report.warn_if_busy()
    if options.directory is not None:
        Path(options.directory).mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="long-run-", dir=options.directory))
    for name in ("checkpoints", "local", "spark", "tmp", "output"):
        (base / name).mkdir()
    os.environ["TMPDIR"] = tempfile.tempdir = str(base / "tmp")
    try:
        seconds = options.minutes * 60
        judge = run(base, options.mode, options.backend, seconds, options.rate, options.pause)
        epochs = len(judge.samples[LINES[0]])
        report.console.print(
            judge.table(
                f"{options.mode}, {options.backend}, {options.minutes:g} minutes, {epochs} checkpoints"
            )
        )
        grows = [line for line in LINES if judge.verdict(line) == GROWS]
        report.console.print(
            f"bounded: last <= {FACTOR} x second + slack. "
            + (f"{len(grows)} of {len(LINES)} grow" if grows else "everything is bounded")
        )
        return 1 if grows else 0
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    from benchmarks import long_run  # noqa: PLW0406 - classes of the main module would be copied into the job

    sys.exit(long_run.main())
