"""A pipelined job whose source could bring a hundred times what its last function takes.

python slow_sink.py '{"directory": "/tmp/run", "master": "local[2]"}'
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.common import Configuration, WatermarkStrategy
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import MapFunction, StreamExecutionEnvironment

JOB_ID = "510551" + "0" * 26
SLOTS = 2
BATCH = 200
RECORD_BYTES = 2000
SLOW_S = 0.001  # for each record
TELL_S = 0.2


class Flood(Source):
    """Records without an end, as fast as they are taken."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        return Splits(found=bool(restored))

    def create_reader(self) -> SourceReader:
        return FloodReader(self._directory)


class Splits(SplitEnumerator):
    def __init__(self, *, found: bool) -> None:
        self._found = found

    def discover(self) -> Sequence[SourceSplit]:
        found, self._found = self._found, True
        return [] if found else [SourceSplit(str(split), start=0) for split in range(SLOTS)]

    def no_more_splits(self) -> bool:
        return False

    def snapshot(self) -> bool:
        return self._found


class Note:
    """A number in a file, some tenths of a second old."""

    def __init__(self, directory: str, name: str) -> None:
        self._file = Path(directory, name)
        self._reported = 0.0

    def tell(self, number: int) -> None:
        if time.monotonic() - self._reported > TELL_S:
            self._reported = time.monotonic()
            self._file.write_text(str(number))


class FloodReader(SourceReader):
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        note = Note(self._directory, f"read-{split.split_id}")
        while True:
            note.tell(position)
            numbers = range(position, position + BATCH)
            position += BATCH
            yield SourceBatch([f"{n:0{RECORD_BYTES}}" for n in numbers], position)


class Slow(MapFunction):
    """Tells how many records it has taken."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def open(self, runtime_context: Any) -> None:
        self._note = Note(self._directory, f"taken-{runtime_context.get_index_of_this_subtask()}")
        self._count = 0

    def map(self, value: str) -> int:
        time.sleep(SLOW_S)
        self._count += 1
        self._note.tell(self._count)
        return len(value)


def main(options: dict[str, Any]) -> None:
    directory = options["directory"]
    settings = Configuration()
    for key, value in {
        "penstock.execution.mode": "pipelined",
        "parallelism.default": str(SLOTS),
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "penstock.job-id": JOB_ID,
        "spark.master": options["master"],
        **options.get("settings", {}),
    }.items():
        settings.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.from_source(Flood(directory), WatermarkStrategy.no_watermarks(), "flood").key_by(
        lambda text: text[-3:]
    ).map(Slow(directory)).filter(lambda _: False).print()
    env.execute("slow sink")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
