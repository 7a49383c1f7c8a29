"""The body of a Spark task: rows in, rows out, and what happens when something fails."""

from __future__ import annotations

import gc
import pickle

import pytest

from penstock.common import WatermarkStrategy
from penstock.connectors.base.sink import Sink, SinkWriter
from penstock.errors import RecordError
from penstock.graph.deployment import JobSettings
from penstock.graph.operator_specs import (
    FlatMapSpec,
    KeyedProcessSpec,
    KeyedReduceSpec,
    MapSpec,
    SinkSpec,
    SourceSpec,
)
from penstock.graph.partitioning import Forward, Hash, Rebalance
from penstock.runtime.network.buffers import BufferedRow, decode
from penstock.runtime.network.messages import (
    ACK,
    BARRIER,
    DATA,
    FAILURE,
    STATUS,
    WATERMARK,
    BarrierMessage,
    TaskFailedError,
)
from penstock.runtime.task.epochs import subtask_cache
from penstock.runtime.task.epochs.local_pipe import deliver, run_pipe_locally
from penstock.runtime.task.shared.gates import ChannelError
from tests.builders import pipes

MIN, MAX = -(2**63), 2**63 - 1
LOG = []


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(subtask_cache, "_entries", {})
    LOG.clear()


def note(value):
    LOG.append(value)
    return value


class Noted:
    """Tells when it is opened and closed."""

    def __init__(self, name, fails_in=()):
        self.name = name
        self.fails_in = fails_in

    def _step(self, step):
        LOG.append((self.name, step))
        if step in self.fails_in:
            raise ValueError(f"{step} failed")

    def open(self, context):
        self._step("open")

    def close(self):
        self._step("close")

    def map(self, value):
        if "map" in self.fails_in:
            raise ValueError("map failed")
        return value


def source_vertex(*specs, parallelism=1, bounded=True, partitioning="HASH", targets=1, **options):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    user = {"HASH": Hash(lambda value: value % 10), "REBALANCE": Rebalance()}.get(partitioning)
    return pipes.vertex(
        0,
        SourceSpec(pipes.Numbers(bounded), strategy),
        *specs,
        level=0,
        parallelism=parallelism,
        edges=[pipes.edge(1, partitioning, operator=len(specs), targets=targets)],
        partitionings=[user or Forward()],
        **options,
    )


def data(values, timestamps=None, *, keys=None, channel=0, sequence=0, vertex=1, gate=0):
    return BufferedRow(
        0, vertex, gate, channel, sequence, DATA, pipes.buffer(values, timestamps, keys)
    )


def control(kind, content, *, channel=0, sequence=0, vertex=1, gate=0):
    return BufferedRow(0, vertex, gate, channel, sequence, kind, pickle.dumps(content))


def barrier(*, checkpoint=1, finished=False, channel=0, **where):
    return control(
        BARRIER, BarrierMessage(checkpoint, f"up{channel}", finished), channel=channel, **where
    )


def test_a_source_task_sends_records_watermarks_barrier_and_ack_in_this_order():
    deployment = pipes.level(
        0,
        source_vertex(targets=2),
        next_slots=2,
        assignments={(0, 0): pipes.reads([(1, 100), (2, 200)])},
    )
    rows = pipes.run(deployment, attempt="t7")
    assert [(row.target, row.kind) for row in rows if row.kind != DATA] == [
        (0, WATERMARK),
        (1, WATERMARK),
        (0, BARRIER),
        (1, BARRIER),
        (0, ACK),
    ]
    sent = [pair for row in rows if row.kind == DATA for pair in _pairs(row)]
    assert sorted(sent) == [(1, 100, 1), (2, 200, 2)]
    for target in (0, 1):
        mine = [row for row in rows if row.target == target and row.kind != ACK]
        assert [row.sequence for row in mine] == list(range(len(mine)))
        assert mine[-1].kind == BARRIER
    ack = pipes.acks(rows)[0, 0]
    assert (ack.attempt, ack.finished, ack.watermark, ack.upstream) == ("t7", True, MAX, {})
    assert [(each.position, each.finished) for each in ack.progress] == [(2, True)]
    assert ack.metrics["v0.0"]["numRecordsOut"] == ("counter", 2)
    assert ack.metrics["v0.0"]["numRecordsIn"] == ("counter", 2)


def _pairs(row):
    batch = decode(row.payload)
    return zip(batch.values, batch.timestamps, batch.keys, strict=True)


