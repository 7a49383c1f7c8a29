"""The micro-batches of a stream of Spark: found once, kept as long as a checkpoint needs them. The query is played by the tests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.base.source import Boundedness, SourceSplit, SplitProgress
from penstock.connectors.spark.batches import BatchStore
from penstock.connectors.spark.stream_source import (
    BatchEnumerator,
    BatchState,
    DataFrameStreamSource,
    StreamLimits,
)
from penstock.errors import JobCancelledError, PenstockError, RestoreRefusedError
from penstock.runtime.columnar.arrow_files import ArrowFile, write_arrow_file
from penstock.sql import types as t
from tests.builders.waiting import wait_until

TIMEOUT_S = 60


class Query:
    """The query of an enumerator: the test hands over micro-batches in its place."""

    def __init__(self, on_batch: Callable[..., None]) -> None:
        self.on_batch = on_batch
        self.error: Exception | None = None
        self.stopped = False
        self.written: list[int] = []

    def hand_over(self, number: int, *partitions: int) -> None:
        """Hand over a micro-batch with so many rows in each partition."""

        def write(directory: str) -> list[ArrowFile]:
            self.written.append(number)
            files = [
                write_arrow_file(
                    f"{directory}/part-{at:05}-{number}.arrow",
                    pa.table({"n": list(range(rows))}).to_batches(),
                )
                for at, rows in enumerate(partitions)
            ]
            return [file for file in files if file is not None]

        self.on_batch(number, write)

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.stopped = True


def started(
    home: Path | str, state: BatchState | None = None, **limits: int
) -> tuple[BatchEnumerator, Query]:
    queries: list[Query] = []

    def start(store: BatchStore, on_batch: Any) -> Any:
        queries.append(Query(on_batch))
        return queries[-1]

    made = BatchEnumerator("clicks", state or BatchState(str(home)), start, StreamLimits(**limits))
    made.prepare(lambda: False)
    return made, queries[0]


def ids(splits: list[SourceSplit]) -> list[str]:
    return [split.split_id for split in splits]


def finished(splits: list[SourceSplit]) -> list[SplitProgress]:
    return [SplitProgress(split, split.payload.rows, finished=True) for split in splits]


def kept(home: Path) -> list[int]:
    return sorted(int(each.name) for each in (home / "batches").iterdir() if each.is_dir())


def test_each_partition_with_rows_is_a_split(tmp_path):
    enumerator, query = started(tmp_path)
    assert enumerator.discover() == []
    query.hand_over(0, 3, 0, 2)
    query.hand_over(1, 1)
    found = enumerator.discover()
    assert ids(found) == ["0/part-00000", "0/part-00002", "1/part-00000"]
    assert [split.payload.rows for split in found] == [3, 2, 1]
    assert all(split.bounded for split in found)
    assert enumerator.discover() == []
    assert not enumerator.no_more_splits()


def test_a_repeated_micro_batch_is_taken_once(tmp_path):
    enumerator, query = started(tmp_path)
    query.hand_over(0, 3)
    query.hand_over(0, 3)
    assert ids(enumerator.discover()) == ["0/part-00000"]
    assert query.written == [0]
    restored, later = started(tmp_path, enumerator.snapshot())
    later.hand_over(0, 3)
    assert restored.discover() == []
    assert later.written == []


def test_a_micro_batch_that_was_deleted_is_not_taken_again(tmp_path):
    enumerator, query = started(tmp_path)
    query.hand_over(0, 3)
    enumerator.observe_finished(finished(enumerator.discover()))
    assert kept(tmp_path) == []
    restored, later = started(tmp_path, enumerator.snapshot())
    later.hand_over(0, 3)
    assert (restored.discover(), later.written) == ([], [])


def test_a_restored_job_finds_what_was_written_after_its_checkpoint(tmp_path):
    enumerator, query = started(tmp_path)
    query.hand_over(0, 3)
    enumerator.discover()
    checkpoint = enumerator.snapshot()
    query.hand_over(1, 2)
    enumerator.discover()
    query.hand_over(2, 1)
    restored, later = started(tmp_path, checkpoint)
    later.hand_over(3, 4)
    assert ids(restored.discover()) == ["1/part-00000", "2/part-00000", "3/part-00000"]


def test_a_micro_batch_that_was_not_written_to_its_end_does_not_count(tmp_path):
    enumerator, query = started(tmp_path)

    def fail(directory: str) -> list[ArrowFile]:
        write_arrow_file(f"{directory}/part-00000-x.arrow", pa.table({"n": [1]}).to_batches())
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        query.on_batch(0, fail)
    assert enumerator.discover() == []
    restored, later = started(tmp_path, enumerator.snapshot())
    assert restored.discover() == []
    later.hand_over(0, 5)
    assert [split.payload.rows for split in restored.discover()] == [5]


# What is deleted


def test_one_whose_splits_are_finished_waits_for_those_before_it(tmp_path):
    enumerator, query = started(tmp_path)
    for number in range(3):
        query.hand_over(number, 1, 1)
    found = enumerator.discover()
    enumerator.observe_finished(finished(found[2:5]))
    assert kept(tmp_path) == [0, 1, 2]
    enumerator.observe_finished(finished(found[:2]))
    assert kept(tmp_path) == [2]
    state: Any = enumerator.snapshot()
    assert state == BatchState(str(tmp_path), 2, ((2, ("2/part-00001",)),))
    enumerator.observe_finished(finished(found[5:]))
    assert kept(tmp_path) == []


def test_one_without_rows_is_kept_until_a_later_one_is_behind_a_checkpoint(tmp_path):
    enumerator, query = started(tmp_path)
    query.hand_over(0)
    assert enumerator.discover() == []
    enumerator.observe_finished([])
    assert kept(tmp_path) == [0]
    query.hand_over(1, 1)
    query.hand_over(2)
    enumerator.observe_finished(finished(enumerator.discover()))
    assert kept(tmp_path) == [2]


def test_what_a_restored_job_has_finished_is_deleted(tmp_path):
    enumerator, query = started(tmp_path)
    query.hand_over(0, 1, 1)
    found = enumerator.discover()
    enumerator.observe_finished(finished(found[:1]))
    restored, _ = started(tmp_path, enumerator.snapshot())
    restored.observe_finished(finished(found[1:]))
    assert kept(tmp_path) == []


def test_a_checkpoint_that_is_older_than_what_was_deleted_is_refused(tmp_path):
    enumerator, query = started(tmp_path)
    before = enumerator.snapshot()
    query.hand_over(0, 1)
    enumerator.observe_finished(finished(enumerator.discover()))
    with pytest.raises(RestoreRefusedError, match="older than what is left of the stream 'clicks'"):
        started(tmp_path, before)


# Another job


def stream_source(directory: Path) -> DataFrameStreamSource:
    frame: Any = None
    columns = t.RowType([t.RowField("n", t.BigIntType())])
    made = DataFrameStreamSource(frame, columns, "clicks", columnar=False)
    made.attach_storage(str(directory))
    return made


def test_another_job_goes_on_with_the_query_where_it_is(tmp_path):
    source = stream_source(tmp_path / "new")
    state = BatchState(str(tmp_path / "old"), 7)
    with pytest.raises(RestoreRefusedError, match="no longer exists") as refused:
        source.adopt_enumerator(state)
    assert str(tmp_path / "old") in str(refused.value.detail)
    (tmp_path / "old" / "query").mkdir(parents=True)
    assert source.adopt_enumerator(state) is state
    restored: Any = source.create_enumerator(1, state).snapshot()
    assert restored.home == str(tmp_path / "old")
    fresh: Any = source.create_enumerator(1).snapshot()
    assert fresh == BatchState(str(tmp_path / "new"))
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED


# Back-pressure


def hand_over_in_thread(query: Query, number: int, *partitions: int) -> threading.Thread:
    thread = threading.Thread(target=query.hand_over, args=(number, *partitions), daemon=True)
    thread.start()
    return thread


def test_spark_waits_while_too_many_micro_batches_are_unread(tmp_path, caplog):
    enumerator, query = started(tmp_path, unread=2)
    query.hand_over(0, 1)
    query.hand_over(1, 1)
    with caplog.at_level(logging.WARNING):
        waiting = hand_over_in_thread(query, 2, 1)
        wait_until(lambda: "the stream 'clicks' waits" in caplog.text, "the warning")
        found = enumerator.discover()
        assert ids(found) == ["0/part-00000", "1/part-00000"]
        enumerator.observe(found)
        assert waiting.is_alive()
        enumerator.observe(found[1:])
        waiting.join(TIMEOUT_S)
        assert ids(enumerator.discover()) == ["2/part-00000"]
        again = hand_over_in_thread(query, 3, 1)
        enumerator.observe([])
        again.join(TIMEOUT_S)
    assert caplog.text.count("the stream 'clicks' waits") == 1
    assert "has not read 2 micro-batches" in caplog.text


def test_spark_waits_while_too_much_is_kept_for_a_checkpoint(tmp_path, caplog):
    enumerator, query = started(tmp_path, kept_bytes=1)
    query.hand_over(0, 1)
    found = enumerator.discover()
    enumerator.observe([])
    with caplog.at_level(logging.WARNING):
        waiting = hand_over_in_thread(query, 1, 1)
        wait_until(lambda: "execution.checkpointing.interval" in caplog.text, "the warning")
    assert query.written == [0]
    enumerator.observe_finished(finished(found))
    waiting.join(TIMEOUT_S)
    assert query.written == [0, 1]


def test_a_query_that_waits_ends_with_its_job(tmp_path):
    enumerator, query = started(tmp_path, unread=1)
    query.hand_over(0, 1)
    errors: list[Exception] = []

    def hand_over() -> None:
        try:
            query.hand_over(1, 1)
        except JobCancelledError as error:
            errors.append(error)

    thread = threading.Thread(target=hand_over, daemon=True)
    thread.start()
    enumerator.close()
    thread.join(TIMEOUT_S)
    assert len(errors) == 1
    assert query.stopped
    assert query.written == [0]


def test_the_error_of_the_query_is_that_of_the_job(tmp_path):
    enumerator, query = started(tmp_path)
    query.error = PenstockError("the streaming query of 'clicks' failed")
    with pytest.raises(PenstockError, match="streaming query"):
        enumerator.discover()


def test_the_backlog_has_what_was_written_and_not_read(tmp_path):
    enumerator, query = started(tmp_path)
    query.hand_over(0, 5)
    (split,) = enumerator.discover()
    query.hand_over(1, 3)
    assert enumerator.backlog([SplitProgress(split, 2)]) == 6
