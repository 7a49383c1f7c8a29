"""Writing files exactly once: names, rolling, and commits that crash at every operation."""

from __future__ import annotations

import collections
import contextlib
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common.serialization import Encoder, SimpleStringSchema
from penstock.connectors.base.sink import CheckpointContext, CommitRequest
from penstock.connectors.filesystem import writer as file_writer
from penstock.connectors.filesystem.buckets import BucketAssigner
from penstock.connectors.filesystem.committer import (
    CommitPolicy,
    FileCommitter,
    InProgressFile,
    plan_commit,
)
from penstock.connectors.filesystem.rolling import (
    FileCompactor,
    FileCompactStrategy,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.connectors.filesystem.sink import FileSink, StreamingFileSink
from penstock.errors import ArgumentError, ArgumentTypeError, CheckpointError, RecordError
from tests.builders.connector_helpers import (
    CrashError,
    FailingFileSystem,
    MovingFileSystem,
    open_writer,
)
from tests.builders.examples import examples

ON_CHECKPOINT = RollingPolicy.on_checkpoint_rolling_policy()
BASE = BucketAssigner.base_path_bucket_assigner()


def text_sink(path, policy=None, assigner=BASE, config=None, **compact):
    builder = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    builder.with_bucket_assigner(assigner)
    if policy is not None:
        builder.with_rolling_policy(policy)
    if config is not None:
        builder.with_output_file_config(config)
    if compact:
        builder.enable_compact(compact["strategy"], compact["compactor"])
    return builder.build()


def write(sink, values, **context):
    """What a writer pre-commits, as it arrives on the driver."""
    writer = open_writer(sink, "/nowhere", **context)
    for batch in values if values and isinstance(values[0], list) else [values]:
        writer.write(batch, None, 0)
    committables = writer.prepare_commit()
    writer.close()
    return pickle.loads(pickle.dumps(committables))


def visible(path):
    """Lines by file of what a reader sees."""
    return {
        str(file.relative_to(path)): file.read_text().splitlines()
        for file in sorted(Path(path).rglob("*"))
        if file.is_file() and not file.name.startswith(".")
    }


def hidden(path):
    return sorted(str(file.relative_to(path)) for file in Path(path).rglob(".*") if file.is_file())


def lines(path):
    return sorted(line for file in visible(path).values() for line in file)


def test_nothing_is_visible_before_the_commit(tmp_path):
    sink = text_sink(tmp_path, ON_CHECKPOINT)
    files = write(sink, ["a", "b"])
    assert visible(tmp_path) == {}
    assert len(hidden(tmp_path)) == 1
    assert sink.create_committer().commit(CommitRequest(1, files)) is None
    assert lines(tmp_path) == ["a", "b"]
    assert hidden(tmp_path) == []


def test_final_names_tell_subtask_epoch_and_number(tmp_path):
    sink = text_sink(
        tmp_path,
        ON_CHECKPOINT,
        BucketAssigner.of(lambda v: v[0]),
        OutputFileConfig("words", ".txt"),
    )
    files = write(sink, ["ax", "bx", "ay"], checkpoint_id=7, subtask=3)
    sink.create_committer().commit(CommitRequest(7, files))
    names = {name.rsplit("-", 1)[0]: text for name, text in visible(tmp_path).items()}
    assert names == {"a/words-3-7-0": ["ax", "ay"], "b/words-3-7-1": ["bx"]}
    assert all(name.endswith(".txt") for name in visible(tmp_path))


@pytest.mark.parametrize(
    "change", [{"job_id": "other"}, {"attempt": "a1"}], ids=["another job", "another attempt"]
)
def test_another_run_with_the_same_epochs_overwrites_nothing(tmp_path, change):
    sink = text_sink(tmp_path, ON_CHECKPOINT)
    sink.create_committer().commit(CommitRequest(1, write(sink, ["first"])))
    sink.create_committer().commit(CommitRequest(1, write(sink, ["second"], **change)))
    assert lines(tmp_path) == ["first", "second"]
    assert len(visible(tmp_path)) == 2


def test_the_final_name_depends_on_the_committable_only(tmp_path):
    sink = text_sink(tmp_path, ON_CHECKPOINT)
    files = write(sink, ["a"])
    first = plan_commit(CommitRequest(1, files, now_ms=1), CommitPolicy())
    second = plan_commit(CommitRequest(1, files, now_ms=999), CommitPolicy())
    assert first == second


def test_a_file_rolls_within_an_epoch_at_its_size(tmp_path):
    sink = text_sink(tmp_path, RollingPolicy.default_rolling_policy(part_size=10))
    files = write(sink, [["12345"], ["12345"], ["123"]])
    assert [(file.size, file.records) for file in files] == [(12, 2), (4, 1)]


def test_more_buckets_than_open_files(tmp_path, monkeypatch):
    monkeypatch.setattr(file_writer, "MAX_OPEN_FILES", 3)
    sink = text_sink(tmp_path, ON_CHECKPOINT, BucketAssigner.of(lambda v: str(v % 7)))
    files = write(sink, [list(range(20)), list(range(20, 40))])
    sink.create_committer().commit(CommitRequest(1, files))
    assert sorted(map(int, lines(tmp_path))) == list(range(40))


def test_a_failed_attempt_deletes_its_files(tmp_path):
    sink = text_sink(tmp_path, RollingPolicy.default_rolling_policy(part_size=400_000))
    writer = open_writer(sink, "/nowhere")
    writer.write(["a" * 400_000], None, 0)
    writer.write(["b" * 300_000], None, 0)  # more than is kept in memory
    assert len(hidden(tmp_path)) == 2
    writer.close()
    assert hidden(tmp_path) == []


def test_writer_uses_new_file_names_after_each_checkpoint(tmp_path):
    sink = text_sink(tmp_path, RollingPolicy.default_rolling_policy(part_size=3))
    writer = open_writer(sink, "/nowhere", checkpoint_id=1, attempt="a1")
    writer.write(["aaaa"], None, 0)
    writer.write(["b"], None, 0)
    first = writer.prepare_commit()
    writer.begin(CheckpointContext(2, "a2"))
    writer.write(["c"], None, 0)
    second = writer.prepare_commit()
    assert [(file.stem, file.checkpoint_id) for file in first] == [
        ("part-0-1-0", 1),
        ("part-0-1-1", 1),
    ]
    assert [(file.stem, file.checkpoint_id) for file in second] == [("part-0-2-0", 2)]
    (again,) = write(sink, ["c"], checkpoint_id=2, attempt="a2")
    assert second[0].path == again.path  # as a new writer would name it
    writer.begin(CheckpointContext(2, "a3"))
    writer.write(["d" * 300_000], None, 0)  # more than is kept in memory
    assert len(hidden(tmp_path)) == 4
    writer.close()
    assert hidden(tmp_path) == sorted(file.name for file in first + second)


def test_an_epoch_without_records_writes_nothing(tmp_path):
    sink = text_sink(tmp_path / "out")
    assert write(sink, []) == []
    assert not (tmp_path / "out").exists()
    assert sink.create_committer().commit(CommitRequest(1, [], final=True)) is None


def small(bucket="", subtask=0, checkpoint_id=1, size=10, created=0, written=0, number=0):
    stem = f"part-{subtask}-{checkpoint_id}-{number}"
    return InProgressFile(
        bucket,
        f".{stem}.inprogress.{checkpoint_id}.aa.bb",
        stem,
        subtask,
        checkpoint_id,
        size,
        1,
        created,
        written,
    )


DEFAULT = CommitPolicy(
    at_once=False, part_size=100, rollover_interval=60_000, inactivity_interval=20_000
)


@pytest.mark.parametrize(
    ("pending", "new", "now", "final", "published", "waiting"),
    [
        pytest.param([], [small()], 0, False, [], 1, id="a small file waits"),
        pytest.param([], [small()], 0, True, [1], 0, id="the end publishes"),
        pytest.param(
            [small(size=60)], [small(checkpoint_id=2, size=40)], 0, False, [2], 0, id="size reached"
        ),
        pytest.param(
            [small(size=60)],
            [small(checkpoint_id=2, size=39)],
            0,
            False,
            [],
            2,
            id="size not reached",
        ),
        pytest.param(
            [small()],
            [small(checkpoint_id=2, size=100)],
            0,
            False,
            [1],
            1,
            id="a full file goes alone",
        ),
        pytest.param([small(written=59_000)], [], 59_999, False, [], 1, id="before the rollover"),
        pytest.param([small(written=59_000)], [], 60_000, False, [1], 0, id="rollover"),
        pytest.param([small()], [], 19_999, False, [], 1, id="before the inactivity"),
        pytest.param([small()], [], 20_000, False, [1], 0, id="inactivity"),
        pytest.param(
            [small()],
            [small(checkpoint_id=2, created=15_000, written=15_000)],
            20_000,
            False,
            [],
            2,
            id="active again",
        ),
        pytest.param(
            [small(size=60)], [small(bucket="b", size=60)], 0, False, [], 2, id="buckets stay apart"
        ),
        pytest.param(
            [small(size=60)], [small(subtask=1, size=60)], 0, False, [], 2, id="subtasks too"
        ),
    ],
)
def test_when_small_files_are_published(pending, new, now, final, published, waiting):
    request = CommitRequest(2, new, final=final, now_ms=now, pending=pending or None)
    publications, left = plan_commit(request, DEFAULT)
    assert [len(publication.parts) for publication in publications] == published
    assert len(left) == waiting
    committer = FileCommitter("/nowhere", DEFAULT)
    assert committer.next_wakeup(None) is None
    if left:
        assert committer.next_wakeup(left) > now


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(1, 150)), max_size=4),
            st.integers(0, 30_000),
        ),
        max_size=8,
    ),
    st.sampled_from([DEFAULT, CommitPolicy(), replace(DEFAULT, concatenates=False),
                     CommitPolicy(at_once=False, checkpoints=3)]),
)  # fmt: skip
def test_every_file_is_published_once_and_in_order(epochs, policy):
    now, pending, published, written = 0, None, [], []
    for checkpoint_id, (files, pause) in enumerate(epochs):
        now += pause
        new = [
            small(bucket, subtask, checkpoint_id, size, now, now, number)
            for number, (bucket, subtask, size) in enumerate(files)
        ]
        written += new
        publications, left = plan_commit(
            CommitRequest(checkpoint_id, new, now_ms=now, pending=pending), policy
        )
        published += publications
        pending = left or None
    publications, left = plan_commit(
        CommitRequest(99, [], final=True, now_ms=now, pending=pending), policy
    )
    published += publications
    assert left == []
    parts = [part for publication in published for part in publication.parts]
    assert collections.Counter(parts) == collections.Counter(written)
    names = [publication.path for publication in published]
    assert len(set(names)) == len(names)
    for publication in published:
        assert len({(part.bucket, part.subtask) for part in publication.parts}) == 1
        assert list(publication.parts) == sorted(
            publication.parts, key=lambda p: (p.checkpoint_id, p.name)
        )