def test_rows_for_others_pass_through_untouched():
    deployment = pipes.level(1, pipes.vertex(1, MapSpec(note), gates=[pipes.gate(0)]), next_slots=1)
    stranger = BufferedRow(0, 9, 0, 3, 5, DATA, b"for vertex 9")
    earlier_ack = BufferedRow(0, -1, -1, 0, 0, ACK, b"ack")
    rows = pipes.run(deployment, rows=[stranger, data([1]), earlier_ack, barrier()])
    assert rows[:2] == [stranger, earlier_ack]
    assert LOG == [1]
    assert pipes.acks(rows[2:])[1, 0].upstream == {("v0", 0): "up0"}


def test_a_local_edge_hands_over_inside_the_slot():
    first = pipes.vertex(
        1,
        MapSpec(lambda n: n + 1),
        gates=[pipes.gate(0)],
        edges=[pipes.edge(2, local=True)],
        partitionings=[Forward()],
    )
    second = pipes.vertex(2, MapSpec(note), gates=[pipes.gate(1, local=True)])
    rows = pipes.run(
        pipes.level(1, first, second), rows=[data([1, 2]), barrier(finished=True)], attempt="t"
    )
    assert LOG == [2, 3]
    assert [row.kind for row in rows] == [ACK, ACK]
    found = pipes.acks(rows)
    assert found[2, 0].upstream == {("v1", 0): "t"}
    assert found[2, 0].finished


def test_a_single_channel_moves_time_between_records():
    keyed = pipes.vertex(
        1,
        KeyedProcessSpec(_Watermarks()),
        gates=[pipes.gate(0, "HASH")],
        keyed=[0],
    )
    pipes.run(
        pipes.level(1, keyed),
        rows=[
            data([1], [5], keys=["k"]),
            control(WATERMARK, 5),
            data([2], [9], keys=["k"]),
            barrier(),
        ],
    )
    assert LOG == [(1, MIN), (2, 5)]


def test_several_channels_move_time_at_the_end_of_the_epoch():
    keyed = pipes.vertex(
        1, KeyedProcessSpec(_Watermarks()), gates=[pipes.gate(0, "HASH", sources=2)], keyed=[0]
    )
    rows = pipes.run(
        pipes.level(1, keyed),
        rows=[
            data([1], [5], keys=["k"]),
            control(WATERMARK, 50),
            barrier(),
            data([2], [9], keys=["k"], channel=1),
            control(WATERMARK, 20, channel=1),
            barrier(channel=1),
        ],
    )
    assert LOG == [(1, MIN), (2, MIN)]
    assert pipes.acks(rows)[1, 0].watermark == 20


class _Watermarks:
    def open(self, context):
        pass

    def process_element(self, value, ctx):
        LOG.append((value, ctx.timer_service().current_watermark()))

    def on_timer(self, timestamp, ctx):
        return None


@pytest.mark.parametrize(
    ("events", "watermark"),
    [
        pytest.param([(0, STATUS, True), (1, WATERMARK, 20)], 20, id="one idle"),
        pytest.param(
            [(0, WATERMARK, 50), (0, STATUS, True), (1, WATERMARK, 20)],
            20,
            id="one ahead, then idle",
        ),
        pytest.param(
            [(0, WATERMARK, 50), (0, STATUS, True), (1, WATERMARK, 20), (1, STATUS, True)],
            50,
            id="all idle: the maximum",
        ),
        pytest.param(
            [(0, STATUS, True), (0, STATUS, False), (0, WATERMARK, 30), (1, WATERMARK, 20)],
            20,
            id="idle and back",
        ),
    ],
)
def test_statuses_count_at_the_end_of_the_epoch(events, watermark):
    target = pipes.vertex(1, MapSpec(note), gates=[pipes.gate(0, "REBALANCE", sources=2)])
    rows = [control(kind, content, channel=channel) for channel, kind, content in events]
    rows += [barrier(channel=channel) for channel in (0, 1)]
    assert pipes.acks(pipes.run(pipes.level(1, target), rows=rows))[1, 0].watermark == watermark


def test_a_channel_that_wakes_up_and_falls_asleep_in_one_epoch_is_heard():
    target = pipes.vertex(1, MapSpec(note), gates=[pipes.gate(0, "REBALANCE", sources=2)])
    first = [control(STATUS, True, channel=channel) for channel in (0, 1)]
    first += [barrier(channel=channel) for channel in (0, 1)]
    ack = pipes.acks(pipes.run(pipes.level(1, target), rows=first))[1, 0]
    second = [
        control(STATUS, False),
        data([1], [51]),
        control(WATERMARK, 50),
        control(STATUS, True),
        *(barrier(checkpoint=2, channel=channel) for channel in (0, 1)),
    ]
    deployment = pipes.level(1, target, checkpoint_id=2, restore={(1, 0): pipes.restore_of(ack)})
    assert pipes.acks(pipes.run(deployment, rows=second))[1, 0].watermark == 50


