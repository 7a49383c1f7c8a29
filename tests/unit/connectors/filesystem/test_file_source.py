"""Finding files, cutting them, watching directories."""

from __future__ import annotations

import datetime as dt
import os
import pickle

import pytest

from penstock.common.serialization import SimpleStringSchema
from penstock.common.type_information import BasicType
from penstock.connectors.base.source import Boundedness, ReadLimits
from penstock.connectors.filesystem.source import (
    FileEnumeratorProvider,
    FileSource,
    FileSplitAssignerProvider,
)
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.formats.base.file_formats import LineFormat, StreamFormat
from penstock.time.durations import Duration
from tests.builders.connector_helpers import read_all, read_split


def text_source(*paths, **options):
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), *paths)
    for name, value in options.items():
        getattr(builder, name)(value)
    return builder.build()


@pytest.fixture
def tree(tmp_path):
    for name in (
        "b.txt",
        "a.txt",
        "sub/c.txt",
        "sub/deep/d.log",
        ".hidden",
        "_meta",
        "_tmp/e.txt",
        "sub/.f",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "names"),
    [
        pytest.param("", ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.log"], id="directory"),
        pytest.param("sub", ["sub/c.txt", "sub/deep/d.log"], id="sub-directory"),
        pytest.param("a.txt", ["a.txt"], id="file"),
        pytest.param(".hidden", [".hidden"], id="a hidden file that is named"),
        pytest.param("*.txt", ["a.txt", "b.txt"], id="pattern"),
        pytest.param("**/*.txt", ["a.txt", "b.txt", "sub/c.txt"], id="recursive pattern"),
        pytest.param("_tmp/*", ["_tmp/e.txt"], id="pattern in a hidden directory that is named"),
        pytest.param("s*", ["sub/c.txt", "sub/deep/d.log"], id="pattern for directories"),
    ],
)
def test_which_files_a_path_stands_for(tree, path, names):
    found = [lines[0] for lines in read_all(text_source(tree / path))]
    assert found == names


def test_uris_and_relative_paths_are_paths(tree, monkeypatch):
    monkeypatch.chdir(tree)
    source = text_source("a.txt", (tree / "b.txt").as_uri())
    monkeypatch.chdir("/")
    assert read_all(source) == [["a.txt"], ["b.txt"]]


def test_a_file_that_is_named_twice_is_read_once(tree):
    assert read_all(text_source(tree / "a.txt", tree / "*.txt")) == [["a.txt"], ["b.txt"]]


def test_a_missing_path_is_refused_when_the_source_is_built(tmp_path):
    with pytest.raises(ArgumentError, match="does not exist"):
        text_source(tmp_path / "nothing")
    with pytest.raises(ArgumentError, match="no file matches"):
        text_source(tmp_path / "*.csv")


def test_a_path_that_vanished_since_is_refused_when_the_job_is_planned(tree):
    source = text_source(tree / "a.txt")
    (tree / "a.txt").unlink()
    with pytest.raises(ArgumentError, match="does not exist"):
        source.create_enumerator(1).discover()


def test_a_file_that_vanished_before_it_was_read_is_named(tree):
    source = text_source(tree / "a.txt")
    (split,) = source.create_enumerator(1).discover()
    (tree / "a.txt").unlink()
    with pytest.raises(RecordError, match="vanished") as caught:
        read_split(source.create_reader(), split)
    assert "a.txt" in str(caught.value)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        pytest.param(lambda: text_source(), ArgumentError, id="no path"),
        pytest.param(lambda: text_source(""), ArgumentError, id="empty path"),
        pytest.param(lambda: text_source(3), ArgumentTypeError, id="not a path"),
        pytest.param(
            lambda: FileSource.for_record_stream_format("csv", "/"),
            ArgumentTypeError,
            id="no format",
        ),
        pytest.param(lambda: text_source("/", set_split_size=0), ArgumentError, id="split size 0"),
        pytest.param(
            lambda: text_source("/", monitor_continuously=0), ArgumentError, id="interval 0"
        ),
        pytest.param(
            lambda: text_source("/", monitor_continuously="1s"),
            ArgumentTypeError,
            id="interval text",
        ),
        pytest.param(
            lambda: text_source("/", set_file_enumerator="x"), ArgumentTypeError, id="enumerator"
        ),
        pytest.param(
            lambda: text_source("/", set_split_assigner=1), ArgumentTypeError, id="assigner"
        ),
    ],
)
def test_bad_arguments_are_refused_when_they_are_given(build, error):
    with pytest.raises(error):
        build()