def test_files_of_several_checkpoints_become_one_file(tmp_path):
    sink = text_sink(tmp_path)
    committer = sink.create_committer()
    pending = None
    for checkpoint_id in range(1, 4):
        files = write(
            sink,
            [f"{checkpoint_id}a", f"{checkpoint_id}b"],
            checkpoint_id=checkpoint_id,
            attempt=f"a{checkpoint_id}",
        )
        now = files[0].created_ms
        pending = committer.commit(CommitRequest(checkpoint_id, files, now_ms=now, pending=pending))
        assert visible(tmp_path) == {}
    assert len(pickle.loads(pickle.dumps(pending))) == 3
    assert committer.commit(CommitRequest(4, [], final=True, now_ms=now, pending=pending)) is None
    assert list(visible(tmp_path).values()) == [["1a", "1b", "2a", "2b", "3a", "3b"]]
    assert hidden(tmp_path) == []


def epochs_of_work(base):
    """Two buckets, two subtasks, three epochs: the requests that a driver makes, and their lines."""
    sink = text_sink(
        base, RollingPolicy.default_rolling_policy(part_size=12), BucketAssigner.of(lambda v: v[0])
    )
    requests, expected = [], []
    for checkpoint_id in (1, 2, 3):
        files = []
        for subtask in (0, 1):
            values = [
                f"{bucket}{checkpoint_id}{subtask}{n}"
                for bucket in "xy"
                for n in range(checkpoint_id)
            ]
            expected += values
            files += write(
                sink,
                values,
                checkpoint_id=checkpoint_id,
                subtask=subtask,
                attempt=f"{checkpoint_id}.{subtask}",
            )
        requests.append(
            CommitRequest(
                checkpoint_id, files, final=checkpoint_id == 3, now_ms=files[0].created_ms
            )
        )
    return sink, requests, sorted(expected)


