"""The cost law: with RocksDB an epoch costs what it touches, whatever the size of the state.

Two jobs with the same program run in this process, one with many keys of state and one with few. In turn they get the same epochs:
1,000 records that read and update the state of 1,000 random keys, and ten timers that fire. Prints the time of
an epoch (from its start until its manifest is durable) and the bytes that its checkpoint added: with the database kept
open from epoch to epoch, and opened anew in every epoch, as in another worker process.

    python -m benchmarks.cost_law [--keys 5000000] [--epochs 30] [--memory-mb 0]
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

from penstock.common import Configuration, WatermarkStrategy
from penstock.common.connector import (
    Boundedness,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.common.job_status import JobStatus
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor
from penstock.jobmanager.job_master import JobMaster
from penstock.runtime import subtask_cache
from penstock.testing.mini_cluster import MiniCluster

TOUCHED = 1000
TIMERS_FIRED = 10
PAYLOAD = 190
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
            _, last, step = values
            for start in range(position, last, 4096):
                keys = range(start, min(start + 4096, last))
                records = [(key, key // step if key % step == 0 else None) for key in keys]
                yield SourceBatch(records, keys.stop, [0] * len(records))
        elif position == 0:
            seed, keys, now = values
            chosen = random.Random(seed).sample(range(keys), TOUCHED)
            yield SourceBatch([(key, None) for key in chosen], 1, [now] * TOUCHED)


class Update(KeyedProcessFunction):
    """Counts, and keeps a payload beside the count."""

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("profile"))

    def process_element(self, value, ctx):
        key, timer = value
        found = self.state.value()
        if found is None:
            at = key * 7919 % (len(NOISE) - PAYLOAD)
            found = (0, NOISE[at : at + PAYLOAD])
        self.state.update((found[0] + 1, found[1]))
        if timer is not None:
            ctx.timer_service().register_event_time_timer(FIRST_TIMER + timer)

    def on_timer(self, timestamp, ctx):
        count, payload = self.state.value()
        self.state.update((count + 1, payload))


class Job:
    """A running job, and how long its epochs take."""

    def __init__(self, cluster, directory, keys, timers):
        self.keys = keys
        self.name = f"{keys:,}"
        self.time = FIRST_TIMER - 1
        self.splits = 0
        _waiting[self.name] = []
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        env.configure(
            Configuration.from_dict(
                {
                    "state.backend.type": "rocksdb",
                    "state.backend.rocksdb.localdir": f"{directory}/local",
                    "execution.checkpointing.interval": "100 ms",
                    "execution.checkpointing.dir": f"{directory}/checkpoints",
                    "restart-strategy.type": "none",
                }
            )
        )
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        stream = env.from_source(Asked(self.name), strategy, "asked")
        stream.key_by(lambda record: record[0]).process(Update()).print()
        self.client = env.execute_async(f"cost law, {self.name} keys")
        self.master = cluster.masters[-1]
        for first in range(0, keys, 500_000):
            last = min(first + 500_000, keys)
            self._ask("fill", first, last, max(1, keys // timers))
        self.database().compact()  # as in a job that has run for a while
        self.run()

    def _ask(self, *what):
        """Give the job a split and wait until it is read; return how long its first epoch took, and what that added."""
        self.splits += 1
        moments = {}

        def on_step(step, epoch):
            moments.setdefault(step, time.perf_counter())
            if step == "after write_manifest":
                manifests.append(self.master.store.read(epoch))

        before = self.master.store.latest()
        manifests = []
        JobMaster.step_hooks.append(on_step)
        start = what[1] if what[0] == "fill" else 0
        _waiting[self.name].append(SourceSplit(f"split-{self.splits}", what, start, bounded=True))
        (source,) = self.master._runner.sources
        try:
            while not manifests or _waiting[self.name] or source.has_data():
                time.sleep(0.02)
                if self.master.status is JobStatus.FAILED:
                    self.client.get_job_execution_result().result()
        finally:
            JobMaster.step_hooks.remove(on_step)
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

    def run_anew(self):
        for key, (_, _, _, subtask) in list(subtask_cache._entries.items()):
            if key[0] == self.master.job.job_id:
                del subtask_cache._entries[key]
                subtask.close()
        return self.run()

    def database(self):
        for key, (_, _, _, subtask) in subtask_cache._entries.items():
            if key[0] == self.master.job.job_id:
                for backend in subtask._keyed.values():
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
    print(f"\n{title}")
    typical = {}
    for job, found in results.items():
        times = [took for took, _ in found]
        added = [size for _, size in found]
        typical[job] = statistics.median(times)
        print(
            f"  {job.name:>10} keys: epoch {typical[job] * 1000:6.1f} ms (mean {statistics.mean(times) * 1000:.1f}), "
            f"checkpoint adds {statistics.mean(added) / 1e6:.2f} MB (largest {max(added) / 1e6:.2f})"
        )
    few, many = results
    ratio = typical[many] / typical[few]
    size = statistics.mean(size for _, size in results[many]) / 1e6
    print(f"  ratio {ratio:.2f} (at most 1.3), checkpoint {size:.2f} MB (less than 5)")
    return ratio <= 1.3 and size < 5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--few", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--timers", type=int, default=1_000_000, help="of the job with many keys")
    parser.add_argument("--memory-mb", type=int, default=0, help="limit on this process's memory")
    parser.add_argument("--directory", default=None)
    options = parser.parse_args()
    if options.memory_mb:
        resource.setrlimit(resource.RLIMIT_DATA, (options.memory_mb << 20,) * 2)
    base = tempfile.mkdtemp(prefix="cost-law-", dir=options.directory)
    jobs = []
    try:
        with MiniCluster() as cluster:
            for keys, timers in ((options.few, 10_000), (options.keys, options.timers)):
                start = time.perf_counter()
                job = Job(cluster, f"{base}/{keys}", keys, min(timers, keys))
                jobs.append(job)
                print(
                    f"{job.name} keys, {min(timers, keys):,} timers: "
                    f"{job.master.store.latest().state_size / 1e6:.0f} MB of state, written in "
                    f"{time.perf_counter() - start:.0f} s"
                )
            measure(jobs, 3, "run")
            kept = report("kept open from epoch to epoch", measure(jobs, options.epochs, "run"))
            anew = report("opened anew in every epoch", measure(jobs, options.epochs, "run_anew"))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"\npeak memory of the process: {peak:.0f} MB")
            for job in jobs:
                job.client.cancel().result()
        return 0 if kept and anew else 1
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    from benchmarks import cost_law  # noqa: PLW0406 - classes of the main module would be copied into the job

    sys.exit(cost_law.main())
