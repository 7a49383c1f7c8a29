"""SparkSink without Spark: what its function gets, when, how often, and what is refused."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.common import Row, Types
from penstock.connectors.base.sink import CommitRequest
from penstock.connectors.spark.sink import CheckpointFunctionCommitter, SparkSink
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ArgumentTypeError, CheckpointError, InvalidProgramError
from penstock.errors.user_errors import UserCodeError
from penstock.files.arrow_streams import read_arrow_stream
from penstock.spark.data_frame_types import spark_arrow_schema
from penstock.testing import SinkConformance, SinkSetup
from tests.builders.conformance import in_mode
from tests.builders.connector_helpers import open_writer
from tests.builders.modes import PIPELINED

ORDER = Types.ROW_NAMED(["id", "shop"], [Types.LONG(), Types.STRING()])


def read_table(paths, types):
    """What Spark makes a DataFrame of, as an Arrow table."""
    schema = spark_arrow_schema(types)
    return pa.Table.from_batches([b for path in paths for b in read_arrow_stream(path)], schema)


class ByNumber:
    """Writes the rows of each checkpoint to a file; the same number with the same rows is the same file.

    Jobs of the kit that write to one place have the same numbers. And a number that comes again with other rows is seen.
    """

    def __init__(self, directory):
        self.directory = str(directory)

    def __call__(self, table, checkpoint_id):
        Path(self.directory).mkdir(exist_ok=True)
        text = json.dumps(table.to_pylist())
        name = f"{checkpoint_id:03}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
        Path(self.directory, name).write_text(text)


class WithoutSpark(SparkSink):
    """The sink, with tables instead of DataFrames, and a function that can be pickled."""

    def create_committer(self):
        return CheckpointFunctionCommitter(self.function, self.records.types, read_table)

    def __getstate__(self):
        return self.__dict__


def staged(staging, *values, checkpoint_id=1, attempt="a0", row_type=ORDER, **context):
    """The committables of a subtask for one checkpoint, as they arrive in the driver."""
    sink = pickle.loads(pickle.dumps(SparkSink(print, row_type)))
    writer = open_writer(sink, staging, checkpoint_id=checkpoint_id, attempt=attempt, **context)
    for value in values:
        writer.write([value], None, 0)
    files = pickle.loads(pickle.dumps(writer.prepare_commit()))
    writer.close()
    return files


class Calls:
    """A function that notes its calls, and raises when it is told to."""

    def __init__(self):
        self.seen = []
        self.fails = False

    def __call__(self, table, checkpoint_id):
        self.seen.append((checkpoint_id, table.to_pylist()))
        if self.fails:
            raise ValueError("no connection")

    def committer(self):
        types = SparkSink(print, ORDER).records.types
        return CheckpointFunctionCommitter(self, types, read_table)


ONE, TWO = {"id": 1, "shop": "Ulm"}, {"id": 2, "shop": None}


def test_the_function_gets_the_rows_of_all_subtasks_and_the_number(tmp_path):
    calls = Calls()
    files = staged(tmp_path, Row(id=1, shop="Ulm")) + staged(tmp_path, (2, None), subtask=1)
    calls.committer().commit(CommitRequest(7, files))
    assert calls.seen == [(7, [ONE, TWO])]


def test_a_checkpoint_without_rows_is_not_handed_over(tmp_path):
    calls = Calls()
    calls.committer().commit(CommitRequest(1, []))
    assert calls.seen == []


def test_a_commit_that_is_repeated_by_another_driver_does_not_call_again(tmp_path):
    calls = Calls()
    request = CommitRequest(1, staged(tmp_path, (1, "Ulm")))
    for _ in range(2):
        calls.committer().commit(request)
    assert calls.seen == [(1, [ONE])]


def test_a_call_that_raised_is_repeated_with_the_same_rows(tmp_path):
    calls = Calls()
    calls.fails = True
    request = CommitRequest(1, staged(tmp_path, (1, "Ulm")))
    with pytest.raises(UserCodeError, match="ValueError: no connection") as raised:
        calls.committer().commit(request)
    assert "__call__" in str(raised.value)  # the traceback is the user's
    assert "checkpoint 1" in str(raised.value)
    assert isinstance(raised.value.__cause__, ValueError)
    calls.fails = False
    calls.committer().commit(request)
    assert calls.seen == [(1, [ONE])] * 2


def test_a_driver_that_dies_between_call_and_record_repeats_the_call(tmp_path, monkeypatch):
    calls = Calls()
    request = CommitRequest(1, staged(tmp_path, (1, "Ulm")))
    dying = calls.committer()
    with monkeypatch.context() as patch:
        patch.setattr("penstock.connectors.spark.commit_record.CommitRecord.write", _die)
        with pytest.raises(KeyboardInterrupt):
            dying.commit(request)
    calls.committer().commit(request)
    assert calls.seen == [(1, [ONE])] * 2


def test_a_driver_that_dies_between_record_and_deletion_does_not_repeat_the_call(
    tmp_path, monkeypatch
):
    calls = Calls()
    request = CommitRequest(
        1, staged(tmp_path, (1, "Ulm"), attempt="a") + staged(tmp_path, (2, None))
    )
    with monkeypatch.context() as patch:
        patch.setattr("penstock.connectors.spark.sink.delete_files", _delete_one_and_die)
        with pytest.raises(KeyboardInterrupt):
            calls.committer().commit(request)
    calls.committer().commit(request)
    assert [number for number, _ in calls.seen] == [1]
    assert not list(tmp_path.rglob("*.arrow"))


def _die(*_):
    raise KeyboardInterrupt


def _delete_one_and_die(files):
    Path(files[0].path).unlink()
    raise KeyboardInterrupt


def test_a_checkpoint_with_the_number_of_a_discarded_one_is_handed_over(tmp_path):
    """The job goes on from an older checkpoint: the same number then stands for other rows."""
    calls = Calls()
    calls.committer().commit(CommitRequest(2, staged(tmp_path, (1, "Ulm"), checkpoint_id=2)))
    again = staged(tmp_path, (2, None), checkpoint_id=2, attempt="later")
    calls.committer().commit(CommitRequest(2, again))
    assert calls.seen == [(2, [ONE]), (2, [TWO])]


def test_an_older_checkpoint_that_is_restored_was_handed_over_before(tmp_path):
    calls = Calls()
    old = CommitRequest(1, staged(tmp_path, (1, "Ulm")))
    calls.committer().commit(old)
    calls.committer().commit(CommitRequest(2, staged(tmp_path, (2, None), checkpoint_id=2)))
    calls.committer().commit(old)
    assert [number for number, _ in calls.seen] == [1, 2]


def test_files_that_are_gone_before_they_were_handed_over_fail_the_commit(tmp_path):
    calls = Calls()
    calls.committer().commit(CommitRequest(1, staged(tmp_path, (1, "Ulm"))))
    files = staged(tmp_path, (2, None), checkpoint_id=2)
    Path(files[0].path).unlink()
    with pytest.raises(CheckpointError, match="staged rows of checkpoint 2 are missing"):
        calls.committer().commit(CommitRequest(2, files))


def generator():
    yield


def test_the_function_may_use_what_cannot_be_pickled():
    session = generator()
    sink = SparkSink(lambda df, number: session, ORDER)
    copy = pickle.loads(pickle.dumps(sink))
    assert copy.records.schema == sink.records.schema
    with pytest.raises(InvalidProgramError, match="function of a SparkSink is missing"):
        copy.create_committer()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (None, "is not callable"),
        ("df.show()", "is not callable"),
        (lambda df: df, "must take two arguments"),
        (lambda df, number, more: df, "must take two arguments"),
        (lambda: None, "must take two arguments"),
    ],
)
def test_a_function_that_cannot_be_called_so_is_refused_at_once(function, message):
    with pytest.raises(ArgumentTypeError, match=message):
        SparkSink(function)


def test_functions_with_more_parameters_that_have_defaults_are_taken():
    SparkSink(lambda df, number, mode="append": df)
    SparkSink(lambda *arguments: None)
    SparkSink([].insert)


def test_the_columns_are_those_of_the_declared_type():
    env = StreamExecutionEnvironment.get_execution_environment()
    orders = env.from_collection([(1, "Ulm")], Types.TUPLE([Types.INT(), Types.STRING()]))
    written = orders.sink_to(SparkSink(print))
    schema = written.transformation.spec.sink.records.schema
    assert schema == pa.schema([("f0", pa.int32()), ("f1", pa.string())])
    texts = env.from_collection(["a"], Types.STRING()).sink_to(SparkSink(print))
    assert texts.transformation.spec.sink.records.schema == pa.schema([("value", pa.string())])


def test_a_stream_without_a_type_is_refused_at_once():
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(ArgumentTypeError, match="needs the type of the records"):
        env.from_collection([1]).map(str).sink_to(SparkSink(print))


def test_all_types_of_fields_arrive(tmp_path):
    kinds = {
        "b": (Types.BOOLEAN(), True),
        "i": (Types.INT(), 1),
        "d": (Types.DOUBLE(), 0.5),
        "day": (Types.SQL_DATE(), dt.date(2026, 3, 1)),
        "at": (Types.SQL_TIMESTAMP(), dt.datetime(2026, 3, 1, 9, 0, 0, 123456)),
        "list": (Types.LIST(Types.LONG()), [1, None]),
        "row": (ORDER, Row(id=1, shop="Ulm")),
    }
    declared = Types.ROW_NAMED([*kinds], [kind for kind, _ in kinds.values()])
    row = Row(**{name: value for name, (_, value) in kinds.items()})
    files = staged(tmp_path, row, row_type=declared)
    found = read_table([f.path for f in files], SparkSink(print, declared).records.types)
    expected = {name: value for name, (_, value) in kinds.items()} | {"row": ONE}
    assert found.to_pylist() == [expected]


def test_large_checkpoints_are_several_files(tmp_path):
    sink = SparkSink(print, Types.STRING())
    writer = open_writer(sink, tmp_path)
    writer._target_size = 10_000
    for start in range(0, 100_000, 20_000):
        writer.write([f"{n:x}" * 8 for n in range(start, start + 20_000)], None, 0)
    files = writer.prepare_commit()
    assert len(files) == 5
    found = read_table([file.path for file in files], sink.records.types)
    assert found["value"].to_pylist() == [f"{n:x}" * 8 for n in range(100_000)]


class Handed(SinkSetup):
    """Files by the number of the checkpoint."""

    def __init__(self, directory):
        self.out, self.staging = directory / "out", directory

    def create(self):
        return WithoutSpark(ByNumber(self.out), Types.STRING())

    def create_for_other_job(self):
        return WithoutSpark(ByNumber(self.out.with_name("other")), Types.STRING())

    def shown(self):
        found = [
            *sorted(self.out.glob("*.json")),
            *sorted(self.out.with_name("other").glob("*.json")),
        ]
        return [row["value"] for path in found for row in json.loads(path.read_text())]

    def left_over(self):
        return list(self.staging.rglob("*.arrow"))

    def wrong_arguments(self):
        return [lambda: SparkSink(1), lambda: SparkSink(lambda df: None)]

    def unwritable(self):
        return 7


class TestSparkSink(SinkConformance):
    rules = in_mode(PIPELINED, SinkConformance.rules)

    @pytest.fixture
    def connector(self, tmp_path):
        return Handed(tmp_path)
