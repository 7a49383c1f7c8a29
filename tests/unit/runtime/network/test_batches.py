"""The interface of batches: rows against lists, and columns that travel wherever rows do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.deployment import JobSettings, SubtaskRestore
from penstock.graph.operator_specs import MapSpec
from penstock.graph.partitioning import Hash
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.edges import BufferedEdge
from penstock.runtime.network.messages import BARRIER, DATA, BarrierMessage
from penstock.runtime.network.routing import create_router
from penstock.runtime.network.writers import RowWriter
from penstock.runtime.records import RowBatch
from penstock.runtime.task.epochs.epoch_mode import EpochMode
from penstock.runtime.task.epochs.epoch_slot import receive_row
from penstock.runtime.task.shared.chain import ChainOutput
from penstock.runtime.task.shared.environment import TaskEnvironment
from penstock.runtime.task.shared.subtask import Subtask
from tests.builders import pipes

from .arrow_batches import ArrowBatch, Column

RECORDS = st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers())), max_size=20)


def rows(records, keys=None):
    times = [time for _, time in records]
    return RowBatch([value for value, _ in records], times, keys)


def content(batch):
    return batch.values, batch.timestamps, batch.keys


@given(RECORDS, st.integers(0, 25), st.integers(0, 25), st.integers(1, 4))
def test_rows_are_sliced_like_lists(records, start, stop, step):
    keys = [value % 2 for value, _ in records]
    found = rows(records, keys).slice(start, stop, step)
    part = slice(start, stop, step)
    assert content(found) == content(rows(records[part], keys[part]))


@given(st.lists(st.tuples(RECORDS, st.booleans()), min_size=1, max_size=5))
def test_rows_that_were_collected_are_all_there_with_their_times(parts):
    batches = [
        rows(records) if timed else RowBatch([value for value, _ in records])
        for records, timed in parts
    ]
    whole = batches[0].copy()
    for batch in batches[1:]:
        whole.extend(batch)
    assert whole.values == [value for records, _ in parts for value, _ in records]
    expected = [time if timed else None for records, timed in parts for _, time in records]
    if any(timed for _, timed in parts):
        assert whole.timestamps == expected
    else:
        assert whole.timestamps is None
    # What was appended is as it was.
    for batch, (records, _) in zip(batches, parts, strict=True):
        assert batch.values == [value for value, _ in records]


@given(RECORDS)
def test_a_split_gives_every_target_its_records_in_order(records):
    batch = rows(records, [f"k{value}" for value, _ in records])
    parts = {}
    touched = batch.scatter([value % 3 for value in batch.values], parts)
    assert set(touched) == set(parts) == {value % 3 for value in batch.values}
    for target, part in parts.items():
        mine = [record for record in records if record[0] % 3 == target]
        assert content(part) == content(rows(mine, [f"k{value}" for value, _ in mine]))


@given(st.lists(st.tuples(RECORDS, st.booleans()), max_size=5))
def test_scattered_batches_are_collected_per_target(parts):
    pending, expected = {}, {}
    for records, timed in parts:
        batch = rows(records) if timed else RowBatch([value for value, _ in records])
        batch.scatter([value % 2 for value in batch.values], pending)
        for value, time in records:
            expected.setdefault(value % 2, []).append((value, time if timed else None))
    found = {
        target: list(zip(batch.values, batch.timestamps or [None] * len(batch), strict=True))
        for target, batch in pending.items()
    }
    assert found == expected


def test_pending_records_are_independent_of_their_batch():
    sent = []
    edge = pipes.edge(1, "FORWARD")
    router = create_router(edge, None, 0, 1, 1000)
    router.bind(RowWriter(sent, edge, 0))
    values, times = [1, 2], [10, 20]
    router.route(RowBatch(values, times))
    values.clear()  # a reader that fills the same lists again
    times.clear()
    router.flush(0)
    assert content(decode(sent[0].payload)) == ([1, 2], [10, 20], None)


TARGETS = 3
KEYS = [n % 7 for n in range(40)]
TIMES = [1000 + n for n in range(40)]


def in_columns(start, stop):
    return ArrowBatch.of(
        TIMES[start:stop], key=KEYS[start:stop], name=[f"n{n}" for n in range(start, stop)]
    )


def in_rows(start, stop):
    return RowBatch([(KEYS[n], f"n{n}") for n in range(start, stop)], TIMES[start:stop])


def first(pair):
    return pair[0]


def received(batches):
    """What arrived, as (key column, name, timestamp, key of the exchange)."""
    found = []
    for batch in batches:
        if isinstance(batch, ArrowBatch):
            columns = batch.table.to_pydict()
            values = list(zip(columns["key"], columns["name"], strict=True))
        else:
            values = batch.values
        keys = batch.keys or [None] * len(batch)
        found += [
            (*value, time, key)
            for value, time, key in zip(values, batch.timestamps, keys, strict=True)
        ]
    return found


class Taking:
    """An operator that keeps what it gets."""

    def __init__(self):
        self.batches = []

    def process(self, batch, input_index=0):
        self.batches.append(batch)


def travel(name, partitioning, batches, buffer_bytes):
    """Send batches from the end of a chain over an exchange to the heads of other chains."""
    edge = BufferedEdge(pipes.edge(1, name, targets=TARGETS), partitioning, 0, 1, buffer_bytes)
    sent = []
    edge.bind(RowWriter(sent, pipes.edge(1, name, targets=TARGETS), 0))
    output = ChainOutput(SimpleNamespace(context=None))
    output.add_edge(edge, None)
    for batch in batches:
        output.emit(batch)
    edge.barrier(BarrierMessage(1, "a", finished=False))
    assert output.records_out == 40
    heads = []
    for index in range(TARGETS):
        vertex = pipes.vertex(
            1, MapSpec(first), parallelism=TARGETS, gates=[pipes.gate(0, name, sources=1)]
        )
        subtask = Subtask(vertex, index, EpochMode())
        task = TaskEnvironment(
            JobSettings("job", "job", check_order=True),
            1,
            "a",
            0,
            "/staging",
            pipes.MemoryStateIO(),
            RowWriter,
        )
        subtask.open(task, SubtaskRestore())
        subtask.connect(task, {})
        subtask.begin_interval(task)
        head = subtask.chain.operators[0] = Taking()
        for row in sent:
            if row.target == index:
                assert row.kind in {DATA, BARRIER}
                receive_row(subtask, row, check_order=True)
        assert subtask.gates.barrier_alignment.complete
        heads.append(head.batches)
    return heads


@pytest.mark.parametrize("buffer_bytes", [400, 65_536], ids=["many buffers", "few buffers"])
@pytest.mark.parametrize("name", ["HASH", "REBALANCE", "BROADCAST"])
def test_columns_travel_as_rows_do(name, buffer_bytes):
    cuts = [(0, 10), (10, 11), (11, 40)]
    columns = travel(
        name,
        Hash(Column("key")) if name == "HASH" else None,
        [in_columns(*cut) for cut in cuts],
        buffer_bytes,
    )
    expected = travel(
        name,
        Hash(first) if name == "HASH" else None,
        [in_rows(*cut) for cut in cuts],
        buffer_bytes,
    )
    assert [received(batches) for batches in columns] == [received(batches) for batches in expected]
    assert {type(batch) for batches in columns for batch in batches} == {ArrowBatch}
    copies = TARGETS if name == "BROADCAST" else 1
    assert sum(len(received(batches)) for batches in columns) == 40 * copies
    assert all(batch.keys is not None for batches in columns for batch in batches) == (
        name == "HASH"
    )
