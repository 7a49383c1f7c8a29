"""Printing, collecting, and calling functions."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.common.types import Row
from penstock.connectors.base.sink import CheckpointContext, CommitRequest
from penstock.connectors.base.staged_sinks import CollectSink, PrintSink
from penstock.connectors.function.sink import FunctionSink
from penstock.errors import ArgumentTypeError, CheckpointError, InvalidProgramError
from tests.builders.connector_helpers import open_writer


def written(sink, staging, *batches, **context):
    writer = open_writer(pickle.loads(pickle.dumps(sink)), staging, **context)
    for batch in batches:
        writer.write(list(batch), None, 0)
    committables = pickle.loads(pickle.dumps(writer.prepare_commit()))
    writer.close()
    return committables


@pytest.mark.parametrize(
    ("identifier", "parallelism", "lines"),
    [
        pytest.param(None, 1, "a\n+I[1, b]\n", id="one subtask"),
        pytest.param(None, 3, "2> a\n2> +I[1, b]\n", id="several subtasks"),
        pytest.param("out", 1, "out> a\nout> +I[1, b]\n", id="identifier"),
        pytest.param("out", 3, "out:2> a\nout:2> +I[1, b]\n", id="identifier and subtasks"),
    ],
)
def test_lines_have_the_prefix_that_flink_prints(tmp_path, capsys, identifier, parallelism, lines):
    sink = PrintSink(identifier)
    place = {"subtask": parallelism // 2, "parallelism": parallelism}
    output = written(sink, tmp_path, ["a", Row(1, "b")], **place)
    assert capsys.readouterr().out == ""
    sink.create_committer().commit(CommitRequest(1, output))
    assert capsys.readouterr().out == lines


def test_printing_goes_to_standard_error_if_asked(tmp_path, capsys):
    sink = PrintSink(to_stderr=True)
    sink.create_committer().commit(CommitRequest(1, written(sink, tmp_path, ["x"])))
    assert capsys.readouterr() == ("", "x\n")


def test_subtasks_are_printed_in_order(tmp_path, capsys):
    sink = PrintSink()
    outputs = [
        output
        for subtask in (2, 0, 1)
        for output in written(sink, tmp_path, ["x"], subtask=subtask, parallelism=3)
    ]
    sink.create_committer().commit(CommitRequest(1, outputs))
    assert capsys.readouterr().out == "1> x\n2> x\n3> x\n"


def test_much_output_is_staged_in_a_file_that_the_commit_deletes(tmp_path, capsys):
    sink = PrintSink()
    batches = [
        [f"ä{n}-{'x' * 100}" for n in range(start, start + 500)] for start in range(0, 2000, 500)
    ]
    (output,) = written(sink, tmp_path / "staging", *batches)
    assert len(pickle.dumps(output)) < 1000
    assert len(list((tmp_path / "staging").iterdir())) == 1
    sink.create_committer().commit(CommitRequest(1, [output]))
    assert capsys.readouterr().out == "".join(f"{line}\n" for batch in batches for line in batch)
    assert list((tmp_path / "staging").iterdir()) == []


def test_nothing_is_printed_twice_by_a_repeated_commit(tmp_path, capsys):
    sink = PrintSink()
    request = CommitRequest(4, written(sink, tmp_path, ["x"], checkpoint_id=4))
    sink.create_committer().commit(request)
    sink.create_committer().commit(request)
    assert capsys.readouterr().out == "x\n"
    other = written(sink, tmp_path, ["y"], checkpoint_id=1, job_id="other")
    sink.create_committer().commit(CommitRequest(1, other))
    assert capsys.readouterr().out == "y\n"


def test_a_commit_whose_file_was_deleted_by_the_commit_before_a_crash_succeeds(tmp_path, capsys):
    sink = PrintSink()
    (output,) = written(sink, tmp_path, ["x" * 100_000])
    sink.create_committer().commit(CommitRequest(1, [output]))
    PrintSink().create_committer().commit(CommitRequest(1, [output]))  # a new driver process
    assert capsys.readouterr().out == "x" * 100_000 + "\n"


def test_a_writer_that_fails_leaves_no_file(tmp_path):
    writer = open_writer(PrintSink(), tmp_path)
    writer.write(["x" * 300_000], None, 0)
    assert len(list(tmp_path.iterdir())) == 1
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_writers_without_records_commit_nothing(tmp_path):
    assert written(PrintSink(), tmp_path) == []
    PrintSink().create_committer().commit(CommitRequest(1, []))


@pytest.mark.parametrize("size", [3, 100_000], ids=["inline", "staged"])
def test_each_epoch_of_a_writer_is_put_out_by_itself(tmp_path, capsys, size):
    sink = PrintSink()
    writer = open_writer(sink, tmp_path, checkpoint_id=1, attempt="a1")
    for checkpoint_id in (1, 2, 3):
        writer.write([str(checkpoint_id) * size], None, 0)
        sink.create_committer().commit(CommitRequest(checkpoint_id, writer.prepare_commit()))
        assert capsys.readouterr().out == str(checkpoint_id) * size + "\n"
        writer.begin(CheckpointContext(checkpoint_id + 1, f"a{checkpoint_id + 1}"))
    writer.close()
    assert list(tmp_path.iterdir()) == []


class Consumer:
    def __init__(self):
        self.received = []

    def put(self, checkpoint_id, elements):
        self.received.append((checkpoint_id, elements))

    def __reduce__(self):
        raise TypeError("the consumer must stay on the driver")


@pytest.mark.parametrize("size", [3, 100_000], ids=["inline", "staged"])
def test_collected_records_reach_the_consumer_once(tmp_path, size):
    sink = CollectSink()
    sink.consumer = Consumer()
    outputs = [
        output
        for subtask in (1, 0)
        for output in written(
            sink,
            tmp_path,
            range(size),
            ["end", None],
            subtask=subtask,
            parallelism=2,
        )
    ]
    request = CommitRequest(1, outputs)
    sink.create_committer().commit(request)
    sink.create_committer().commit(request)
    assert sink.consumer.received == [(1, [*range(size), "end", None] * 2)]
    assert list(tmp_path.iterdir()) == []


def test_values_of_classes_that_only_exist_in_a_script_are_collected(tmp_path):
    class Local:
        def __init__(self, number):
            self.number = number

    sink = CollectSink(Consumer())
    output = written(sink, tmp_path, [Local(5)])
    sink.create_committer().commit(CommitRequest(1, output))
    assert sink.consumer.received[0][1][0].number == 5


def test_a_collecting_sink_without_consumer_cannot_commit():
    with pytest.raises(InvalidProgramError, match="no consumer"):
        CollectSink().create_committer()


def test_a_function_is_a_sink(tmp_path):
    seen = []
    writer = open_writer(FunctionSink(seen.append), tmp_path)
    writer.write([1, 2], None, 0)
    assert writer.prepare_commit() == []
    assert seen == [1, 2]
    assert FunctionSink(print).create_committer() is None


def test_an_object_with_invoke_is_a_sink(tmp_path):
    calls = []

    class Recorder:
        def open(self, context):
            calls.append(("open", context.subtask))

        def invoke(self, value, context):
            calls.append((value, context.timestamp(), context.current_watermark()))

        def flush(self):
            calls.append("flush")

        def close(self):
            calls.append("close")

    writer = open_writer(FunctionSink(Recorder()), tmp_path, subtask=3)
    writer.write(["a", "b"], [5, None], 2)
    writer.write(["c"], None, 3)
    writer.prepare_commit()
    writer.begin(CheckpointContext(2, "a1"))
    writer.write(["d"], None, 3)
    writer.prepare_commit()
    writer.close()
    first = [("open", 3), ("a", 5, 2), ("b", None, 2), ("c", None, 3), "flush"]
    assert calls == [*first, ("d", None, 3), "flush", "close"]


def test_sink_function_must_be_callable():
    with pytest.raises(ArgumentTypeError):
        FunctionSink("print")
    with pytest.raises(ArgumentTypeError):
        PrintSink(3)


def test_collected_output_that_was_altered_is_not_unpickled(tmp_path):
    class Consumer:
        def put(self, checkpoint_id, elements):
            found.extend(elements)

    found = []
    sink = CollectSink()
    (output,) = written(sink, tmp_path, ["x" * 100_000])
    Path(output.path).write_bytes(pickle.dumps(["evil"]))
    sink.consumer = Consumer()
    with pytest.raises(CheckpointError, match="collected output does not match its checksum"):
        sink.create_committer().commit(CommitRequest(1, [output]))
    assert found == []
