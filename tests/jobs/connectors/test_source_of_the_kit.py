"""The conformance kit's own source, with one batch in each checkpoint: its jobs can be killed at any of several commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from penstock.connectors.base.source import NonBlockingReadLimits, ReadLimits, SourceSplit
from penstock.testing.conformance.jobs import ScriptedSource

BATCH = [0, 2, 4, 6]  # of the first of two splits
SPLIT = SourceSplit("0", 0, 0)


def reads(reader, position: int, limits: ReadLimits) -> Iterator[list[int]]:
    return (batch.records for batch in reader.read(SPLIT, position, limits))


def test_in_an_epoch_one_batch_is_read() -> None:
    reader = ScriptedSource(range(100), pause_s=0, paced=True).create_reader()
    batches = reads(reader, 0, ReadLimits())
    assert [next(batches) for _ in range(3)] == [BATCH, [], []]
    assert next(reads(reader, 4, ReadLimits())) == [8, 10, 12, 14]


def test_in_pipelined_mode_the_next_batch_comes_when_a_checkpoint_holds_the_last() -> None:
    reader = ScriptedSource(range(100), pause_s=0, paced=True).create_reader()
    assert next(reads(reader, 0, NonBlockingReadLimits())) == BATCH
    assert next(reads(reader, 4, NonBlockingReadLimits())) == []
    reader.on_checkpoint(SPLIT, 4)
    assert next(reads(reader, 4, NonBlockingReadLimits())) == [8, 10, 12, 14]


def test_after_a_restart_the_restored_position_is_that_of_a_checkpoint() -> None:
    reader = ScriptedSource(range(100), pause_s=0, paced=True).create_reader()
    assert next(reads(reader, 4, NonBlockingReadLimits())) == [8, 10, 12, 14]


def test_other_jobs_read_batch_after_batch() -> None:
    batches = reads(
        ScriptedSource(range(16), pause_s=0).create_reader(), 0, NonBlockingReadLimits()
    )
    assert list(batches) == [BATCH, [8, 10, 12, 14]]


def test_held_back_records_are_read_once_released(tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.write_text("3")
    batches = reads(
        ScriptedSource(range(16), hold, pause_s=0).create_reader(), 0, NonBlockingReadLimits()
    )
    assert [next(batches) for _ in range(3)] == [[0, 2, 4], [], []]
    hold.write_text("2")  # less than it has read
    assert next(batches) == []
    hold.unlink()
    assert list(batches) == [[6, 8, 10, 12], [14]]