def run_with_crash(base, requests, policy, make_files, crash_in):
    """Commit all epochs; in epoch `crash_in` with a file system that may fail, then again without."""
    pending = None
    operations = 0
    for request in requests:
        full = replace(request, pending=pending)
        if request.checkpoint_id == crash_in:
            failing = make_files()
            with contextlib.suppress(CrashError):
                FileCommitter(str(base), policy, failing).commit(full)
            operations = failing.operations
            seen = visible(base)
            assert all(len(line) == 4 for part in seen.values() for line in part), "a partial file"
            counts = collections.Counter(line for part in seen.values() for line in part)
            assert not counts or max(counts.values()) == 1, "a line twice"
        again = FileCommitter(str(base), policy).commit(full)
        assert again == FileCommitter(str(base), policy).commit(full), "not a pure function"
        pending = again
    assert pending is None
    return operations


@pytest.mark.parametrize(
    "kind", [FailingFileSystem, MovingFileSystem], ids=["rename", "copy and delete"]
)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "policy",
    [None, CommitPolicy(), CommitPolicy(compact_size=40)],
    ids=["default policy", "on checkpoint", "compacted"],
)
@pytest.mark.parametrize("checkpoint_id", [1, 2, 3])
def test_a_commit_can_crash_at_every_operation(tmp_path, kind, after, policy, checkpoint_id):
    template = tmp_path / "template"
    sink, requests, expected = epochs_of_work(template)
    policy = policy or sink._policy
    reference = None
    fail_at = None
    total = 0
    while fail_at is None or fail_at < total:
        base = tmp_path / f"run-{fail_at}"
        shutil.copytree(template, base)
        operations = run_with_crash(
            base, requests, policy, lambda at=fail_at: kind(at, after=after), checkpoint_id
        )
        result = visible(base)
        assert lines(base) == expected
        assert hidden(base) == []
        if fail_at is None:
            reference, total, fail_at = result, operations, 0
            assert total > 0
        else:
            assert result == reference
            fail_at += 1
        shutil.rmtree(base)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(1, ["0", "1", "2", "3"]), (20, ["01", "23"]), (35, ["012", "3"]), (100, ["0123"])],
)
def test_small_files_of_a_bucket_are_compacted_to_a_size(size, expected):
    files = [small(subtask=subtask, number=subtask) for subtask in range(4)]
    others = [small(bucket="b", subtask=subtask) for subtask in range(2)]
    request = CommitRequest(1, [*files, *others])
    publications, left = plan_commit(request, CommitPolicy(compact_size=size))
    found = ["".join(str(part.subtask) for part in each.parts) for each in publications]
    assert found[: len(expected)] == expected
    assert left == []
    waiting, left = plan_commit(request, CommitPolicy(at_once=False, compact_size=size))
    assert (waiting, left) == ([], [*files, *others])


