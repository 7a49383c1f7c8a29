"""The autoscaler on Spark: a backlog that grows is met with more subtasks, and these go when it is worked off."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.connectors.base.source import (
    ReadLimits,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
    SplitProgress,
)
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from tests.builders.endless import EndlessSource, SplitsOnce
from tests.builders.waiting import wait_until

SPLITS = 2
TIMEOUT_S = 240
WORK_S = 0.01  # for a record, so a subtask does less than 100 of them in a second


class Clock:
    """Numbers that come by the time: 150 per second, and 10 after a file has said when it became quiet."""

    def __init__(self, quiet: Path) -> None:
        self.quiet = quiet
        self.start = time.time()

    def due(self) -> int:
        """Return how many numbers each split has had until now."""
        now = time.time()
        until = float(self.quiet.read_text()) if self.quiet.exists() else now
        return int(((until - self.start) * 150 + (now - until) * 10) / SPLITS)


class Arriving(EndlessSource):
    """Tells how many numbers wait to be read."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        splits = [SourceSplit(str(n), payload=n, start=0) for n in range(SPLITS)]
        return _Splits(self.clock, splits, restored)

    def create_reader(self) -> SourceReader:
        return _Reader(self.clock)


class _Splits(SplitsOnce):
    def __init__(self, clock: Clock, splits: Sequence[SourceSplit], restored: Any) -> None:
        super().__init__(splits, restored)
        self._clock = clock

    def has_data(self, positions: Sequence[int]) -> bool:
        return min(positions) < self._clock.due()

    def backlog(self, splits: Sequence[SplitProgress]) -> int:
        due = self._clock.due()
        return sum(max(0, due - split.position) for split in splits)


class _Reader(SourceReader):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        due = self._clock.due()
        while position < due:
            end = min(position + 5, due)
            yield SourceBatch([f"{split.payload} {n}" for n in range(position, end)], end)
            position = end


def work(line: str) -> str:
    time.sleep(WORK_S)
    return line


@pytest.mark.parametrize("mode", ["pipelined", "epochs"])
def test_a_growing_backlog_is_worked_off_by_more_subtasks_which_are_given_up_again(
    tmp_path: Path, mode: str
) -> None:
    options = {
        "penstock.execution.mode": mode,
        "execution.checkpointing.interval": "250 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "job.autoscaler.enabled": "true",
        "job.autoscaler.vertex.max-parallelism": "4",  # there are two cores
        "job.autoscaler.utilization.target": "0.9",
        "job.autoscaler.metrics.window": "1 s",
        "job.autoscaler.stabilization.interval": "500 ms",
        "job.autoscaler.catch-up.duration": "5 s",
        "job.autoscaler.scale-down.interval": "1 s",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(1)
    quiet = tmp_path / "quiet"
    clock = Clock(quiet)
    arriving = env.from_source(Arriving(clock), WatermarkStrategy.no_watermarks(), "arriving")
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    arriving.uid("arriving").map(work).uid("work").sink_to(sink).uid("files")
    client = env.execute_async("autoscaled")

    def parallelism() -> int:
        (vertex,) = client._controller.view().vertices()
        return vertex.parallelism

    wait_until(lambda: parallelism() > 1, seconds=TIMEOUT_S)
    assert parallelism() == 2
    waiting = clock.due()
    hidden = tmp_path / "hidden"
    hidden.write_text(str(time.time()))
    hidden.rename(quiet)
    wait_until(lambda: parallelism() == 1, seconds=TIMEOUT_S)
    client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(TIMEOUT_S)
    client.get_job_execution_result().result(TIMEOUT_S)

    numbers = defaultdict(list)
    for file in (tmp_path / "out").rglob("part-*"):
        for line in file.read_text().splitlines():
            split, number = line.split()
            numbers[split].append(int(number))
    for found in numbers.values():
        assert sorted(found) == list(range(len(found)))
        assert len(found) >= waiting
    assert len(numbers) == SPLITS
