"""The rolling reduce, and the sink operator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.base.sink import Sink, SinkWriter
from penstock.errors import RecordError
from penstock.errors.user_errors import UserCodeError
from penstock.graph.operator_specs import KeyedReduceSpec, SinkSpec
from penstock.runtime.records import RowBatch
from penstock.testing import OperatorHarness

MIN, MAX = -(2**63), 2**63 - 1


def add(first, second):
    return first[0], first[1] + second[1]


def by_name(value):
    return value[0]


def test_rule_11_streaming_emits_every_update_with_the_timestamp_of_the_record():
    harness = OperatorHarness(KeyedReduceSpec(add), key_selector=by_name)
    harness.process_elements([(("a", 1), 10), (("b", 5), 20), (("a", 2), 30)])
    assert harness.output() == [(("a", 1), 10), (("b", 5), 20), (("a", 3), 30)]


def test_rule_11_batch_emits_one_value_per_key_at_the_end():
    harness = OperatorHarness(KeyedReduceSpec(add, emit_updates=False), key_selector=by_name)
    harness.process_elements([(("a", 1), 10), (("b", 5), 20), (("a", 2), 30)])
    harness.process_watermark(100)
    assert harness.output() == []
    harness.finish()
    assert harness.values() == [("a", 3), ("b", 5)]
    assert harness.watermarks() == [100, MAX]


def test_the_function_is_not_called_for_the_first_record_of_a_key():
    harness = OperatorHarness(KeyedReduceSpec(lambda a, b: 1 // 0), key_selector=by_name)
    harness.process_elements([(("a", 1), None), (("b", 1), None)])
    assert harness.values() == [("a", 1), ("b", 1)]


class Opened:
    def open(self, context):
        self.log = [context.get_task_name()]

    def reduce(self, first, second):
        return add(first, second)

    def close(self):
        self.log.append("close")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=30), st.integers(0, 30))
def test_the_reduced_values_survive_a_restore(records, cut):
    harness = OperatorHarness(KeyedReduceSpec(Opened()), key_selector=by_name)
    harness.process_elements([(record, None) for record in records[:cut]])
    restored = OperatorHarness(
        KeyedReduceSpec(Opened()), key_selector=by_name, snapshots=[harness.snapshot()]
    )
    restored.process_elements([(record, None) for record in records[cut:]])
    totals, expected = {}, []
    for name, number in records:
        totals[name] = totals.get(name, 0) + number
        expected.append((name, totals[name]))
    assert harness.values() + restored.values() == expected


def test_rule_21_an_error_of_the_reduce_function_names_the_record():
    harness = OperatorHarness(KeyedReduceSpec(add), key_selector=by_name, name="sum")
    with pytest.raises(UserCodeError, match="TypeError") as caught:
        harness.process_elements([(("a", 1), None), (("a", "x"), None)])
    assert caught.value.detail == "in operator 'sum', subtask 1 of 1, record ('a', 'x')"


def test_the_reduce_function_is_opened_and_closed():
    function = Opened()
    harness = OperatorHarness(KeyedReduceSpec(function), key_selector=by_name, name="sum")
    harness.close()
    assert function.log == ["sum", "close"]


class Writer(SinkWriter):
    def __init__(self, log, context, restored):
        self.log = log
        self.count = restored or 0
        log.append(("create", context.job_id, context.subtask, restored))

    def begin(self, checkpoint):
        self.log.append(("begin", checkpoint.checkpoint_id, checkpoint.attempt))

    def write(self, values, timestamps, watermark):
        if "bad" in values:
            raise ValueError("bad")
        if "record" in values:
            raise RecordError("a record is too large")
        self.count += len(values)
        self.log.append((values, timestamps, watermark))

    def prepare_commit(self):
        self.log.append("prepare")
        return [f"committable {self.count}"]

    def snapshot(self):
        return self.count

    def close(self):
        self.log.append("close")


class Log(Sink):
    def __init__(self):
        self.log = []

    def create_writer(self, context, restored=None):
        return Writer(self.log, context, restored)


PLACE = {"job_id": "job", "attempt": "t1", "staging": "/staging"}


def sink_of(*snapshots, sink=None, kept=None):
    sink = sink or Log()
    harness = OperatorHarness(SinkSpec(sink), name="out", snapshots=snapshots, **PLACE)
    if kept is not None:
        harness.operator.take_over(kept)
    return harness, sink.log


def next_checkpoint_id(harness, attempt):
    harness.snapshot(attempt)


def test_a_writer_is_opened_once_and_an_epoch_begins_with_its_first_record():
    harness, log = sink_of()
    next_checkpoint_id(harness, "t2")
    assert log == []
    harness.process_batch(RowBatch(["a"], [1]))
    harness.process_watermark(5)
    harness.process_batch(RowBatch(["b", "c"]))
    next_checkpoint_id(harness, "t3")
    next_checkpoint_id(harness, "t4")  # no record, so nothing is begun or ended
    harness.process_batch(RowBatch(["d"]))
    assert harness.operator.barrier() == ["committable 4"]
    assert log == [
        ("create", "job", 0, None),
        ("begin", 2, "t2-2"),
        (["a"], [1], MIN),
        (["b", "c"], None, 5),
        "prepare",
        ("begin", 4, "t4-4"),
        (["d"], None, 5),
        "prepare",
    ]
    assert harness.watermarks() == []  # nothing follows a sink
    harness.close()
    assert log[-1] == "close"


def test_writer_state_is_restored_in_another_subtask():
    harness, _ = sink_of()
    harness.process_batch(RowBatch(["a"]))
    restored, log = sink_of(harness.snapshot())
    restored.process_batch(RowBatch(["b"]))
    assert log[0] == ("create", "job", 0, 1)
    assert restored.operator.barrier() == ["committable 2"]


@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_a_writer_is_closed_without_a_commit_when_the_task_fails(epochs):
    harness, log = sink_of()
    for _ in range(epochs):
        harness.process_batch(RowBatch(["a"]))
        harness.snapshot()
    harness.process_batch(RowBatch(["a"]))
    harness.close()
    harness.close()
    assert log.count("prepare") == epochs
    assert log.count("close") == 1


class Stateless(Log):
    """A sink whose writers leave no state."""

    def create_writer(self, context, restored=None):
        writer = super().create_writer(context, restored)
        writer.snapshot = lambda: None
        return writer


def kept_by(sink, *, in_an_epoch=False):
    harness, _ = sink_of(sink=sink)
    harness.process_batch(RowBatch(["a"]))
    if not in_an_epoch:
        harness.snapshot()
    return harness.operator.retire()


def test_a_writer_between_epochs_that_left_no_state_goes_on_in_the_next_operator():
    sink = Stateless()
    kept = kept_by(sink)
    assert kept is not None
    harness, log = sink_of(sink=sink, kept=kept)
    harness.process_batch(RowBatch(["b"]))
    opened = [each[:2] for each in log if isinstance(each[0], str) and each[0] != "p"]
    assert opened == [("create", "job"), ("begin", 1), ("begin", 1)]
    assert "close" not in log
    harness.close()
    assert log.count("close") == 1


@pytest.mark.parametrize(
    ("sink", "in_an_epoch"),
    [
        pytest.param(Log(), False, id="it has left state"),
        pytest.param(Stateless(), True, id="its epoch has not ended"),
    ],
)
def test_a_writer_that_cannot_go_on_elsewhere_is_closed(sink, in_an_epoch):
    assert kept_by(sink, in_an_epoch=in_an_epoch) is None
    assert sink.log[-1] == "close"


def test_a_kept_writer_is_closed_where_there_is_state_that_it_does_not_know():
    stateful, _ = sink_of()
    stateful.process_batch(RowBatch(["a"]))
    kept = kept_by(Stateless())
    harness, log = sink_of(stateful.snapshot(), kept=kept)
    assert kept.log[-1] == "close"
    harness.process_batch(RowBatch(["b"]))
    assert log[0] == ("create", "job", 0, 1)


def test_a_writer_that_could_not_be_opened_is_not_closed():
    class Unreachable(Sink):
        def create_writer(self, context, restored=None):
            raise ConnectionError("no server")

    harness = OperatorHarness(SinkSpec(Unreachable()), name="out", **PLACE)
    with pytest.raises(UserCodeError, match="no server"):
        harness.process_batch(RowBatch(["a"]))
    harness.close()


def test_a_writer_that_fails_names_the_operator():
    harness, _ = sink_of()
    with pytest.raises(UserCodeError, match="ValueError: bad") as caught:
        harness.process_batch(RowBatch(["bad"]))
    assert caught.value.detail == "in operator 'out', subtask 1 of 1"
    with pytest.raises(RecordError, match="too large"):
        harness.process_batch(RowBatch(["record"]))