def test_a_file_that_a_reader_took_away_is_not_an_error(tmp_path):
    sink = text_sink(tmp_path, ON_CHECKPOINT)
    request = CommitRequest(1, write(sink, ["a"]))
    sink.create_committer().commit(request)
    for name in visible(tmp_path):
        (tmp_path / name).unlink()
    sink.create_committer().commit(request)
    assert visible(tmp_path) == {}


def test_a_part_that_someone_deleted_is_an_error(tmp_path):
    sink = text_sink(tmp_path)
    files = [
        file
        for checkpoint_id in (1, 2)
        for file in write(sink, ["a"], checkpoint_id=checkpoint_id, attempt=f"a{checkpoint_id}")
    ]
    (tmp_path / files[1].path).unlink()
    with pytest.raises(CheckpointError, match="no longer exists"):
        sink.create_committer().commit(CommitRequest(2, files, final=True))
    assert (tmp_path / files[0].path).exists()


def test_sweep_deletes_files_of_no_checkpoint(tmp_path):
    sink = text_sink(tmp_path, assigner=BucketAssigner.of(lambda v: v))
    kept = write(sink, ["a", "b"], checkpoint_id=1)
    write(sink, ["a"], checkpoint_id=1, attempt="lost")
    newer = write(sink, ["a"], checkpoint_id=5, attempt="running")
    foreign = write(sink, ["a"], checkpoint_id=1, job_id="other")
    (tmp_path / "a" / ".user-file").write_text("not ours")
    (tmp_path / "a" / "part-visible").write_text("published")
    committer = sink.create_committer()
    keep = committer.referenced(kept)
    deleted = committer.sweep(keep, "job", up_to_checkpoint_id=4)
    assert len(deleted) == 1
    left = {file.path for file in [*kept, *newer, *foreign]} | {"a/.user-file"}
    assert set(hidden(tmp_path)) == left
    assert committer.sweep(keep, "job") == [newer[0].path]
    assert FileSink.sweep(tmp_path, keep.__contains__) == [foreign[0].path]
    assert set(hidden(tmp_path)) == keep | {"a/.user-file"}
    assert (tmp_path / "a" / "part-visible").exists()