def keyed_sum():
    return pipes.vertex(
        1,
        KeyedReduceSpec(lambda a, b: a + b),
        MapSpec(note),
        gates=[pipes.gate(0, "HASH")],
        keyed=[0],
    )


def checkpoint_id_of(number, records, *, restore=None, state_io=None, attempt=None):
    options = {"restore": {(1, 0): restore}} if restore else {}
    deployment = pipes.level(
        1, keyed_sum(), checkpoint_id=number, state_io=state_io or pipes.MemoryStateIO(), **options
    )
    rows = [
        data([n for _, n in records], keys=[key for key, _ in records]),
        barrier(checkpoint=number),
    ]
    return pipes.acks(pipes.run(deployment, rows=rows, attempt=attempt or f"t{number}"))[1, 0]


@pytest.mark.parametrize("cached", [True, False], ids=["kept alive", "restored"])
def test_keyed_state_goes_on_in_the_next_epoch(cached):
    state_io = pipes.MemoryStateIO()
    first = checkpoint_id_of(1, [("a", 1), ("b", 10)], state_io=state_io)
    if not cached:
        subtask_cache._entries.clear()
    second = checkpoint_id_of(2, [("a", 2)], restore=pipes.restore_of(first), state_io=state_io)
    subtask_cache._entries.clear()
    checkpoint_id_of(3, [("a", 4), ("b", 20)], restore=pipes.restore_of(second), state_io=state_io)
    assert LOG == [1, 10, 3, 7, 30]
    assert state_io.stored == [("1.0", 0, True), ("1.0", 0, False), ("1.0", 0, False)]


def test_a_failed_attempt_leaves_nothing_behind():
    first = checkpoint_id_of(1, [("a", 1)])
    restore = pipes.restore_of(first)
    checkpoint_id_of(2, [("a", 100)], restore=restore, attempt="lost")  # its epoch fails elsewhere
    checkpoint_id_of(2, [("a", 2)], restore=restore, attempt="t2")
    assert LOG == [1, 101, 3]


def test_an_epoch_without_records_keeps_the_chain_of_state():
    first = checkpoint_id_of(1, [("a", 1)])
    state_io = pipes.MemoryStateIO()
    again = checkpoint_id_of(2, [], restore=pipes.restore_of(first), state_io=state_io)
    assert again.keyed == first.keyed
    assert state_io.stored == []


# Failures


def failing_level(spec, *, rows=None, **options):
    target = pipes.vertex(
        1, *([spec] if not isinstance(spec, tuple) else spec), gates=[pipes.gate(0)]
    )
    deployment = pipes.level(1, target, **options)
    return pipes.run(deployment, rows=rows or [data([1, 2, 3]), barrier()])


def boom(value):
    if value == 2:
        raise KeyError("two")
    return value


def test_a_user_error_becomes_a_failure_row_for_every_slot_of_the_next_level():
    rows = failing_level(MapSpec(boom), next_slots=3)
    assert [(row.target, row.kind) for row in rows] == [(0, FAILURE), (1, FAILURE), (2, FAILURE)]
    failure = pipes.failures(rows)[0]
    assert failure.task == ("v1", 0)
    assert failure.message == "KeyError: 'two'"
    assert failure.detail == "in operator 'v1.0', subtask 1 of 1, record 2"
    assert isinstance(pickle.loads(failure.error), KeyError)


def test_rule_21_the_traceback_begins_with_the_users_own_lines():
    failure = pipes.failures(failing_level(MapSpec(boom)))[0]
    lines = failure.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].startswith(f'  File "{__file__}"')
    assert "in boom" in lines[1]
    assert lines[-1] == "KeyError: 'two'"
    assert "penstock/runtime/" not in failure.traceback


def test_rule_21_the_users_chain_of_exceptions_is_shown():
    def wrap(value):
        try:
            return boom(value)
        except KeyError as error:
            raise ValueError("no such number") from error

    failure = pipes.failures(failing_level(MapSpec(wrap)))[0]
    assert "KeyError: 'two'" in failure.traceback
    assert failure.traceback.rstrip().endswith("ValueError: no such number")
    assert "penstock/runtime/" not in failure.traceback


