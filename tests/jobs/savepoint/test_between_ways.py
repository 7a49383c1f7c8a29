"""A job goes from mode to mode, backend to backend and parallelism to parallelism, and every record is counted once."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict

import pytest

from penstock.common import Encoder, Types, WatermarkStrategy
from penstock.connectors.base.source import SourceBatch, SourceReader
from penstock.connectors.datagen.source import DataGeneratorSource
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.state import ValueStateDescriptor
from tests.builders.environments import configured
from tests.builders.modes import MODES, SOAKS, Way
from tests.builders.waiting import wait_until

RECORDS = 20_000
KEYS = 97
LEGS = 4


class Gated(DataGeneratorSource):
    """Gives no more than `Gated.allowed` records, in this process, until it is told to give more."""

    allowed = 0
    given = 0

    def create_reader(self):
        return _GatedReader(super().create_reader())


class _GatedReader(SourceReader):
    def __init__(self, reader):
        self._reader = reader

    def read(self, split, position, limits):
        for batch in self._reader.read(split, position, limits):
            while Gated.given >= Gated.allowed:
                yield SourceBatch([], position)
                time.sleep(0.001)
            Gated.given += len(batch.records)
            position = batch.position
            yield batch


class Numbered(KeyedProcessFunction):
    """Numbers the records of each key."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        number = (self.seen.value() or 0) + 1
        self.seen.update(number)
        yield f"{value} {number}"


def start(directory, way, parallelism, savepoint):
    options = {
        **way.options,
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
    }
    if savepoint is not None:
        options["execution.state-recovery.path"] = savepoint
    env = configured(options, parallelism)
    source = Gated(lambda index: index, count=RECORDS)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counted = numbers.key_by(lambda value: value % KEYS).process(Numbered(), Types.STRING())
    files = FileSink.for_row_format(f"{directory}/out", Encoder.simple_string_encoder()).build()
    counted.uid("counted").sink_to(files).uid("files")
    return env.execute_async("between ways")


@pytest.mark.parametrize("seed", range(40 if SOAKS else 3))
def test_nothing_is_lost_or_counted_twice(cluster, tmp_path, seed):
    chance = random.Random(f"between ways {seed}")
    savepoint = None
    trail = []
    for leg in range(LEGS):
        way = Way(
            MODES[(leg + seed) % 2] if leg < 2 else chance.choice(MODES),
            chance.choice(["hashmap", "rocksdb"]),
            unaligned=chance.random() < 0.5,
        )
        parallelism = chance.choice([1, 2, 3, 4])
        trail.append(f"{way}, parallelism {parallelism}")
        last = leg == LEGS - 1
        Gated.given, Gated.allowed = 0, RECORDS if last else chance.randrange(RECORDS // LEGS)
        job = start(tmp_path, way, parallelism, savepoint)
        if last:
            job.get_job_execution_result().result()
        else:
            wait_until(lambda: Gated.given >= Gated.allowed)
            savepoint = job.stop_with_savepoint(False, f"{tmp_path}/savepoints").result()
    seen: Counter[int] = Counter()
    numbers = defaultdict(list)
    for path in (tmp_path / "out").rglob("part*"):
        for line in path.read_text().split("\n")[:-1]:
            value, number = map(int, line.split())
            seen[value] += 1
            numbers[value % KEYS].append(number)
    assert seen == Counter(range(RECORDS)), trail
    assert all(sorted(each) == [*range(1, len(each) + 1)] for each in numbers.values()), trail
