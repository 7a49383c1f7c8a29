"""Which partitions are due, by the clock and by the watermark, and what waits."""

from __future__ import annotations

import datetime as dt
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.base.sink import MIN_WATERMARK, CommitRequest
from penstock.connectors.filesystem.committer import CommitPolicy, FileCommitter, InProgressFile
from penstock.connectors.filesystem.table.partition_times import (
    PartitionTimes,
    local_time,
    wrong_formatter,
    wrong_pattern,
)
from penstock.connectors.filesystem.table.partitions import (
    CommitTrigger,
    PartitionCommitter,
    WaitingPartitions,
    plan_partitions,
)
from penstock.errors import RecordError

HOUR_MS = 3_600_000
AT_ONCE = CommitPolicy()
LARGE = CommitPolicy(at_once=False, part_size=1 << 20)
BY_TIME = CommitTrigger(HOUR_MS, PartitionTimes(("h",), "1970-01-01 $h:00:00"))
BY_CLOCK = CommitTrigger(HOUR_MS)


def file(hour: int, *, checkpoint_id: int = 1, created: int = 0) -> InProgressFile:
    stem = f"part-0-{checkpoint_id}-{hour}"
    return InProgressFile(
        f"h={hour}",
        f".{stem}.inprogress.{checkpoint_id}.aa.bb",
        stem,
        0,
        checkpoint_id,
        10,
        1,
        created,
        created,
    )


def request(*files: InProgressFile, **more: object) -> CommitRequest:
    return replace(CommitRequest(1, list(files)), **more)


@pytest.mark.parametrize(
    ("watermark", "due"),
    [
        (MIN_WATERMARK, []),
        (2 * HOUR_MS, []),
        (2 * HOUR_MS + 1, ["h=1"]),
        (3 * HOUR_MS, ["h=1"]),
        (4 * HOUR_MS, ["h=1", "h=2"]),
    ],
)
def test_a_partition_is_due_when_the_watermark_has_passed_its_time_and_the_delay(
    watermark: int, due: list[str]
) -> None:
    given = request(file(1), file(2), file(3), watermark=watermark)
    _, committed, waiting = plan_partitions(given, AT_ONCE, BY_TIME)
    assert committed == due
    assert waiting is not None
    assert {*committed, *waiting.created} == {"h=1", "h=2", "h=3"}


@pytest.mark.parametrize(
    ("now", "due"),
    [(HOUR_MS, []), (HOUR_MS + 1, ["h=1"]), (HOUR_MS + 501, ["h=1", "h=2"])],
)
def test_a_partition_is_due_when_the_clock_has_passed_its_creation_and_the_delay(
    now: int, due: list[str]
) -> None:
    files = [file(1), file(2, created=500), file(1, checkpoint_id=2, created=900)]
    _, committed, _ = plan_partitions(request(*files, now_ms=now), AT_ONCE, BY_CLOCK)
    assert committed == due


def test_without_a_delay_partitions_with_files_are_due() -> None:
    published, committed, waiting = plan_partitions(request(file(1)), LARGE, CommitTrigger())
    assert (len(published), committed, waiting) == (1, ["h=1"], None)


def test_a_partition_waits_although_its_files_are_published() -> None:
    published, committed, waiting = plan_partitions(request(file(1)), AT_ONCE, BY_CLOCK)
    assert (len(published), committed) == (1, [])
    assert waiting == WaitingPartitions((), {"h=1": 0})
    later = request(now_ms=HOUR_MS + 1, pending=pickle.loads(pickle.dumps(waiting)))
    assert plan_partitions(later, AT_ONCE, BY_CLOCK) == ([], ["h=1"], None)


def test_files_that_would_wait_go_with_their_partition_only() -> None:
    given = request(file(1), file(2), watermark=2 * HOUR_MS + 1)
    published, committed, waiting = plan_partitions(given, LARGE, BY_TIME)
    assert [each.parts for each in published] == [(file(1),)]
    assert committed == ["h=1"]
    assert waiting is not None
    assert list(waiting) == [file(2)]


