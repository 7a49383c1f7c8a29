"""A pipelined job whose records all cross the network: numbers are counted per key, exactly once, into files.

    python crossing.py '{"directory": "/tmp/run", "storage": "/tmp/run", "records": 4000, "settings": {"spark.master": "spark://..."}}'

Every subtask of the counter tells in the directory `slots` where its process listens, and in `interpreters` which Python it is.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.state import ValueStateDescriptor

SPLITS = 2
KEYS = 20
BATCH = 20
PAUSE_S = 0.01  # after each batch
HELD_S = 0.1  # after each record, while the source is held back


def expected(records: int) -> list[str]:
    """Return the lines of the output, sorted."""
    return sorted(
        f"{key} number {number}\n"
        for key in range(KEYS)
        for number in range(1, SPLITS * len(range(key, records, KEYS)) + 1)
    )


class Paced(Source):
    """Two splits with the same numbers, at a pace that leaves time to strike."""

    def __init__(self, records: int, released: str | None) -> None:
        self._records = records
        self._released = released

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        return Splits(found=bool(restored))

    def create_reader(self) -> SourceReader:
        return PacedReader(self._records, self._released)


class Splits(SplitEnumerator):
    def __init__(self, *, found: bool) -> None:
        self._found = found

    def discover(self) -> list[SourceSplit]:
        if self._found:
            return []
        self._found = True
        return [SourceSplit(str(split), start=0) for split in range(SPLITS)]

    def no_more_splits(self) -> bool:
        return self._found

    def snapshot(self) -> bool:
        return self._found


class PacedReader(SourceReader):
    """Gives a record now and then until the file `released` exists, if there is to be one; then batches."""

    def __init__(self, records: int, released: str | None) -> None:
        self._records = records
        self._released = released

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        while position < self._records:
            held = self._released is not None and not Path(self._released).exists()
            end = min(position + (1 if held else BATCH), self._records)
            yield SourceBatch(list(range(position, end)), end)
            position = end
            time.sleep(HELD_S if held else PAUSE_S)


class Count(KeyedProcessFunction):
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def open(self, runtime_context: Any) -> None:
        import psutil

        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        listening = {
            connection.laddr.ip
            for connection in psutil.Process().net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        self._report("slots", " ".join(sorted(listening)))
        self._report("interpreters", sys.executable)

    def _report(self, what: str, text: str) -> None:
        reported = Path(self._directory, what, str(os.getpid()))
        reported.parent.mkdir(exist_ok=True)
        reported.write_text(text)

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield f"{ctx.get_current_key()} number {count}"


def main(options: dict[str, Any]) -> None:
    directory, storage = options["directory"], options["storage"]
    settings = Configuration()
    for key, value in {
        "penstock.execution.mode": options.get("mode", "pipelined"),
        "parallelism.default": str(SPLITS),
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": f"{storage}/checkpoints",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "0 ms",
        "spark.executor.memory": "512m",
        "slot.request.timeout": "300 s",  # executors are slow to come on a busy machine
        "heartbeat.interval": "1 s",  # a worker that is cut off is lost after the timeout
        "heartbeat.timeout": "5 s",
        **options["settings"],
    }.items():
        settings.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    source = Paced(options["records"], options.get("released"))
    env.from_source(source, WatermarkStrategy.no_watermarks(), "paced").key_by(
        lambda number: number % KEYS
    ).process(Count(directory)).sink_to(
        FileSink.for_row_format(f"{storage}/counts", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    env.execute("crossing")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