def test_unpicklable_error_is_reported_as_text():
    class LocalError(Exception):
        def __reduce__(self):
            raise TypeError("not me")

    def fail(value):
        raise LocalError("secret")

    failure = pipes.failures(failing_level(MapSpec(fail)))[0]
    assert failure.error is None
    assert "LocalError: secret" in failure.traceback


def test_the_operator_that_failed_is_named_not_the_one_before():
    rows = failing_level((FlatMapSpec(lambda n: [n]), MapSpec(lambda n: n), MapSpec(boom)))
    assert pipes.failures(rows)[0].detail == "in operator 'v1.2', subtask 1 of 1, record 2"


def test_an_error_of_ours_says_all_by_itself():
    def fail(values, timestamps, watermark):
        try:
            raise ValueError("inner")
        except ValueError as error:
            raise RecordError("a record is too large", hint="split it") from error

    failure = pipes.failures(failing_level(SinkSpec(_LogSink(fail))))[0]
    assert failure.message == "a record is too large"
    assert "a record is too large" in failure.traceback
    assert "hint: split it" in failure.traceback
    assert isinstance(pickle.loads(failure.error), RecordError)


class _LogSink(Sink):
    def __init__(self, write):
        self.write = write

    def create_writer(self, context, restored=None):
        return _LogWriter(self.write)


class _LogWriter(SinkWriter):
    def __init__(self, write):
        self._write = write

    def write(self, values, timestamps, watermark):
        self._write(values, timestamps, watermark)

    def prepare_commit(self):
        return []

    def close(self):
        LOG.append("writer closed")


@pytest.mark.parametrize("step", ["open", "close"])
def test_errors_of_open_and_close_name_the_operator(step):
    rows = failing_level(MapSpec(Noted("f", {step})), rows=[data([1]), barrier(finished=True)])
    failure = pipes.failures(rows)[0]
    assert failure.message == f"ValueError: {step} failed"
    assert failure.detail == "in operator 'v1.0', subtask 1 of 1"


def test_an_error_of_a_key_selector_names_the_operator_before_and_the_record():
    broken = pipes.vertex(
        0,
        SourceSpec(pipes.Numbers(), WatermarkStrategy.no_watermarks()),
        level=0,
        edges=[pipes.edge(1, "HASH", targets=2)],
        partitionings=[Hash(lambda value: value["id"])],
    )
    deployment = pipes.level(
        0, broken, next_slots=2, assignments={(0, 0): pipes.reads([({"id": 1}, 0), ({}, 0)])}
    )
    failure = pipes.failures(pipes.run(deployment))[0]
    assert failure.message == "KeyError: 'id'"
    assert failure.detail == "in operator 'v0.0', subtask 1 of 1, record {}"


def test_after_a_failure_everything_that_was_opened_is_closed():
    rows = failing_level(
        (MapSpec(Noted("first")), MapSpec(Noted("second", {"map"})), SinkSpec(_LogSink(None)))
    )
    assert pipes.failures(rows)
    assert LOG == [("first", "open"), ("second", "open"), ("first", "close"), ("second", "close")]


def test_a_sink_writer_is_closed_when_its_task_fails():
    written = []
    deployment = pipes.level(
        1,
        pipes.vertex(
            1,
            SinkSpec(_LogSink(lambda values, timestamps, watermark: written.append(values))),
            gates=[pipes.gate(0)],
        ),
    )
    with pytest.raises(ChannelError):
        pipes.run(deployment, rows=[data([1])])
    assert LOG == ["writer closed"]


def test_a_failure_from_before_is_passed_on_and_nothing_is_acknowledged():
    failure = BufferedRow(0, -1, -1, 0, 0, FAILURE, b"what happened")
    rows = failing_level(
        MapSpec(note), rows=[data([1]), failure, data([2]), barrier()], next_slots=2
    )
    assert [(row.target, row.kind, row.payload) for row in rows] == [
        (0, FAILURE, b"what happened"),
        (1, FAILURE, b"what happened"),
    ]
    assert LOG == [1]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([], id="nothing came"),
        pytest.param([data([1]), barrier()], id="one of two channels"),
        pytest.param([data([1]), data([2], channel=1)], id="records without a barrier"),
    ],
)
def test_missing_barrier_is_raised_for_spark_to_retry(rows):
    target = pipes.vertex(1, MapSpec(note), gates=[pipes.gate(0, "REBALANCE", sources=2)])
    with pytest.raises(ChannelError, match="of 2 input channels ended without a barrier") as caught:
        pipes.run(pipes.level(1, target), rows=rows)
    assert "vertex 'v1', subtask 0" in caught.value.detail