def test_a_savepoint_publishes_files_and_commits_nothing_before_its_time() -> None:
    published, committed, waiting = plan_partitions(request(file(1), final=True), LARGE, BY_TIME)
    assert (len(published), committed) == (1, [])
    assert waiting is not None
    assert (waiting.files, set(waiting.created)) == ((), {"h=1"})


@pytest.mark.parametrize("trigger", [BY_TIME, BY_CLOCK, CommitTrigger(at_end=True)])
def test_at_the_end_everything_is_due_and_nothing_waits(trigger: CommitTrigger) -> None:
    given = request(file(1), final=True, ended=True, watermark=5)
    published, committed, waiting = plan_partitions(given, LARGE, trigger)
    assert (len(published), committed, waiting) == (1, ["h=1"], None)


def test_time_does_not_go_back() -> None:
    _, _, waiting = plan_partitions(request(watermark=9 * HOUR_MS), AT_ONCE, BY_TIME)
    _, committed, _ = plan_partitions(request(file(1), pending=waiting), AT_ONCE, BY_TIME)
    assert committed == ["h=1"]


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 5), max_size=3), st.integers(0, 8), st.booleans()),
        max_size=8,
    ),
    st.sampled_from([AT_ONCE, LARGE]),
    st.sampled_from([BY_TIME, BY_CLOCK, CommitTrigger()]),
)
def test_every_file_is_published_once_and_no_later_than_its_partition_is_committed(
    epochs: list[tuple[list[int], int, bool]], policy: CommitPolicy, trigger: CommitTrigger
) -> None:
    pending, written, published = None, [], []
    for checkpoint_id, (hours, now, final) in enumerate([*epochs, ([], 0, True)]):
        ended = checkpoint_id == len(epochs)
        new = [
            file(hour, checkpoint_id=checkpoint_id, created=checkpoint_id)
            for hour in dict.fromkeys(hours)
        ]
        written += new
        time = now * HOUR_MS
        given = CommitRequest(checkpoint_id, new, final, time, pending, time, ended)
        some, committed, pending = plan_partitions(given, policy, trigger)
        published += [part for each in some for part in each.parts]
        hidden = [each for each in written if each not in published]
        assert not {each.bucket for each in hidden} & set(committed)
        assert list(pending or ()) == hidden
    assert pending is None
    assert sorted(published, key=lambda each: each.name) == sorted(
        written, key=lambda each: each.name
    )


def test_the_clock_wakes_the_committer_when_the_first_partition_is_due(tmp_path: Path) -> None:
    waiting = WaitingPartitions((), {"h=1": 700, "h=2": 500})
    committer = PartitionCommitter(str(tmp_path), AT_ONCE, BY_CLOCK, "_SUCCESS")
    assert committer.next_wakeup(waiting) == HOUR_MS + 501
    committer = PartitionCommitter(str(tmp_path), AT_ONCE, BY_TIME, "_SUCCESS")
    assert committer.next_wakeup(waiting) is None


def test_committer_state_is_compatible_with_and_without_partitions(tmp_path: Path) -> None:
    """The options of a table may change between two jobs."""
    kept = WaitingPartitions((file(1),), {"h=1": 0}, 7)
    _, left = FileCommitter(str(tmp_path), LARGE).plan(request(pending=kept))
    assert left == [file(1)]
    assert WaitingPartitions.of(left) == WaitingPartitions((file(1),), {"h=1": 0})


def test_a_commit_that_is_repeated_marks_again_and_nothing_else(tmp_path: Path) -> None:
    part = file(1)
    (tmp_path / "h=1").mkdir()
    (tmp_path / part.path).write_text("row\n")
    committer = PartitionCommitter(str(tmp_path), AT_ONCE, CommitTrigger(), "_SUCCESS")
    for _ in range(2):
        assert committer.commit(request(part)) is None
        found = sorted(each.name[:6] for each in (tmp_path / "h=1").iterdir())
        assert found == ["_SUCCE", "part-0"]


