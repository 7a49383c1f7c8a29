"""The cost law: with RocksDB an epoch costs what it touches, whatever the size of the state.

Three jobs with the same program run in this process: with few keys of state, with few keys and many timers, and with many
keys and many timers. In turn they get the same epochs: 1,000 records that read and update the state of 1,000 random
keys, and ten timers that fire. Prints the time of an epoch (from its start until its manifest is durable) and the
bytes that its checkpoint added: with the database kept open from epoch to epoch, and reopened in every epoch, as in
another worker process.

    python -m benchmarks.cost_law [--keys 5000000] [--epochs 40] [--memory-mb 0] [--spark]

Without Spark the epochs are short, 20 to 30 ms, so the law is harder to keep. `--spark` runs the first and the last of the jobs
on Spark, `local[2]`. `--memory-mb` limits the memory of the process (RLIMIT_DATA): the state is larger.
"""

# ruff: noqa: SLF001 - it looks into a running job

from __future__ import annotations

import argparse
import random
import resource
import shutil
import statistics
import sys
import tempfile
import time

from benchmarks.report import warn_if_busy
from penstock.common import Configuration, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.connectors.base.source import (
    Boundedness,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.runtime.task.epochs import subtask_cache
from penstock.spark.pipe import SparkPipe
from penstock.testing import MiniCluster
from penstock.testing.faults import watched_steps

TOUCHED = 1000
TIMERS_FIRED = 10
PAYLOAD = 190
MOST_TIMES = 1.3
MOST_ADDED_MB = 5
FIRST_TIMER = 10**6
NOISE = random.Random(0).randbytes(1 << 20)

_waiting: dict[str, list[SourceSplit]] = {}


class Asked(Source):
    """Gives the records that were asked for."""

    def __init__(self, name):
        self.name = name

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism, restored=None):
        return _Enumerator(self.name)

    def create_reader(self):
        return _Reader()


class _Enumerator(SplitEnumerator):
    def __init__(self, name):
        self.name = name

    def discover(self):
        found, _waiting[self.name] = _waiting[self.name], []
        return found

    def no_more_splits(self):
        return False

    def snapshot(self):
        return True