def test_the_sweep_finds_concatenations_that_crashed(tmp_path):
    sink = text_sink(tmp_path)
    files = [
        file
        for checkpoint_id in (1, 2)
        for file in write(sink, ["a"], checkpoint_id=checkpoint_id, attempt=f"a{checkpoint_id}")
    ]
    request = CommitRequest(2, files, final=True)
    failing = FailingFileSystem(6)
    with pytest.raises(CrashError):
        FileCommitter(str(tmp_path), sink._policy, failing).commit(request)
    committer = sink.create_committer()
    swept = committer.sweep(committer.referenced(files), "job")
    assert [name.split(".")[-2] for name in swept] == ["concat"]
    committer.commit(request)
    assert lines(tmp_path) == ["a", "a"]


def test_compaction_puts_files_together_after_some_checkpoints(tmp_path):
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
    sink = text_sink(
        tmp_path,
        ON_CHECKPOINT,
        strategy=strategy,
        compactor=FileCompactor.concat_file_compactor("--\n"),
    )
    committer = sink.create_committer()
    pending = committer.commit(CommitRequest(1, write(sink, ["a"], checkpoint_id=1)))
    assert len(pending) == 1
    assert (
        committer.commit(CommitRequest(2, write(sink, ["b"], checkpoint_id=2), pending=pending))
        is None
    )
    assert list(visible(tmp_path).values()) == [["a", "--", "b"]]


def test_the_identical_compactor_publishes_files_as_they_are(tmp_path):
    strategy = FileCompactStrategy.builder().set_size_threshold(4).build()
    sink = text_sink(
        tmp_path,
        ON_CHECKPOINT,
        strategy=strategy,
        compactor=FileCompactor.identical_file_compactor(),
    )
    committer = sink.create_committer()
    pending = committer.commit(CommitRequest(1, write(sink, ["a"], checkpoint_id=1)))
    committer.commit(CommitRequest(2, write(sink, ["b"], checkpoint_id=2), pending=pending))
    assert sorted(visible(tmp_path).values()) == [["a"], ["b"]]


@pytest.mark.parametrize(
    "encoder",
    [Encoder.simple_string_encoder(), SimpleStringSchema(), lambda value: value, Encoder.of(str)],
    ids=["encoder", "schema", "function", "encoder of function"],
)
def test_accepted_encoders(tmp_path, encoder):
    sink = (
        FileSink.for_row_format(tmp_path, encoder)
        .with_bucket_assigner(lambda value: "b")
        .with_rolling_policy(ON_CHECKPOINT)
        .with_bucket_check_interval(1000)
        .build()
    )
    sink.create_committer().commit(CommitRequest(1, write(sink, ["one", "two"])))
    assert lines(tmp_path) == ["one", "two"]
    assert sink.output_path() == str(tmp_path)


def test_a_bad_bucket_fails_the_record(tmp_path):
    sink = text_sink(tmp_path, assigner=BucketAssigner.of(lambda v: "../" + v))
    with pytest.raises(RecordError):
        write(sink, ["x"])


@pytest.mark.parametrize(
    ("build", "error"),
    [
        pytest.param(lambda: FileSink.for_row_format("", str), ArgumentError, id="empty path"),
        pytest.param(
            lambda: FileSink.for_row_format(None, lambda v: v), ArgumentTypeError, id="no path"
        ),
        pytest.param(
            lambda: FileSink.for_row_format("/x", "utf-8"), ArgumentTypeError, id="no encoder"
        ),
        pytest.param(
            lambda: FileSink.for_bulk_format("/x", str), ArgumentTypeError, id="no factory"
        ),
        pytest.param(lambda: text_sink("/x", policy=3), ArgumentTypeError, id="no policy"),
        pytest.param(lambda: text_sink("/x", assigner=3), ArgumentTypeError, id="no assigner"),
        pytest.param(lambda: text_sink("/x", config="part"), ArgumentTypeError, id="no config"),
        pytest.param(
            lambda: text_sink("/x", strategy=1, compactor=FileCompactor()),
            ArgumentTypeError,
            id="no strategy",
        ),
    ],
)
def test_settings_are_checked_when_they_are_given(build, error):
    with pytest.raises(error):
        build()


def test_the_default_bucket_is_the_hour(tmp_path):
    sink = StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    (file,) = write(sink, ["x"])
    assert len(file.bucket) == len("2024-01-31--07")
