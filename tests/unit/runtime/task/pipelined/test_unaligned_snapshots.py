"""Snapshots that are held until all is known that is in flight for them: barriers that are stuck in output channels."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.runtime.network.channels import BufferOrEvent
from penstock.runtime.network.messages import DATA, BarrierFigures, BarrierMessage, TaskAck
from penstock.runtime.records import RowBatch
from penstock.runtime.task.pipelined.barrier_handlers import BeginCheckpoint
from penstock.runtime.task.pipelined.unaligned_snapshots import UnalignedSnapshots
from penstock.runtime.task.pipelined.uploads import Upload
from penstock.runtime.task.shared.in_flight import Capture, InFlight
from penstock.runtime.task.shared.snapshots import PendingSnapshot
from tests.builders import pipes

VERTEX = pipes.vertex(0, "sends", edges=[pipes.edge(1)])
STUCK = [BufferOrEvent(DATA, RowBatch(["a", "b"]), 0)]


class Stuck:
    """A subtask whose output channel holds barriers back, behind two records."""

    def __init__(self):
        self.holds = True

    def holds_barrier(self, message):
        return self.holds

    def expedite_barrier(self, message, overtaken):
        overtaken.add_outputs(0, 0, STUCK)


class Holding:
    def __init__(self):
        self.subtask = Stuck()
        self.written = []
        self.held = UnalignedSnapshots(self.subtask, self.written.append)

    def hold(self, checkpoint, expedite_at=1100.0):
        ack = TaskAck(VERTEX.task(0), "a", {}, {}, b"")
        message = BarrierMessage(checkpoint, "a", finished=False)
        snapshot = PendingSnapshot(ack, dict, barrier=message)
        upload = Upload(checkpoint, SimpleNamespace(), snapshot, BarrierFigures())
        begin = BeginCheckpoint(checkpoint, {}, 1000.0, 1000.0)
        self.held.hold(upload, Capture(VERTEX), begin, expedite_at)
        self.held.complete(checkpoint)

    @property
    def in_flight(self):
        """What was written as in flight, by checkpoint."""
        found = {}
        for upload in self.written:
            payload = upload.snapshot.in_flight
            outputs = {} if payload is None else InFlight.load(payload).outputs
            found[upload.checkpoint] = [
                value
                for payloads in outputs.values()
                for each in payloads
                for value in RowBatch.decode(each).values
            ]
        return found


@pytest.fixture
def holding():
    return Holding()


def test_a_barrier_that_is_stuck_overtakes_when_its_time_is_over(holding):
    holding.hold(1)
    assert holding.held.deadline_ms == 1100
    holding.held.check(1099)
    assert holding.written == []
    assert holding.held.check(1100)
    assert holding.in_flight == {1: ["a", "b"]}
    assert holding.written[0].figures.unaligned
    assert not holding.held


def test_a_barrier_that_has_left_in_time_has_overtaken_nothing(holding):
    holding.hold(1)
    holding.subtask.holds = False
    holding.held.check(1050)
    assert holding.in_flight == {1: []}
    assert not holding.written[0].figures.unaligned


def test_snapshots_are_written_in_the_order_in_which_they_were_taken(holding):
    holding.hold(1)
    holding.hold(2, expedite_at=None)
    assert holding.written == []
    holding.held.check(1100)
    assert list(holding.in_flight) == [1, 2]


def test_aborted_checkpoint_is_declined_and_does_not_block_others(holding):
    holding.hold(1)
    holding.hold(2, expedite_at=None)
    holding.held.drop(1)
    assert [(each.checkpoint, each.declined) for each in holding.written] == [
        (1, "the checkpoint was aborted"),
        (2, None),
    ]