class _Reader(SourceReader):
    def read(self, split, position, limits):
        kind, *values = split.payload
        if kind == "fill":
            _, last, keys, timers = values
            for start in range(position, last, 4096):
                stop = min(start + 4096, last)
                records = [
                    (key, range(key * timers // keys, (key + 1) * timers // keys))
                    for key in range(start, stop)
                ]
                yield SourceBatch(records, stop, [0] * len(records))
        elif position == 0:
            seed, keys, now = values
            chosen = random.Random(seed).sample(range(keys), TOUCHED)
            yield SourceBatch([(key, ()) for key in chosen], 1, [now] * TOUCHED)


class Update(KeyedProcessFunction):
    """Counts, and keeps a payload beside the count."""

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("profile"))

    def process_element(self, value, ctx):
        key, timers = value
        found = self.state.value()
        if found is None:
            at = key * 7919 % (len(NOISE) - PAYLOAD)
            found = (0, NOISE[at : at + PAYLOAD])
        self.state.update((found[0] + 1, found[1]))
        for timer in timers:
            ctx.timer_service().register_event_time_timer(FIRST_TIMER + timer)

    def on_timer(self, timestamp, ctx):
        count, payload = self.state.value()
        self.state.update((count + 1, payload))


class Job:
    """A running job, and how long its epochs take."""

    def __init__(self, directory, keys, timers, interval="100 ms"):
        self.keys = keys
        self.name = f"{keys:,} keys, {timers:,} timers"
        self.time = FIRST_TIMER - 1
        self.splits = 0
        _waiting[self.name] = []
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        env.configure(
            Configuration.from_dict(
                {
                    "spark.master": "local[2]",
                    "state.backend.type": "rocksdb",
                    "state.backend.rocksdb.localdir": f"{directory}/local",
                    "execution.checkpointing.interval": interval,
                    "execution.checkpointing.dir": f"{directory}/checkpoints",
                    "restart-strategy.type": "none",
                }
            )
        )
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        stream = env.from_source(Asked(self.name), strategy, "asked")
        stream.key_by(lambda record: record[0]).process(Update()).print()
        start = time.perf_counter()
        self._watching = None  # the running measurement
        with watched_steps(self._on_step):
            self.client = env.execute_async(f"cost law, {self.name}")
        self.master = self.client._controller.master
        for first in range(0, keys, 500_000):
            last = min(first + 500_000, keys)
            self._ask("fill", first, last, keys, timers)
        self.settle()
        size = self.master.store.latest().state_size / 1e6
        print(
            f"{self.name}: {size:.0f} MB of state, {time.perf_counter() - start:.0f} s", flush=True
        )

    def _on_step(self, step, checkpoint_id):
        if self._watching is not None:
            self._watching(step, checkpoint_id)

    def settle(self):
        """Merge the database's files, as in a job that has run for a while; on Spark, workers have it."""
        if isinstance(self.master._cluster, SparkPipe):
            for _ in range(5):
                self.run()
            return
        self.database().compact()
        self.run()

    def _ask(self, *what):
        """Give the job a split and wait until it is read; return how long its first epoch took, and what that added."""
        self.splits += 1
        moments = {}

        def on_step(step, checkpoint_id):
            moments.setdefault(step, time.perf_counter())
            if step == "after write_manifest":
                manifests.append(self.master.store.read(checkpoint_id))

        before = self.master.store.latest()
        manifests = []
        self._watching = on_step
        start = what[1] if what[0] == "fill" else 0
        _waiting[self.name].append(SourceSplit(f"split-{self.splits}", what, start, bounded=True))
        (source,) = self.master._driver.sources
        try:
            while not manifests or _waiting[self.name] or source.has_data():
                time.sleep(0.02)
                if self.master.status is JobStatus.FAILED:
                    self.client.get_job_execution_result().result()
        finally:
            self._watching = None
        known = set() if before is None else before.files()
        added = sum(
            handle.size + sum(file.size for file in handle.files if file.name not in known)
            for operator in manifests[0].operators.values()
            for chain in operator.subtasks
            for handle in chain
        )
        return moments["after write_manifest"] - moments["before run_pipe"], added

    def run(self):
        self.time += TIMERS_FIRED
        return self._ask("touch", self.splits, self.keys, self.time)

    def run_reopened(self):
        for key, (_, _, _, subtask) in list(subtask_cache._entries.items()):
            if key[0] == self.master.job.job_id:
                del subtask_cache._entries[key]
                subtask.close()
        return self.run()

    def database(self):
        for key, (_, _, _, subtask) in subtask_cache._entries.items():
            if key[0] == self.master.job.job_id:
                for backend in subtask.keyed.on_disk:
                    if backend.store is not None:
                        return backend.store
        raise RuntimeError("the job has no database")


def measure(jobs, epochs, method):
    """Alternate between the jobs, so that a busy machine slows down both."""
    results = {job: [] for job in jobs}
    for _ in range(epochs):
        for job in jobs:
            results[job].append(getattr(job, method)())
    return results


def report(title, results):
    """Print what was measured; return whether the law was kept."""
    print(f"\n{title}")
    typical = {}
    for job, found in results.items():
        times = [took for took, _ in found]
        added = [size / 1e6 for _, size in found]
        typical[job] = statistics.median(times)
        print(
            f"  {job.name:>32}: epoch {typical[job] * 1000:6.1f} ms (mean {statistics.mean(times) * 1000:.1f}), "
            f"checkpoint adds {statistics.mean(added):.2f} MB (largest {max(added):.2f})"
        )
    few, *others = results
    largest = max(size for job in others for _, size in results[job]) / 1e6
    kept = largest < MOST_ADDED_MB
    for job in others:
        ratio = typical[job] / typical[few]
        kept = kept and ratio <= MOST_TIMES
        print(f"  {job.name:>32}: {ratio:.2f} times the first (at most {MOST_TIMES})")
    print(f"  largest checkpoint {largest:.2f} MB (less than {MOST_ADDED_MB})")
    return kept


def in_process(options, base):
    """Measure without Spark."""
    with MiniCluster():
        jobs = [
            Job(f"{base}/{number}", keys, timers)
            for number, (keys, timers) in enumerate(
                (
                    (options.few, 10_000),
                    (options.few, options.timers),
                    (options.keys, options.timers),
                )
            )
        ]
        measure(jobs, 5, "run")
        kept = report("kept open from epoch to epoch", measure(jobs, options.epochs, "run"))
        reopened = report("reopened in every epoch", measure(jobs, options.epochs, "run_reopened"))
        for job in jobs:
            job.client.cancel().result()
    return kept and reopened


def on_spark(options, base):
    """Measure whole epochs on Spark, one job after the other has been filled."""
    jobs = [
        Job(f"{base}/{number}", keys, timers, interval="500 ms")
        for number, (keys, timers) in enumerate(
            ((options.few, 10_000), (options.keys, options.timers))
        )
    ]
    measure(jobs, 5, "run")
    kept = report("on Spark, local[2]", measure(jobs, options.epochs, "run"))
    for job in jobs:
        job.client.cancel().result()
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--few", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument(
        "--timers", type=int, default=1_000_000, help="of the jobs with many timers"
    )
    parser.add_argument("--memory-mb", type=int, default=0, help="limit on this process's memory")
    parser.add_argument("--spark", action="store_true", help="run the jobs on Spark")
    parser.add_argument("--directory", default=None)
    options = parser.parse_args()
    warn_if_busy()
    if options.memory_mb:
        resource.setrlimit(resource.RLIMIT_DATA, (options.memory_mb << 20,) * 2)
    base = tempfile.mkdtemp(prefix="cost-law-", dir=options.directory)
    try:
        kept = (on_spark if options.spark else in_process)(options, base)
        if not options.spark:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"\npeak memory of the process: {peak:.0f} MB")
        return 0 if kept else 1
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    from benchmarks import cost_law  # noqa: PLW0406 - classes of the main module would be copied into the job

    sys.exit(cost_law.main())