@pytest.mark.parametrize(
    ("sequences", "complaint"),
    [
        pytest.param([0, 1, 2], None, id="in order"),
        pytest.param([0, 2, 1], "received row 2 instead of row 1", id="swapped"),
        pytest.param([1, 2, 3], "received row 1 instead of row 0", id="the first is missing"),
        pytest.param([0, 0, 1], "received row 0 instead of row 1", id="one came twice"),
    ],
)
def test_sequence_check_detects_lost_swapped_and_duplicate_rows(sequences, complaint):
    target = pipes.vertex(1, MapSpec(note), gates=[pipes.gate(0)])
    rows = [data([n], sequence=s) for n, s in zip((1, 2), sequences, strict=False)]
    rows.append(barrier(sequence=sequences[2]))
    deployment = pipes.level(1, target, settings=JobSettings("job", "job", check_order=True))
    if complaint is None:
        assert pipes.acks(pipes.run(deployment, rows=rows))
    else:
        with pytest.raises(ChannelError, match=complaint) as caught:
            pipes.run(deployment, rows=rows)
        assert "gate 0, channel 0" in caught.value.detail


def test_the_cycle_collector_is_on_again_after_a_task():
    assert gc.isenabled()
    failing_level(MapSpec(boom))
    assert gc.isenabled()


def test_finish_and_close_come_once_at_the_end_of_input():
    function = Noted("f")
    target = pipes.vertex(1, MapSpec(function), gates=[pipes.gate(0)])
    rows = pipes.run(pipes.level(1, target), rows=[barrier()])
    assert LOG == [("f", "open")]
    ack = pipes.acks(rows)[1, 0]
    assert not ack.finished
    deployment = pipes.level(1, target, checkpoint_id=2, restore={(1, 0): pipes.restore_of(ack)})
    last = [control(WATERMARK, MAX), barrier(checkpoint=2, finished=True)]
    rows = pipes.run(deployment, rows=last)
    assert LOG == [("f", "open"), ("f", "close")]
    assert pipes.acks(rows)[1, 0].finished


def two_levels(specs, records):
    source = source_vertex(parallelism=2, partitioning="REBALANCE", targets=3)
    target = pipes.vertex(1, *specs, parallelism=3, gates=[pipes.gate(0, "REBALANCE", sources=2)])
    assignments = {(0, 0): pipes.reads(records[::2]), (0, 1): pipes.reads(records[1::2])}
    return [
        pipes.level(0, source, next_slots=3, assignments=assignments),
        pipes.level(1, target),
    ]


def test_a_pipe_in_one_process_runs_all_slots_of_all_levels():
    found = []
    run_pipe_locally(two_levels([MapSpec(lambda n: n)], [(n, n) for n in range(10)]), found.append)
    assert sorted(pipes.number_of(ack.task) for ack in found) == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert all(ack.finished for ack in found)
    received = [ack.metrics["v1.0"]["numRecordsIn"][1] for ack in found if ack.task.vertex == "v1"]
    assert sum(received) == 10
    assert {len(ack.upstream) for ack in found if ack.task.vertex == "v1"} == {2}


def test_a_failure_anywhere_in_the_pipe_is_raised_with_its_story():
    with pytest.raises(TaskFailedError, match="KeyError: 'two'") as caught:
        run_pipe_locally(two_levels([MapSpec(boom)], [(n, n) for n in range(10)]), [].append)
    assert caught.value.failure.task.vertex == "v1"
    assert "record 2" in caught.value.detail


def test_failures_win_over_acks():
    rows = pipes.run(pipes.level(0, source_vertex(), assignments={(0, 0): pipes.reads([(1, 1)])}))
    failed = failing_level(MapSpec(boom))
    found = []
    with pytest.raises(TaskFailedError):
        deliver([*failed, *[row for row in rows if row.kind == ACK]], found.append)
    assert [ack.task.vertex for ack in found] == [
        "v0"
    ]  # they tell what happened before the failure


ARRIVED = []


def note_acks(n):
    LOG.append(len(ARRIVED))
    return n


def test_acks_of_a_level_are_handed_over_before_the_next_one_runs():
    ARRIVED.clear()
    run_pipe_locally(two_levels([MapSpec(note_acks)], [(n, n) for n in range(6)]), ARRIVED.append)
    assert len(ARRIVED) == 5
    assert len(LOG) == 6
    assert min(LOG) == 2