def test_nothing_is_marked_before_its_files_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise OSError("the disk is full")

    part = file(1)
    (tmp_path / "h=1").mkdir()
    (tmp_path / part.path).write_text("row\n")
    committer = PartitionCommitter(str(tmp_path), AT_ONCE, CommitTrigger(), "_SUCCESS")
    monkeypatch.setattr(FileCommitter, "_publish", crash)
    with pytest.raises(OSError, match="full"):
        committer.commit(request(part))
    assert [each.name for each in (tmp_path / "h=1").iterdir()] == [part.name]


@pytest.mark.parametrize(
    ("text", "formatter", "expected"),
    [
        ("2024-05-01", None, dt.datetime(2024, 5, 1)),
        ("2024-5-1 7:8:9", None, dt.datetime(2024, 5, 1, 7, 8, 9)),
        ("2024-05-01 07:08:09.1234567", None, dt.datetime(2024, 5, 1, 7, 8, 9, 123456)),
        ("2024-13-01", None, dt.datetime(2025, 1, 1)),
        ("2024-05-01 24:00:00", None, dt.datetime(2024, 5, 2)),
        ("2024-05-01 07", None, None),
        ("2024-05-01T07:08:09", None, None),
        ("__DEFAULT_PARTITION__", None, None),
        ("20240501", "yyyyMMdd", dt.datetime(2024, 5, 1)),
        ("20240501-07", "yyyyMMdd-HH", dt.datetime(2024, 5, 1, 7)),
        ("2024-05-01", "yyyyMMdd", None),
    ],
)
def test_partition_time_is_parsed_from_text(
    text: str, formatter: str | None, expected: dt.datetime | None
) -> None:
    assert local_time(text, formatter) == expected


@pytest.mark.parametrize(
    ("directory", "times", "expected"),
    [
        ("dt=1970-01-02/h=x", PartitionTimes(("dt", "h")), 24 * HOUR_MS),
        ("dt=1970-01-02/h=3", PartitionTimes(("dt", "h"), "$dt $h:00:00"), 27 * HOUR_MS),
        ("at=1970-01-01 01%3A00%3A00", PartitionTimes(("at",)), HOUR_MS),
        ("dt=1970-01-02", PartitionTimes(("dt",), zone="Asia/Shanghai"), 16 * HOUR_MS),
        ("y=1970/m=1", PartitionTimes(("y", "m"), "$y-$m-02"), 24 * HOUR_MS),
    ],
)
def test_the_time_of_a_partition(directory: str, times: PartitionTimes, expected: int) -> None:
    assert times.of(directory) == expected


def test_partition_without_a_time_is_an_error_with_the_text() -> None:
    with pytest.raises(RecordError, match="'none 10:00:00' does not match yyyy-MM-dd"):
        PartitionTimes(("dt", "h"), "$dt $h:00:00").of("dt=none/h=10")


def test_invalid_patterns_are_rejected() -> None:
    assert wrong_pattern("$dt $hour:00:00", ["dt", "hour"]) is None
    assert "'hr'" in str(wrong_pattern("$dt $hr:00:00", ["dt", "hour"]))
    assert wrong_pattern("2024-01-01", ["dt"]) is not None
    assert wrong_formatter("yyyyMMdd HH:mm:ss") is None
    assert wrong_formatter("uuuuDDD") is None
    assert wrong_formatter("yyyy-MM-dd hh a") is None
    assert wrong_formatter("yyyy-MM") is not None
    assert wrong_formatter("yyyy-MM-dd hh") is not None
    assert "'Z'" in str(wrong_formatter("yyyy-MM-dd Z"))
