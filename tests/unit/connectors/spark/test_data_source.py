"""PySpark data sources as sources and sinks of jobs, without a JVM."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.common import Row, Types
from penstock.connectors.base.sink import CommitRequest, CommitterContext
from penstock.connectors.base.source import Boundedness, ReadLimits, SplitProgress
from penstock.connectors.spark.data_source import SparkDataSource
from penstock.connectors.spark.row_buffer import RowBuffer
from penstock.errors import ArgumentError, ArgumentTypeError, InvalidProgramError, RecordError
from penstock.testing import Guarantee, SinkConformance, SinkSetup, SourceConformance, SourceSetup
from tests.builders.conformance import in_mode
from tests.builders.connector_helpers import open_writer, read_all, read_resuming, read_split
from tests.builders.modes import EPOCHS, PIPELINED

LINES = StructType([StructField("line", StringType())])
ORDERS = StructType([StructField("id", LongType()), StructField("shop", StringType())])


class Lines(spark.DataSource):
    """The lines of the files of a directory, a partition for each file; and a directory that takes lines."""

    def schema(self):
        return LINES

    def reader(self, schema):
        return LineReader(self.options["path"])

    def streamReader(self, schema):
        return LineStream(self.options["path"])

    def streamWriter(self, schema, overwrite):
        return LineWriter(self.options["path"])


class LineReader(spark.DataSourceReader):
    def __init__(self, path):
        self.path = path

    def partitions(self):
        return [spark.InputPartition(str(path)) for path in files_in(self.path)]

    def read(self, partition):
        if partition.value is None:
            return
        for line in Path(partition.value).read_text().splitlines():
            yield (line,)


class LineStream(spark.DataSourceStreamReader):
    """An offset is a number of files, by name."""

    def __init__(self, path):
        self.path = path

    def initialOffset(self):
        return {"files": 0}

    def latestOffset(self, start, limit):
        return {"files": min(start["files"] + 2, len(files_in(self.path)))}

    def partitions(self, start, end):
        names = files_in(self.path)[start["files"] : end["files"]]
        return [spark.InputPartition(str(path)) for path in names]

    def read(self, partition):
        for line in Path(partition.value).read_text().splitlines():
            yield (line,)

    def commit(self, end):
        with Path(self.path, ".commits").open("a") as log:
            log.write(f"{end['files']}\n")

    def stop(self):
        Path(self.path, ".stopped").touch()


def files_in(path):
    return sorted(each for each in Path(path).glob("*") if not each.name.startswith("."))


class Written(spark.WriterCommitMessage):
    def __init__(self, name):
        self.name = name


class LineWriter(spark.DataSourceStreamWriter):
    """Writes hidden files, which commit shows under the number of the checkpoint."""

    def __init__(self, path):
        self.path = path

    def write(self, iterator):
        import uuid

        name = uuid.uuid4().hex
        lines = "".join(f"{row.value}\n" for row in iterator)
        Path(self.path).mkdir(parents=True, exist_ok=True)
        Path(self.path, f".{name}").write_text(lines)
        return Written(name)

    def commit(self, messages, batch_id):
        for message in messages:
            hidden = Path(self.path, f".{message.name}")
            if hidden.exists():
                hidden.rename(Path(self.path, f"{batch_id:03}-{message.name}"))

    def abort(self, messages, batch_id):
        with Path(self.path, ".aborted").open("a") as log:
            log.write(f"{batch_id} {len(messages)}\n")


class WrittenOnce(spark.DataSource):
    """Has a writer for all rows at once only."""

    def writer(self, schema, overwrite):
        return WriteOnce(self.options["path"], overwrite)


class WriteOnce(spark.DataSourceArrowWriter):
    def __init__(self, path, overwrite):
        self.path, self.mode = path, "overwrite" if overwrite else "append"

    def write(self, iterator):
        return Written([each for batch in iterator for each in batch["id"].to_pylist()])

    def commit(self, messages):
        ids = sorted(each for message in messages for each in message.name)
        Path(self.path).write_text(json.dumps([self.mode, ids]))


class Counter(spark.DataSource):
    """A simple stream of numbers, up to the one in a file."""

    def schema(self):
        return StructType([StructField("n", LongType())])

    def simpleStreamReader(self, schema):
        return SimpleCounter(self.options["Path"])


class SimpleCounter(spark.SimpleDataSourceStreamReader):
    def __init__(self, path):
        self.path = path

    def initialOffset(self):
        return {"next": 0}

    def read(self, start):
        end = {"next": int(Path(self.path).read_text())}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start, end):
        return iter([(n,) for n in range(start["next"], end["next"])])


class Nothing(spark.DataSource):
    def schema(self):
        return ORDERS


def write_lines(directory, *files):
    for number, lines in enumerate(files):
        Path(directory, f"f{number}").write_text("".join(f"{line}\n" for line in lines))


def test_partitions_are_splits_and_rows_have_the_names_of_the_schema(tmp_path):
    write_lines(tmp_path, ["a", "b"], ["c"])
    source = SparkDataSource.source(Lines, {"PATH": tmp_path.as_posix()})
    assert source.get_boundedness() is Boundedness.BOUNDED
    assert read_all(source) == [[Row(line="a"), Row(line="b")], [Row(line="c")]]


def test_a_partition_is_read_again_up_to_the_position(tmp_path):
    write_lines(tmp_path, [f"{n}" for n in range(100)])
    source = SparkDataSource.source(Lines, {"path": str(tmp_path)})
    for size in (1, 7, 100):
        assert [row.line for row in read_resuming(source, batch_size=size)] == [
            f"{n}" for n in range(100)
        ]


def test_partitions_are_planned_once(tmp_path):
    write_lines(tmp_path, ["a"])
    source = SparkDataSource.source(Lines, {"path": str(tmp_path)})
    first = source.create_enumerator(1)
    assert len(first.discover()) == 1
    again = source.create_enumerator(1, pickle.loads(pickle.dumps(first.snapshot())))
    assert again.discover() == []
    assert again.no_more_splits()


class Planned:
    """The enumerator of a stream, driven as a job does."""

    def __init__(self, source, state=None):
        self.enumerator = source.create_enumerator(1, pickle.loads(pickle.dumps(state)))
        self.reader = source.create_reader()

    def look(self, unfinished=(), finished=()):
        self.enumerator.observe(unfinished)
        if finished:
            self.enumerator.observe_finished([SplitProgress(s, 0, finished=True) for s in finished])
        return list(self.enumerator.discover())

    def read(self, splits):
        return [row.line for split in splits for row in read_split(self.reader, split)]


def test_a_stream_goes_from_offset_to_offset_and_commits_what_checkpoints_have(tmp_path):
    write_lines(tmp_path, ["a"], ["b"], ["c"])
    source = SparkDataSource.source(Lines, {"path": str(tmp_path)}, unbounded=True)
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    job, commits = Planned(source), tmp_path / ".commits"
    first = job.look()
    assert job.read(first) == ["a", "b"]
    assert job.look(unfinished=first[1:]) == []  # the next ones wait for these
    second = job.look()
    assert job.read(second) == ["c"]
    assert job.look() == []
    job.look(finished=[*second, first[0]])  # the first offset is not complete
    assert not commits.exists()
    job.look(finished=first[1:])
    assert commits.read_text().split() == ["2", "3"]
    job.enumerator.close()
    assert (tmp_path / ".stopped").exists()


def test_a_restored_stream_plans_neither_twice_nor_too_little(tmp_path):
    write_lines(tmp_path, ["a"], ["b"], ["c"])
    source = SparkDataSource.source(Lines, {"path": str(tmp_path)}, unbounded=True)
    job = Planned(source)
    first = job.look()
    later = Planned(source, job.enumerator.snapshot())
    assert later.look(unfinished=first) == []
    assert later.read(later.look(finished=first)) == ["c"]
    assert (tmp_path / ".commits").read_text().split() == ["2"]


def test_a_simple_stream_is_read_between_offsets(tmp_path):
    limit = tmp_path / "limit"
    limit.write_text("3")
    source = SparkDataSource.source(Counter, {"path": str(limit)}, unbounded=True)
    enumerator, reader = source.create_enumerator(1), source.create_reader()
    (split,) = enumerator.discover()
    assert [row.n for row in read_split(reader, split)] == [0, 1, 2]
    assert [row.n for row in read_split(reader, split, 2)] == [2]
    limit.write_text("5")
    (split,) = enumerator.discover()
    assert [row.n for row in read_split(reader, split)] == [3, 4]
    assert enumerator.discover() == []


def test_a_simple_stream_whose_offset_stays_while_rows_come_is_refused(tmp_path, monkeypatch):
    limit = tmp_path / "limit"
    limit.write_text("3")
    monkeypatch.setattr(SimpleCounter, "read", lambda self, start: (iter([(1,)]), start))
    source = SparkDataSource.source(Counter, {"path": str(limit)}, unbounded=True)
    with pytest.raises(RecordError, match="but no new offset"):
        source.create_enumerator(1).discover()


class Old(LineStream):
    """Written for versions of Spark in which the method had no parameters."""

    def latestOffset(self):
        return {"files": len(files_in(self.path))}


def test_stream_readers_for_older_versions_of_spark_are_read(tmp_path, monkeypatch):
    write_lines(tmp_path, ["a"], ["b"], ["c"])
    monkeypatch.setattr(Lines, "streamReader", lambda self, schema: Old(self.options["path"]))
    source = SparkDataSource.source(Lines, {"path": str(tmp_path)}, unbounded=True)
    assert len(source.create_enumerator(1).discover()) == 3


class Columns(spark.DataSource):
    """Gives record batches."""

    def schema(self):
        return ORDERS

    def reader(self, schema):
        return ColumnReader()


class ColumnReader(spark.DataSourceReader):
    def read(self, partition):
        for start in (0, 5):
            shops = [f"shop {n}" for n in range(start, start + 5)]
            yield pa.record_batch({"id": [*range(start, start + 5)], "shop": shops})


def test_a_reader_may_give_columns():
    source = SparkDataSource.source(Columns)
    (split,) = source.create_enumerator(1).discover()
    rows = read_split(source.create_reader(), split, 3)
    assert [row.id for row in rows] == [3, 4, 5, 6, 7, 8, 9]
    sizes = [
        len(b.records) for b in source.create_reader().read(split, 0, ReadLimits(batch_size=3))
    ]
    assert sizes == [3, 2, 3, 2]


def test_rows_that_do_not_fit_the_schema_are_rejected_as_in_spark(monkeypatch):
    monkeypatch.setattr(ColumnReader, "read", lambda self, partition: iter([(1, "a", "b")]))
    with pytest.raises(Exception, match="SCHEMA_MISMATCH"):
        read_all(SparkDataSource.source(Columns))


def test_a_sink_commits_each_checkpoint_by_its_number_and_aborts_after_a_failure(tmp_path):
    sink = SparkDataSource.sink(Lines, {"path": str(tmp_path)}, row_type=Types.STRING())
    writer = open_writer(pickle.loads(pickle.dumps(sink)), tmp_path)
    writer.write(["a", "b"], None, 0)
    messages = pickle.loads(pickle.dumps(writer.prepare_commit()))
    assert files_in(tmp_path) == []
    committer = sink.create_committer()
    for _ in range(2):
        committer.commit(CommitRequest(4, messages))
    (shown,) = files_in(tmp_path)
    assert shown.name.startswith("004-")
    assert shown.read_text() == "a\nb\n"
    committer.commit(CommitRequest(5, []))
    committer.clean_up([CommitRequest(5, [])], "job")
    assert (tmp_path / ".aborted").read_text() == "6 0\n"


def test_nothing_is_aborted_at_a_start_without_checkpoint_and_at_the_end(tmp_path):
    sink = SparkDataSource.sink(Lines, {"path": str(tmp_path)}, row_type=Types.STRING())
    committer = sink.create_committer()
    committer.clean_up([], "job")
    last = CommitRequest(3, [], final=True, ended=True)
    committer.commit(last)
    committer.clean_up([last], "job")
    assert not (tmp_path / ".aborted").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_writer_of_all_rows_commits_at_the_end(tmp_path, overwrite):
    out = tmp_path / "out"
    orders = Types.ROW_NAMED(["id"], [Types.LONG()])
    sink = SparkDataSource.sink(
        WrittenOnce, {"path": str(out)}, row_type=orders, overwrite=overwrite
    )
    committer, pending = sink.create_committer(), None
    committer.open(CommitterContext("job", "sink"))
    for number in (1, 2):
        writer = open_writer(sink, tmp_path, checkpoint_id=number)
        writer.write([(number,)], None, 0)
        request = CommitRequest(number, writer.prepare_commit(), pending=pending)
        pending = pickle.loads(pickle.dumps(committer.commit(request)))
        assert not out.exists()
    committer.commit(CommitRequest(3, [], pending=pending, final=True, ended=True))
    mode = "overwrite" if overwrite else "append"
    assert json.loads(out.read_text()) == [mode, [1, 2]]


def test_a_writer_of_all_rows_is_refused_in_a_job_without_end(tmp_path):
    orders = Types.ROW_NAMED(["id"], [Types.LONG()])
    sink = SparkDataSource.sink(WrittenOnce, {"path": str(tmp_path)}, row_type=orders)
    with pytest.raises(InvalidProgramError, match="the job has no end"):
        sink.create_committer().open(CommitterContext("job", "sink", bounded=False))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SparkDataSource.source("Lines"), ArgumentTypeError, "subclass of pyspark"),
        (lambda: SparkDataSource.source(Lines({})), ArgumentTypeError, "subclass of pyspark"),
        (lambda: SparkDataSource.source(Nothing), InvalidProgramError, "does not implement it"),
        (
            lambda: SparkDataSource.source(Nothing, unbounded=True),
            InvalidProgramError,
            "is read as a stream",
        ),
        (
            lambda: SparkDataSource.sink(Nothing, row_type=Types.STRING()),
            InvalidProgramError,
            "is written",
        ),
        (lambda: SparkDataSource.source(WrittenOnce), ArgumentError, "no schema of its own"),
        (lambda: SparkDataSource.source(Lines, schema=1), ArgumentTypeError, "neither"),
        (lambda: SparkDataSource.source(Lines, {"path": b"x"}), ArgumentTypeError, "'path' must"),
        (lambda: SparkDataSource.source(Lines, ["path"]), ArgumentTypeError, "options must"),
        (lambda: SparkDataSource.source(Lines, unbounded=1), ArgumentTypeError, "unbounded must"),
        (lambda: SparkDataSource.sink(Lines, overwrite="yes"), ArgumentTypeError, "overwrite must"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_options_become_texts_as_in_spark():
    class Options(Lines):
        def reader(self, schema):
            assert dict(self.options) == {"a": "1", "b": "true", "c": "x"}
            return LineReader("")

    SparkDataSource.source(Options, {"a": 1, "B": True, "c": "x"})


def test_many_rows_wait_in_a_file():
    schema = pa.schema([("n", pa.int64())])
    tables = [
        pa.table({"n": [*range(start, start + 100)]}, schema) for start in range(0, 1000, 100)
    ]
    buffer = RowBuffer(schema, limit=2000)
    for table in tables:
        buffer.add(table)
    assert buffer._file is not None
    with buffer:
        assert pa.concat_tables(buffer.tables())["n"].to_pylist() == [*range(1000)]


class Directory(SourceSetup):
    """A file for each call of `add`."""

    def __init__(self, directory):
        self.directory = directory
        self.directory.mkdir()

    def record(self, number):
        return Row(line=f"record {number}")

    def big_record(self):
        return Row(line="x" * 1_000_000)

    def identity(self, record):
        return record.line

    def add(self, records):
        for part in (records[0::2], records[1::2]):
            hidden = self.directory / f".{len(files_in(self.directory)):03}"
            hidden.write_text("".join(f"{record.line}\n" for record in part))
            hidden.rename(self.directory / hidden.name[1:])

    def create(self):
        return SparkDataSource.source(Lines, {"path": str(self.directory)})


class TestSource(SourceConformance):
    rules = in_mode(EPOCHS, SourceConformance.rules)

    @pytest.fixture
    def connector(self, tmp_path):
        return Directory(tmp_path / "input")


class WatchedDirectory(Directory):
    bounded = False
    appends = True

    def create(self):
        return SparkDataSource.source(Lines, {"path": str(self.directory)}, unbounded=True)


class TestStream(SourceConformance):
    rules = in_mode(PIPELINED, SourceConformance.rules)

    @pytest.fixture
    def connector(self, tmp_path):
        return WatchedDirectory(tmp_path / "input")


class Taken(SinkSetup):
    """What the data source shows: files, written by tasks and renamed by commits."""

    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, directory):
        self.directory = directory / "out"

    def create(self):
        return SparkDataSource.sink(Lines, {"path": str(self.directory)}, row_type=Types.STRING())

    def shown(self):
        return [line for path in files_in(self.directory) for line in path.read_text().splitlines()]

    def unwritable(self):
        return 7


class TestSink(SinkConformance):
    rules = in_mode(EPOCHS, SinkConformance.rules)

    @pytest.fixture
    def connector(self, tmp_path):
        return Taken(tmp_path)
