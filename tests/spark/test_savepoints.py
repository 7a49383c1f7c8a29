"""Savepoints and rescaling of a running job on Spark: what it writes is complete and without repetition."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Configuration, Encoder, JobStatus, WatermarkStrategy
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

KEYS = 5
TIMEOUT_S = 240


class Endless(EndlessSource):
    """Two splits that count up, twenty numbers each in every epoch."""

    def splits(self) -> Sequence[SourceSplit]:
        return [SourceSplit(str(n), payload=n, start=n) for n in range(2)]

    def create_reader(self) -> SourceReader:
        return _Numbers()


class _Numbers(SourceReader):
    def read(self, split: SourceSplit, position: int, limits: ReadLimits) -> Iterator[SourceBatch]:
        numbers = list(range(position, position + 40, 2))
        yield SourceBatch(numbers, position + 40, numbers)


class Count(KeyedProcessFunction):
    """Emits `key number count`; a timer at the end of time tells the last count."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timer_service().register_event_time_timer(2**62)
        yield f"{ctx.get_current_key()} {value} {count}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield f"{ctx.get_current_key()} end {self.count.value()}"


def start(out: Path, directory: Path, parallelism: int, **options: str) -> Any:
    """Start the job; what it has written stays hidden for a minute, unless it must be published."""
    configuration = Configuration.from_dict(
        {
            "execution.checkpointing.interval": "100 ms",
            "execution.checkpointing.dir": str(directory),
            "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
            **options,
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    numbers = env.from_source(
        Endless(), WatermarkStrategy.for_monotonous_timestamps(), "numbers"
    ).uid("numbers")
    counted = numbers.key_by(lambda number: number % KEYS).process(Count()).uid("count")
    sink = FileSink.for_row_format(str(out), Encoder.simple_string_encoder()).build()
    counted.sink_to(sink).uid("files")
    return env.execute_async("counting")


def wait_for_epochs(client: Any, count: int) -> None:
    view = client._controller.view
    target = view().checkpoint_id + count
    wait_until(lambda: view().checkpoint_id >= target, seconds=TIMEOUT_S)


def written(out: Path) -> list[list[str]]:
    return [
        line.split()
        for file in out.rglob("*")
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(out).parts)
        for line in file.read_text().splitlines()
    ]


def check(records: list[list[str]], *, ended: bool) -> None:
    """Each number is there once, up to some number of either split, and each count follows the one before it."""
    numbers = sorted(int(number) for _, number, _ in records if number != "end")
    even, odd = [n for n in numbers if n % 2 == 0], [n for n in numbers if n % 2 == 1]
    assert even == list(range(0, 2 * len(even), 2))
    assert odd == list(range(1, 2 * len(odd) + 1, 2))
    for key in range(KEYS):
        counts = sorted(int(c) for k, number, c in records if int(k) == key and number != "end")
        assert counts == list(range(1, len(counts) + 1))
        ends = [int(count) for k, number, count in records if int(k) == key and number == "end"]
        assert ends == ([len(counts)] if ended else [])


@pytest.mark.parametrize(
    "backends", [("hashmap", "rocksdb"), ("rocksdb", "hashmap")], ids="->".join
)
def test_a_job_is_rescaled_saved_stopped_moved_and_drained(
    backends: tuple[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = start(out, tmp_path / "first", 2, **{"state.backend.type": backends[0]})
    wait_for_epochs(first, 2)
    assert set(first.rescale(3).result(TIMEOUT_S).values()) == {3}
    wait_for_epochs(first, 2)
    aside = first.trigger_savepoint(str(tmp_path / "aside")).result(TIMEOUT_S)
    assert first.get_job_status().result() is JobStatus.RUNNING
    wait_for_epochs(first, 1)
    stopped = first.stop_with_savepoint(False).result(TIMEOUT_S)
    assert stopped.startswith(str(tmp_path / "first" / "savepoints"))
    first.get_job_execution_result().result(TIMEOUT_S)
    assert first.get_job_status().result() is JobStatus.FINISHED
    check(written(out), ended=False)

    moved = tmp_path / "moved"
    shutil.move(stopped, moved)
    shutil.rmtree(tmp_path / "first")
    more = {"state.backend.type": backends[1], "execution.state-recovery.path": str(moved)}
    second = start(out, tmp_path / "second", 1, **more)
    wait_for_epochs(second, 2)
    assert set(second.rescale({"count": 2}).result(TIMEOUT_S).values()) == {1, 2}
    wait_for_epochs(second, 2)
    second.stop_with_savepoint(True).result(TIMEOUT_S)
    second.get_job_execution_result().result(TIMEOUT_S)
    check(written(out), ended=True)

    # The savepoint that was taken aside is older, and complete in itself.
    other = tmp_path / "other"
    third = start(other, tmp_path / "third", 4, **{"execution.state-recovery.path": aside})
    wait_for_epochs(third, 2)
    third.stop_with_savepoint(True).result(TIMEOUT_S)
    third.get_job_execution_result().result(TIMEOUT_S)
    later = [int(number) for _, number, _ in written(other) if number != "end"]
    earliest = [min(n for n in later if n % 2 == split) for split in range(2)]
    before = [
        line
        for line in written(out)
        if line[1] != "end" and int(line[1]) < earliest[int(line[1]) % 2]
    ]
    check([*before, *written(other)], ended=True)


@pytest.mark.ci
def test_a_job_goes_on_from_its_savepoint_in_another_mode_with_another_backend(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    epochs = {"penstock.execution.mode": "epochs", "state.backend.type": "rocksdb"}
    first = start(out, tmp_path / "first", 2, **epochs)
    wait_for_epochs(first, 1)
    savepoint = first.stop_with_savepoint(False).result(TIMEOUT_S)
    first.get_job_execution_result().result(TIMEOUT_S)
    before = written(out)
    check(before, ended=False)

    pipelined = {"penstock.execution.mode": "pipelined", "state.backend.type": "hashmap"}
    recover = {"execution.state-recovery.path": savepoint}
    second = start(out, tmp_path / "second", 1, **pipelined, **recover)
    wait_for_epochs(second, 1)
    second.stop_with_savepoint(True).result(TIMEOUT_S)
    second.get_job_execution_result().result(TIMEOUT_S)
    assert len(written(out)) > len(before) > 0
    check(written(out), ended=True)
