"""The job that the fault suite kills: windowed sums to one file sink, a counter per key to another.

    python ledger.py '{"directory": "/tmp/run", "way": {"state.backend.type": "rocksdb"}, "faults": [["before commit_sink", 2, "raise"]]}'

Every epoch reads one batch of each split, and the size of a batch is different each time it is read: an attempt that is
repeated ends at another place of the input than the first one did. The output does not depend on where epochs end.
Where there are no epochs, a batch comes every few milliseconds.
With `threads` it runs without Spark, as `penstock run --no-spark` does. The last record of each split waits for as long as there is a file
`hold` in the directory; checkpoints go on meanwhile. With `released` the number of records is in a file of that name, and may grow while
there is a file `hold`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Duration, Time, Types, WatermarkStrategy
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
from penstock.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

JOB_ID = "1ed6e4" + "0" * 26
PARALLELISM = 2
RECORDS = 1700  # of the first split; the second one has half as many
BATCH_SIZES = (20, 60)  # about 42 epochs
REPEATED = 0.2  # how often a batch is preceded by what was delivered before
LONGEST_REPEAT = 90
HELD_S = 0.01
PACE_S = 0.03  # from one batch to the next, without epochs
KEYS = 13
WINDOW_MS = 2_000
BUCKET_MS = 5_000
JITTER_MS = 400
SABOTAGE_MS = 25_000  # about epoch 6


def record(split: int, index: int) -> tuple[str, int, int]:
    """Return (key, value, timestamp) number `index` of a split."""
    mixed = (index * 7919 + split * 104_729 + 12_345) * 2_654_435_761 % 2**32
    return f"k{mixed % KEYS}", mixed // KEYS % 101, index * 100 + mixed // 7 % JITTER_MS


def lengths(records: int) -> tuple[int, int]:
    """How many records each split has."""
    return records, records // 2


def expected(lengths: Sequence[int]) -> tuple[list[str], list[str]]:
    """Compute the output of both sinks in plain Python."""
    windows: Counter[tuple[str, int]] = Counter()
    buckets: Counter[tuple[str, int]] = Counter()
    counts: Counter[str] = Counter()
    for split, length in enumerate(lengths):
        for index in range(length):
            key, value, timestamp = record(split, index)
            windows[key, timestamp // WINDOW_MS * WINDOW_MS] += value
            buckets[key, timestamp // BUCKET_MS * BUCKET_MS] += value
            counts[key] += 1
    numbered = [f"{key} number {n}" for key, count in counts.items() for n in range(1, count + 1)]
    sums = [f"{key} bucket {start} sum {total}" for (key, start), total in buckets.items()]
    window_lines = [f"{key} window {start} sum {total}" for (key, start), total in windows.items()]
    return sorted(window_lines), sorted(numbered + sums)


class Ledger(Source):
    """Two splits of numbered records; the bounds of batches are random.

    With `forgets` its enumerator remembers nothing: after every restart it finds both splits again. With `redelivered`, a
    file, records of the first split are delivered again, after every restart and now and then without one; a line in the
    file stands for each time. As long as there is a file `hold`, no split ends. With `flows` batches keep their pace. The number of records
    is in a file if `records` is its path.
    """

    def __init__(
        self,
        records: int | Path,
        hold: Path,
        *,
        forgets: bool = False,
        redelivered: str | None = None,
        pipelined: bool = False,
    ) -> None:
        self._records = records
        self._hold = hold
        self._pipelined = pipelined
        self._forgets = forgets
        self._redelivered = redelivered

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        return LedgerEnumerator(found=bool(restored), forgets=self._forgets)

    def create_reader(self) -> SourceReader:
        if self._redelivered is None:
            return LedgerReader(self._records, self._hold, pipelined=self._pipelined)
        return RepeatingReader(
            self._records, self._hold, self._redelivered, pipelined=self._pipelined
        )


class LedgerEnumerator(SplitEnumerator):
    def __init__(self, *, found: bool, forgets: bool) -> None:
        self._found = found
        self._forgets = forgets

    def discover(self) -> list[SourceSplit]:
        if self._found:
            return []
        self._found = True
        return [SourceSplit(str(split), payload=split, start=0) for split in range(PARALLELISM)]

    def no_more_splits(self) -> bool:
        return self._found

    def snapshot(self) -> bool | None:
        return None if self._forgets else self._found


class LedgerReader(SourceReader):
    def __init__(self, records: int | Path, hold: Path, *, pipelined: bool) -> None:
        self._records = records
        self._hold = hold
        self._pipelined = pipelined

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        due = time.monotonic()
        while True:
            # In this order: what is released is final when nothing is held.
            holds = self._hold.exists()
            length = self._length(split)
            if position >= length:
                return
            end = min(position + random.randint(*BATCH_SIZES), length)
            if end == length and holds:
                end = length - 1
                if position == end and not self._pipelined:
                    time.sleep(HELD_S)
            if self._pipelined and time.monotonic() < due:
                end = position
            elif end > position:
                due = time.monotonic() + PACE_S
            rows = [record(split.payload, index) for index in range(position, end)]
            position = end
            yield SourceBatch(rows, position, [row[2] for row in rows])

    def _length(self, split: SourceSplit) -> int:
        records = self._records
        return lengths(records if isinstance(records, int) else int(records.read_text()))[
            split.payload
        ]


class RepeatingReader(LedgerReader):
    """Talks to a broker that delivers at least once: the first split may begin anywhere before its position."""

    def __init__(self, records: int | Path, hold: Path, log: str, *, pipelined: bool) -> None:
        super().__init__(records, hold, pipelined=pipelined)
        self._log = log
        self._began = False

    def ordered(self, split: SourceSplit) -> bool:
        return split.payload == 0

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        for batch in super().read(split, position, limits):
            waits = self._pipelined and not batch.records
            if waits or not self.ordered(split):
                yield batch
                continue
            head = position
            if position and (not self._began or random.random() < REPEATED):
                self._note(split, position)
                for _ in range(random.randint(0, 2)):
                    first = self._back(position)
                    yield self._between(split, first, random.randint(first + 1, position))
                head = self._back(position)  # this one has old records and new ones
            self._began = True
            yield self._between(split, head, batch.position)
            position = batch.position

    def _back(self, position: int) -> int:
        return max(0, position - random.randint(1, LONGEST_REPEAT))

    def _between(self, split: SourceSplit, first: int, end: int) -> SourceBatch:
        rows = [record(split.payload, index) for index in range(first, end)]
        return SourceBatch(rows, end, [row[2] for row in rows], positions=range(first + 1, end + 1))

    def _note(self, split: SourceSplit, position: int) -> None:
        with Path(self._log).open("a") as log:
            log.write(f"{split.split_id} before {position}\n")


class Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


class WindowLine(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Any) -> Iterator[str]:
        for total in elements:
            yield f"{key} window {context.window().start} sum {total}"


class Count(KeyedProcessFunction):
    """Numbers the records of a key; sums them up in buckets of time, put out by timers. A file `process-<subtask>` has its process."""

    def __init__(self, directory: str, sabotage: str | None) -> None:
        self._directory = directory
        self._sabotage = sabotage

    def open(self, runtime_context: Any) -> None:
        self._subtask = runtime_context.get_index_of_this_subtask()
        written = Path(self._directory, f".process-{self._subtask}-{os.getpid()}")
        written.write_text(str(os.getpid()))
        written.replace(Path(self._directory, f"process-{self._subtask}"))
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self._sums = runtime_context.get_map_state(
            MapStateDescriptor("sums", Types.LONG(), Types.LONG())
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        key, amount, timestamp = value
        if self._sabotage and self._subtask == 1 and timestamp > SABOTAGE_MS:
            lose_all_executors(self._sabotage)
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        start = timestamp // BUCKET_MS * BUCKET_MS
        self._sums.put(start, (self._sums.get(start) or 0) + amount)
        ctx.timer_service().register_event_time_timer(start + BUCKET_MS - 1)
        yield f"{key} number {count}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        start = timestamp + 1 - BUCKET_MS
        yield f"{ctx.get_current_key()} bucket {start} sum {self._sums.get(start)}"
        self._sums.remove(start)


def lose_all_executors(marker: str) -> None:
    """Once, until the marker is deleted: let the other task of this stage finish, then kill every executor, our own too.

    This task is run again, and so are the source tasks, whose output is lost. They end elsewhere in the input than the
    first time, while the finished task saw their first output: such a mixture must not become a checkpoint.
    """
    import psutil

    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    time.sleep(2)  # if that is not enough, nothing is mixed, and the test has it done once more
    own = next(process for process in psutil.Process().parents() if is_executor(process))
    others = [p for p in own.parent().children() if is_executor(p) and p.pid != own.pid]
    doomed = [*others, own]
    Path(marker).write_text("".join(f"{process.pid}\n" for process in doomed))
    for process in doomed:
        process.kill()


def is_executor(process: Any) -> bool:
    import psutil

    try:
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except psutil.Error:  # it has just ended
        return False


def configuration(options: dict[str, Any], job_id: str) -> Configuration:
    """Return the configuration of a job that can be killed and started again."""
    directory = options["directory"]
    settings = Configuration()
    for key, value in {
        "execution.checkpointing.interval": "1 ms",  # over when the first batch is read
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "penstock.job-id": job_id,
        "penstock.state.inline-threshold": "1 b",  # state goes to files, so that there are files to delete
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "0 ms",
        **options["way"],
        "state.backend.rocksdb.localdir": f"{directory}/rocksdb",
        "spark.master": options["master"],
        # An executor that is dead does not answer later either.
        "spark.shuffle.io.maxRetries": "1",
        "spark.shuffle.io.retryWait": "200ms",
        "spark.local.dir": f"{directory}/spark",
    }.items():
        settings.set_string(key, value)
    return settings


def main(options: dict[str, Any]) -> None:
    from penstock.client.local_cluster import LocalCluster
    from penstock.testing.faults import StepFault, protocol_faults

    directory, records = options["directory"], options.get("records", RECORDS)
    env = StreamExecutionEnvironment.get_execution_environment(configuration(options, JOB_ID))
    env.set_parallelism(PARALLELISM)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(JITTER_MS))
    source = Ledger(
        Path(directory, "released") if options.get("released") else records,
        Path(directory, "hold"),
        forgets=options.get("forgets", False),
        redelivered=f"{directory}/redelivered" if options.get("redelivers") else None,
        pipelined=options["way"].get("penstock.execution.mode") == "pipelined",
    )
    keyed = env.from_source(source, strategy, "ledger").key_by(lambda row: row[0])
    keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))).aggregate(
        Sum(), window_function=WindowLine()
    ).sink_to(
        # Files wait for several epochs, then they are put together.
        FileSink.for_row_format(f"{directory}/windows", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=3_000))
        .build()
    )
    keyed.process(Count(directory, options.get("sabotage"))).sink_to(
        FileSink.for_row_format(f"{directory}/counts", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    with (
        protocol_faults(*(StepFault(*fault) for fault in options["faults"])) as injected,
        LocalCluster() if options.get("threads") else contextlib.nullcontext(),
    ):
        env.execute("ledger")
    for fault in injected.waiting:
        print(f"never struck: {fault}")
    print(f"struck {len(injected.struck)}")


if __name__ == "__main__":
    main({"master": "local[2,4]", "way": {}, "faults": [], **json.loads(sys.argv[1])})
