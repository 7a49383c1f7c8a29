"""The job whose clock jumps: it has processing-time timers, time to live, and a split that falls silent.

    python clockwork.py '{"directory": "/tmp/run"}'

Its two splits have as many records as the file `released` in its directory says. Another source has a record, of the time 0, for
each file `nudge-<n>`: after each of them it holds time back until it is idle. Readers wait for records until the epoch ends;
while they do, one of them calls a file `jump-while-reading` `jump`. The job is stopped when there is a file `end`.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ledger

from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.connectors.base.source import (
    Boundedness,
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.state import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

JOB_ID = "c10c" + "0" * 28
QUIET = "quiet"
BATCH = 40
INTERVAL = "150 ms"  # of it nothing is left when an epoch has been read
PAUSE = "150 ms"  # so there is some time between epochs
POLL_S = 0.005
HOLD_MS = 200
IDLE_MS = 2_000
LIVES = Time.hours(2)  # longer than the clock jumps
END_OF_TIME = 2**63 - 1

Record = tuple[str, int, int, str]  # key, value, timestamp, name


def record(split: int, index: int) -> Record:
    return (*ledger.record(split, index), f"{split}-{index}")


def nudge(index: int) -> Record:
    return QUIET, 0, 0, f"{QUIET}-{index}"


def expected(records: int, nudges: int) -> dict[str, list[str]]:
    """Compute the output of all sinks in plain Python."""
    windows, counts = ledger.expected([records] * 2)
    counts = [line for line in counts if "number" in line]
    counts += [f"{QUIET} number {n}" for n in range(1, nudges + 1)]
    rows = [record(split, index) for split in range(2) for index in range(records)]
    rows += [nudge(index) for index in range(nudges)]
    held = [f"{row[0]} held {row[3]}" for row in rows]
    found = {"windows": windows, "counts": counts, "held": held}
    return {sink: sorted(f"{line}\n" for line in lines) for sink, lines in found.items()}


class Clockwork(ledger.Ledger):
    def __init__(self, directory: str, *, quiet: bool = False) -> None:
        super().__init__(0, Path(directory, "hold"))
        self._directory = Path(directory)
        self._quiet = quiet

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        kind = QuietEnumerator if self._quiet else ledger.LedgerEnumerator
        return kind(found=bool(restored), forgets=False)

    def create_reader(self) -> SourceReader:
        return ClockworkReader(self._directory)


class QuietEnumerator(ledger.LedgerEnumerator):
    def discover(self) -> list[SourceSplit]:
        return [SourceSplit(QUIET, start=0)] if super().discover() else []


class ClockworkReader(SourceReader):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        while True:
            rows = self._rows(split, position)
            position += len(rows)
            yield SourceBatch(rows, position, [row[2] for row in rows])
            if not rows:
                with contextlib.suppress(FileNotFoundError):
                    (self._directory / "jump-while-reading").rename(self._directory / "jump")
                left = limits.remaining
                time.sleep(POLL_S if left is None else min(left, POLL_S))

    def _rows(self, split: SourceSplit, position: int) -> list[Record]:
        if split.split_id == QUIET:
            there = (self._directory / f"nudge-{position}").exists()
            return [nudge(position)] if there else []
        released = int((self._directory / "released").read_text())
        end = min(position + BATCH, released)
        return [record(split.payload, index) for index in range(position, end)]


class Number(KeyedProcessFunction):
    """Numbers the records of a key, in state that would be forgotten after two hours."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(LIVES).build())
        self._count = runtime_context.get_state(descriptor)

    def process_element(self, value: Record, ctx: Any) -> Iterator[str]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield f"{value[0]} number {count}"


class Hold(KeyedProcessFunction):
    """Puts records out after a fifth of a second; those that are left at the end, then."""

    def open(self, runtime_context: Any) -> None:
        self._held = runtime_context.get_list_state(ListStateDescriptor("held", Types.STRING()))

    def process_element(self, value: Record, ctx: Any) -> Iterator[str]:
        self._held.add(value[3])
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + HOLD_MS)
        timers.register_event_time_timer(END_OF_TIME)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        for name in self._held.get() or []:
            yield f"{ctx.get_current_key()} held {name}"
        self._held.clear()


def main(options: dict[str, Any]) -> None:
    directory = options["directory"]
    configuration = ledger.configuration(options, JOB_ID)
    configuration.set_string("execution.checkpointing.interval", INTERVAL)
    configuration.set_string("execution.checkpointing.min-pause", PAUSE)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(ledger.PARALLELISM)

    def put(lines: DataStream, name: str) -> None:
        lines.sink_to(
            FileSink.for_row_format(f"{directory}/{name}", Encoder.simple_string_encoder())
            .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
            .build()
        )

    bound = Duration.of_millis(ledger.JITTER_MS)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(bound)
    patient = WatermarkStrategy.for_bounded_out_of_orderness(bound).with_idleness(
        Duration.of_millis(IDLE_MS)
    )
    quiet = env.from_source(Clockwork(directory, quiet=True), patient, QUIET).set_parallelism(1)
    records = env.from_source(Clockwork(directory), strategy, "clockwork").union(quiet)
    keyed = records.key_by(lambda row: row[0])
    put(keyed.process(Number()), "counts")
    put(keyed.process(Hold()), "held")
    loud = records.filter(lambda row: row[0] != QUIET).key_by(lambda row: row[0])
    windows = loud.window(TumblingEventTimeWindows.of(Time.milliseconds(ledger.WINDOW_MS)))
    put(windows.aggregate(ledger.Sum(), window_function=ledger.WindowLine()), "windows")
    job = env.execute_async("clockwork")

    def stop() -> None:
        while not Path(directory, "end").exists():
            time.sleep(POLL_S)
        job.stop_with_savepoint(True, f"{directory}/savepoint")

    threading.Thread(target=stop, daemon=True).start()
    job.get_job_execution_result().result()


if __name__ == "__main__":
    main({"master": "local[2,4]", "way": {}, **json.loads(sys.argv[1])})
