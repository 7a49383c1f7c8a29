"""The cost law: an epoch costs what it touches, whatever the size of the state.

Two databases, one with many keys and one with few, get the same epochs in turn: read and update the state of 1,000 random keys,
fire ten timers, take a checkpoint. Prints the time of an epoch and the bytes that its checkpoint added, for an
instance that stays open and for one that is opened anew in every epoch (as in another worker process).

    python -m benchmarks.cost_law [--keys 5000000] [--epochs 30] [--memory-mb 0]
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import statistics
import sys
import tempfile
import time
import uuid

from penstock.checkpoint.state_io import CheckpointStateIO
from penstock.common.operator_specs import KeyedProcessSpec
from penstock.common.state import ValueStateDescriptor
from penstock.runtime.records import Batch
from penstock.runtime.state.local_directory import LocalDirectory
from penstock.runtime.state.rocksdb import RocksDBStateBackend
from penstock.runtime.state.rocksdb_settings import RocksDBSettings
from penstock.runtime.subtask import SnapshotName
from penstock.testing.harness import ManualClock, OperatorHarness

TOUCHED = 1000
TIMERS_FIRED = 10
PAYLOAD = 190


class Update:
    """Counts, and keeps a payload beside the count."""

    def open(self, context):
        self.state = context.get_state(ValueStateDescriptor("profile"))

    def process_element(self, value, ctx):
        count, payload = self.state.value()
        self.state.update((count + 1, payload))
        return ()

    def on_timer(self, timestamp, ctx):
        count, payload = self.state.value()
        self.state.update((count + 1, payload))
        return ()


class World:
    """One operator with its state, its database and its checkpoints."""

    def __init__(self, directory, keys, timers):
        self.keys = keys
        self.settings = RocksDBSettings(local_dirs=(f"{directory}/local",))
        self.place = LocalDirectory(self.settings.local_dirs, "job", "operator", 0)
        self.io = CheckpointStateIO(f"{directory}/storage", 20_480)
        self.clock = ManualClock()
        self.chain = None
        self.epoch = 0
        self.watermark = 0
        self.harness = self._open()
        self._fill(timers)
        self.snapshot()

    def _open(self):
        backend = RocksDBStateBackend(self.clock, self.place, self.settings, 128, "operator")
        if self.chain is not None:
            backend.restore(self.io, (self.chain,), None, 128)
        return OperatorHarness(KeyedProcessSpec(Update()), clock=self.clock, keyed_state=backend)

    def _fill(self, timers):
        """Write the state without going through the operator."""
        backend = self.harness.keyed_state
        noise = random.Random(0).randbytes(1 << 20)
        table = backend.table("state/profile")
        step = max(1, self.keys // max(timers, 1))
        for key in range(self.keys):
            at = key * 7919 % (len(noise) - PAYLOAD)
            table.put(key, (0, noise[at : at + PAYLOAD]))
            if timers and key % step == 0:
                self.harness.timers.event.register(1000 + key // step, key, None)
            if key % 50_000 == 49_999:
                backend.relieve()
        backend.snapshot()
        backend.store.compact()  # as in a job that has run for a while

    def run(self, chosen):
        """One epoch: records, timers, checkpoint; return the seconds and the bytes added."""
        before = {} if self.chain is None else {f.name for f in self.chain.database.files}
        start = time.perf_counter()
        self.harness.keyed_state.expect(chosen)
        self.harness.process_batch(Batch(chosen, [None] * len(chosen), chosen))
        self.watermark = max(self.watermark + TIMERS_FIRED, 999 + TIMERS_FIRED)
        self.harness.process_watermark(self.watermark)
        self.snapshot()
        took = time.perf_counter() - start
        handle = self.chain.database
        added = handle.size + sum(f.size for f in handle.files if f.name not in before)
        return took, added

    def run_cold(self, chosen):
        """The same, after the operator was dropped and restored from the local copy of its snapshot."""
        self.harness.keyed_state.close()
        start = time.perf_counter()
        self.harness = self._open()
        opened = time.perf_counter() - start
        took, added = self.run(chosen)
        return took + opened, added

    def snapshot(self):
        self.epoch += 1
        name = SnapshotName(self.epoch, "operator", 0, uuid.uuid4().hex[:12], (0, 128))
        backend = self.harness.keyed_state
        self.chain = backend.write_snapshot(self.io, self.chain, name, force=True)


def measure(worlds, epochs, method):
    """Alternate between the worlds, so that a busy machine slows down both."""
    results = {name: [] for name in worlds}
    for number in range(epochs):
        for name, world in worlds.items():
            chosen = random.Random(number).sample(range(world.keys), TOUCHED)
            results[name].append(getattr(world, method)(chosen))
    return results


def report(title, results):
    print(f"\n{title}")
    medians = {}
    for name, found in results.items():
        times = [took for took, _ in found]
        added = [size for _, size in found]
        medians[name] = statistics.median(times)
        print(
            f"  {name:>10} keys: epoch {medians[name] * 1000:7.1f} ms (mean {statistics.mean(times) * 1000:.1f}), "
            f"checkpoint adds {statistics.mean(added) / 1e6:5.2f} MB (largest {max(added) / 1e6:.2f} MB)"
        )
    small, large = medians
    ratio = medians[large] / medians[small]
    worst = statistics.mean(size for _, size in results[large]) / 1e6
    print(f"  ratio {ratio:.2f} (at most 1.3), checkpoint {worst:.2f} MB (less than 5)")
    return ratio <= 1.3 and worst < 5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--few", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument(
        "--timers", type=int, default=1_000_000, help="pending timers of the large state"
    )
    parser.add_argument(
        "--memory-mb", type=int, default=0, help="limit on the memory of this process"
    )
    parser.add_argument("--directory", default=None)
    options = parser.parse_args()
    if options.memory_mb:
        resource.setrlimit(resource.RLIMIT_DATA, (options.memory_mb << 20,) * 2)
    base = tempfile.mkdtemp(prefix="cost-law-", dir=options.directory)
    try:
        worlds = {}
        for keys, timers in (
            (options.few, min(options.few, 10_000)),
            (options.keys, options.timers),
        ):
            start = time.perf_counter()
            worlds[f"{keys:,}"] = world = World(f"{base}/{keys}", keys, min(timers, keys))
            size = world.chain.size / 1e6
            print(
                f"{keys:,} keys, {min(timers, keys):,} timers: {size:.0f} MB of state, written in "
                f"{time.perf_counter() - start:.0f} s"
            )
        measure(worlds, 3, "run")
        kept = report("open from epoch to epoch", measure(worlds, options.epochs, "run"))
        anew = report("opened anew in every epoch", measure(worlds, options.epochs, "run_cold"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"\npeak memory of the process: {peak:.0f} MB")
        return 0 if kept and anew else 1
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
