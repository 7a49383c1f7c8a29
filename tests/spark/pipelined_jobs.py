"""Endless counting jobs that tell the processes of their subtasks and write files: for tests on Spark."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
)
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.state import ValueStateDescriptor
from tests.builders.endless import EndlessSource
from tests.builders.waiting import wait_until

TIMEOUT_S = 240
# For jobs whose worker is paused: that is noticed by the heartbeats that are missing.
SHORT_HEARTBEATS = {"heartbeat__interval": "500 ms", "heartbeat__timeout": "3 s"}


class Ticks(EndlessSource):
    """One split that counts up, not too fast."""

    def create_reader(self) -> SourceReader:
        return _Reader()


class _Reader(SourceReader):
    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        yield SourceBatch(list(range(position, position + 5)), position + 5)
        time.sleep(0.002)


class Count(KeyedProcessFunction):
    """Emits `key count`, and tells which process it is in."""

    def __init__(self, reported: str) -> None:
        self.reported = reported

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        written = Path(f"{self.reported}-{os.getpid()}")
        written.write_text(str(os.getpid()))
        written.rename(self.reported)  # a reader finds all of it

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        self.count.update((self.count.value() or 0) + 1)
        yield f"{ctx.get_current_key()} {self.count.value()}"


def start(directory: Path, *names: str, parallelism: int = 1, **options: str) -> Any:
    """Start a job with a pipeline for each name, which have nothing in common; files go to a directory of each."""
    configuration = Configuration.from_dict(
        {
            "execution.checkpointing.interval": "100 ms",
            "execution.checkpointing.dir": f"{directory}/checkpoints",
            "parallelism.default": str(parallelism),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "0 ms",
            "restart-strategy.fixed-delay.attempts": "20",
            **{name.replace("__", ".").replace("_", "-"): text for name, text in options.items()},
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    for name in names:
        ticks = env.from_source(Ticks(), WatermarkStrategy.no_watermarks(), name).uid(f"{name}-in")
        counted = ticks.key_by(lambda value: value % 3).process(Count(f"{directory}/{name}.pid"))
        sink = FileSink.for_row_format(
            f"{directory}/{name}", Encoder.simple_string_encoder()
        ).build()
        counted.uid(f"{name}-count").sink_to(sink).uid(f"{name}-out").name(f"{name}-out")
    return env.execute_async("counting")


def master_of(client: Any) -> Any:
    """Return the JobMaster."""
    return client._controller.master


def process_of(directory: Path, name: str) -> int:
    """Return the process of the subtask that opened last."""
    return int((directory / f"{name}.pid").read_text())


def checkpoints(client: Any, more: int) -> None:
    """Wait for more checkpoints."""
    master = master_of(client)

    def checkpoint_id() -> int:
        return 0 if master.manifest is None else master.manifest.checkpoint_id

    target = checkpoint_id() + more
    wait_until(lambda: checkpoint_id() >= target, f"checkpoint {target}")


def check_exactly_once(directory: Path) -> int:
    """Each count of each key is in the files once; return how many there are."""
    lines = [
        tuple(map(int, line.split()))
        for file in directory.rglob("*")
        if file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(directory).parts)
        for line in file.read_text().splitlines()
    ]
    for key in range(3):
        counts = sorted(count for each, count in lines if each == key)
        assert counts == list(range(1, len(counts) + 1))
    return len(lines)


def is_alive(process: int) -> bool:
    """Whether there is such a process, and it is not a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


if __name__ == "__main__":  # a directory, names and options; runs until there is a file `stop`
    where = Path(sys.argv[1])
    names = [text for text in sys.argv[2:] if "=" not in text]
    more = dict(text.split("=", 1) for text in sys.argv[2:] if "=" in text)
    started = start(where, *names, **{key.replace(".", "__"): text for key, text in more.items()})
    while not (where / "stop").exists() and not started.get_job_execution_result().done():
        time.sleep(0.05)
    started.stop_with_savepoint(False, str(where / "savepoints")).result()
    started.get_job_execution_result().result()