def test_large_files_are_cut_and_ids_are_stable(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{n:03d}\n" for n in range(100)))
    source = text_source(path, set_split_size=100)
    splits = source.create_enumerator(2).discover()
    assert [(split.payload.start, split.payload.end) for split in splits] == [
        (0, 100), (100, 200), (200, 300), (300, 400),
    ]  # fmt: skip
    assert splits == source.create_enumerator(2).discover()
    assert len({split.split_id for split in splits}) == 4
    assert str(path) in splits[0].split_id
    assert str(path.stat().st_mtime_ns // 1_000_000) in splits[0].split_id
    assert pickle.loads(pickle.dumps(splits)) == splits


def test_cutting_can_be_forbidden(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("x\n" * 100)
    source = text_source(
        path,
        set_split_size=10,
        set_file_enumerator=FileEnumeratorProvider.default_non_splittable_file_enumerator(),
        set_split_assigner=FileSplitAssignerProvider.locality_aware_split_assigner(),
    )
    assert len(source.create_enumerator(1).discover()) == 1


def test_a_fixed_set_is_found_once_and_not_again_after_a_restore(tree):
    source = text_source(tree)
    enumerator = source.create_enumerator(1)
    assert enumerator.snapshot() is None
    assert not enumerator.no_more_splits()
    assert len(enumerator.discover()) == 4
    assert enumerator.no_more_splits()
    assert enumerator.discover() == []
    restored = source.create_enumerator(1, enumerator.snapshot())
    assert restored.discover() == []
    assert restored.no_more_splits()
    assert source.get_boundedness() is Boundedness.BOUNDED


class Watch:
    """A watched directory with a clock that is set by hand; files are as old as they are said to be."""

    def __init__(self, folder, interval=10):
        self.folder = folder
        self.source = text_source(folder, monitor_continuously=interval)
        self.now = 1_000_000.0
        self.enumerator = self.create()

    def create(self, restored=None):
        enumerator = self.source.create_enumerator(1, restored)
        enumerator.clock = lambda: self.now
        return enumerator

    def write(self, name, text, age=0.0):
        path = self.folder / name
        path.write_text(text)
        os.utime(path, (self.now - age, self.now - age))

    def look(self, later=10.0):
        self.now += later
        return [split.payload.path.rsplit("/", 1)[1] for split in self.enumerator.discover()]


def test_a_watched_directory_gives_each_file_once(tmp_path):
    watch = Watch(tmp_path)
    assert watch.source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    watch.write("old", "1", age=100)
    assert watch.look() == ["old"]
    assert watch.look() == []
    watch.write("new", "2", age=100)
    assert watch.look(later=5) == []  # the interval has not passed
    assert watch.look(later=5) == ["new"]
    assert not watch.enumerator.no_more_splits()


def test_a_file_that_still_changes_waits(tmp_path):
    watch = Watch(tmp_path)
    watch.look()
    watch.now += 9
    watch.write("growing", "1")
    assert watch.look(later=1) == []
    watch.now += 9
    watch.write("growing", "12")
    assert watch.look(later=1) == []
    assert watch.look() == ["growing"]


def test_a_file_that_changes_after_it_was_taken_is_not_read_again(tmp_path):
    watch = Watch(tmp_path)
    watch.write("file", "1", age=100)
    assert watch.look() == ["file"]
    watch.write("file", "1 2", age=50)
    assert watch.look() == []


def test_the_files_that_were_seen_survive_a_restore(tmp_path):
    watch = Watch(tmp_path)
    watch.write("one", "1", age=100)
    assert watch.look() == ["one"]
    snapshot = pickle.loads(pickle.dumps(watch.enumerator.snapshot()))
    assert snapshot == {str(tmp_path / "one"): (tmp_path / "one").stat().st_mtime_ns}
    watch.enumerator = watch.create(snapshot)
    watch.write("two", "2", age=100)
    assert watch.look() == ["two"]


def test_deleted_files_are_forgotten(tmp_path):
    watch = Watch(tmp_path)
    watch.write("one", "1", age=100)
    watch.look()
    (tmp_path / "one").unlink()
    watch.look()
    assert watch.enumerator.snapshot() == {}


def test_files_of_a_watched_directory_come_in_the_order_of_their_age(tmp_path):
    watch = Watch(tmp_path)
    for name, age in (("b", 300), ("a", 100), ("c", 200)):
        watch.write(name, name, age=age)
    assert watch.look() == ["b", "c", "a"]


def test_a_watched_directory_may_be_missing_at_first(tmp_path):
    watch = Watch(tmp_path / "later")
    assert watch.look() == []
    (tmp_path / "later").mkdir()
    watch.write("x", "1", age=100)
    assert watch.look() == ["x"]


def test_splits_of_a_watched_directory_end(tmp_path):
    watch = Watch(tmp_path)
    watch.write("x", "1\n2\n", age=100)
    watch.now += 10
    (split,) = watch.enumerator.discover()
    assert split.bounded
    assert read_split(watch.source.create_reader(), split) == ["1", "2"]
    assert read_split(watch.source.create_reader(), split, split.payload.end) == []


@pytest.mark.parametrize(
    "interval",
    [Duration.of_seconds(3), dt.timedelta(seconds=3), 3, 3.0],
    ids=lambda i: type(i).__name__,
)
def test_intervals_may_be_given_in_several_forms(tmp_path, interval):
    assert text_source(tmp_path, monitor_continuously=interval).interval == 3.0


def test_the_last_of_both_modes_counts(tmp_path):
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path)
    source = builder.monitor_continuously(3).process_static_file_set().build()
    assert source.get_boundedness() is Boundedness.BOUNDED


def test_a_deserialization_schema_reads_lines(tmp_path):
    (tmp_path / "f").write_bytes(b"a\r\nb")
    source = FileSource.for_record_stream_format(SimpleStringSchema(), tmp_path).build()
    assert read_all(source) == [["a", "b"]]


class Numbers(LineFormat):
    def decode(self, line):
        return int(line)


def test_a_line_that_cannot_be_decoded_is_named_with_its_place(tmp_path):
    (tmp_path / "f").write_bytes(b"1\r\n2\r\nthree\r\n")
    source = FileSource.for_record_stream_format(Numbers(), tmp_path).build()
    with pytest.raises(RecordError) as caught:
        read_all(source)
    assert f"{tmp_path}/f, at byte 6: 'three'" in str(caught.value)
    assert "invalid literal for int()" in str(caught.value)


def test_lines_that_are_skipped_are_counted(tmp_path):
    (tmp_path / "f").write_bytes(b"1\ntwo\n3\n\xff\xff\n")
    source = FileSource.for_record_stream_format(Numbers(on_error="skip"), tmp_path).build()
    (split,) = source.create_enumerator(1).discover()
    reader = source.create_reader()
    counted = []

    class Counter:
        def inc(self, n=1):
            counted.append(n)

    class Group:
        def counter(self, name):
            assert name == "numRecordsSkipped"
            return Counter()

    class Context:
        def get_metrics_group(self):
            return Group()

    reader.open(Context())
    assert read_split(reader, split) == [1, 3]
    assert reader.skipped == 2
    assert len(counted) == 2


def test_an_unknown_policy_for_bad_records_is_refused():
    with pytest.raises(ArgumentError, match="policy"):
        Numbers(on_error="ignore")


def test_text_files_say_that_their_records_are_text(tmp_path):
    assert text_source(tmp_path).get_produced_type().basic_type is BasicType.STRING


def test_a_clock_that_is_put_back_does_not_stop_the_watching(tmp_path):
    watch = Watch(tmp_path)
    watch.write("one", "1", age=100)
    assert watch.look() == ["one"]
    watch.now -= 3600
    watch.write("two", "2", age=100)
    assert watch.look() == ["two"]
    assert watch.look() == []


def test_malformed_lines_belong_to_the_part_that_is_read(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(f"1\n{name}\n" * 50)
    source = FileSource.for_record_stream_format(Numbers(), tmp_path).build()
    reader = source.create_reader()
    splits = list(source.create_enumerator(1).discover())
    limits = ReadLimits(batch_size=10)
    given_up = reader.read(splits[0], 0, limits)
    next(given_up)  # what was found there is found again, once
    found = {split.payload.path: [] for split in splits}
    readings = [(split.payload.path, reader.read(split, 0, limits)) for split in splits]
    while readings:  # in turns, as a subtask reads its splits
        for path, reading in list(readings):
            batch = next(reading, None)
            if batch is None:
                readings.remove((path, reading))
            else:
                found[path] += [(each.origin, each.data) for each in batch.malformed]
    for path, malformed in found.items():
        expected = [({"file": path, "offset": 4 * i + 2}, path[-1:].encode()) for i in range(50)]
        assert malformed == expected
