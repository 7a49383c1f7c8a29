"""Barriers that overtake: what is in the snapshot and what is in flight is all that came before the barriers, each once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.network.channels import ChannelId, Inputs, LocalLink, Outputs
from penstock.runtime.network.messages import BARRIER, DATA, BarrierMessage
from penstock.runtime.task.pipelined.barrier_handlers import (
    AbandonCheckpoint,
    BeginCheckpoint,
    BlockChannel,
    CompleteInFlight,
    DropInFlight,
    ExpediteBarriers,
    UnblockChannels,
)
from penstock.runtime.task.pipelined.unaligned_barrier_handler import UnalignedBarriers
from tests.builders.examples import examples

A, B, C = (0, 0), (0, 1), (0, 2)


def barrier(number, triggered_ms=0, *, aligned=False):
    return BarrierMessage(number, "a", finished=False, triggered_ms=triggered_ms, aligned=aligned)


def kinds(decisions):
    return [type(decision) for decision in decisions]


def test_alignment_timeout_of_zero_starts_with_the_first_barrier():
    barriers = UnalignedBarriers([A, B, C], timeout_ms=0)
    begin, unblock, expedite = barriers.on_barrier(A, barrier(1), 5)
    assert (begin.unaligned, begin.barriers.keys(), expedite) == (True, {A}, ExpediteBarriers(1))
    assert isinstance(unblock, UnblockChannels)
    assert barriers.in_flight == {B: (1,), C: (1,)}
    assert barriers.on_barrier(B, barrier(1), 6) == []
    assert barriers.on_barrier(C, barrier(1), 7) == [CompleteInFlight(1)]
    assert barriers.in_flight == {}


def test_barriers_that_come_in_time_are_aligned():
    barriers = UnalignedBarriers([A, B], timeout_ms=100)
    assert barriers.on_barrier(A, barrier(1, 1000), 1010) == [BlockChannel(A)]
    assert barriers.deadline_ms == 1100
    begin, *rest = barriers.on_barrier(B, barrier(1, 1000), 1099)
    assert (begin.unaligned, begin.first_ms, begin.last_ms) == (False, 1010, 1099)
    assert rest == [UnblockChannels(), CompleteInFlight(1)]
    assert barriers.deadline_ms is None


def test_records_may_be_in_flight_for_two_checkpoints():
    barriers = UnalignedBarriers([A, B], timeout_ms=0)
    barriers.on_barrier(A, barrier(1), 5)
    assert kinds(barriers.on_barrier(A, barrier(2), 6)) == [
        BeginCheckpoint,
        UnblockChannels,
        ExpediteBarriers,
    ]
    assert barriers.in_flight == {B: (1, 2)}
    assert barriers.on_barrier(B, barrier(1), 7) == [CompleteInFlight(1)]
    assert barriers.in_flight == {B: (2,)}
    assert barriers.on_barrier(B, barrier(2), 8) == [CompleteInFlight(2)]
    assert barriers.in_flight == {}


def test_the_time_is_not_awaited_of_a_barrier_that_was_seen_and_is_over():
    barriers = UnalignedBarriers([A, B], timeout_ms=100)
    assert barriers.on_announced(barrier(1, 1000), 1010) == []
    assert barriers.deadline_ms == 1100
    barriers.on_barrier(A, barrier(1, 1000), 1020)
    barriers.on_barrier(B, barrier(1, 1000), 1030)
    assert (barriers.deadline_ms, barriers.on_time(1100)) == (None, [])
    barriers.on_announced(barrier(2, 2000), 2010)
    barriers.on_aborted(2)
    assert (barriers.deadline_ms, barriers.on_time(2100)) == (None, [])


def test_when_the_time_is_over_the_checkpoint_begins_without_the_missing_barriers():
    barriers = UnalignedBarriers([A, B], timeout_ms=100)
    barriers.on_barrier(A, barrier(1, 1000), 1010)
    assert barriers.on_time(1099) == []
    assert kinds(barriers.on_time(1100)) == [BeginCheckpoint, UnblockChannels, ExpediteBarriers]
    assert barriers.in_flight == {B: (1,)}
    assert barriers.on_time(1200) == []


def test_a_barrier_that_has_overtaken_begins_before_the_time_is_over():
    barriers = UnalignedBarriers([A, B], timeout_ms=100)
    barriers.on_barrier(A, barrier(1, 1000), 1010)
    decisions = barriers.on_barrier(B, barrier(1, 1000), 1020, overtakes=True)
    assert kinds(decisions) == [BeginCheckpoint, UnblockChannels, CompleteInFlight]
    assert decisions[0].unaligned


def test_a_barrier_behind_records_is_expedited_when_its_time_is_over():
    barriers = UnalignedBarriers([A, B], timeout_ms=100)
    assert barriers.on_announced(barrier(1, 1000), 1010) == []
    assert barriers.deadline_ms == 1100
    assert barriers.on_time(1100) == [ExpediteBarriers(1)]
    assert barriers.deadline_ms is None
    assert barriers.on_announced(barrier(2, 1000), 1110) == [ExpediteBarriers(2)]  # it was slow


def test_a_barrier_that_comes_into_a_queue_after_the_beginning_is_expedited():
    barriers = UnalignedBarriers([A, B], timeout_ms=100)
    barriers.on_barrier(A, barrier(1, 1000), 1200)
    assert barriers.on_announced(barrier(1, 1000), 1210) == [ExpediteBarriers(1)]


def test_a_savepoint_is_aligned_however_long_that_takes():
    barriers = UnalignedBarriers([A, B], timeout_ms=0)
    message = barrier(1, 1000, aligned=True)
    assert barriers.on_announced(message, 2000) == []
    assert barriers.on_barrier(A, message, 2000) == [BlockChannel(A)]
    assert barriers.deadline_ms is None
    assert barriers.on_time(9000) == []
    begin, *_ = barriers.on_barrier(B, message, 9000)
    assert not begin.unaligned


def test_an_abort_lets_all_go_on():
    barriers = UnalignedBarriers([A, B], timeout_ms=100)
    barriers.on_barrier(A, barrier(1, 1000), 1010)
    assert barriers.on_aborted(1) == [UnblockChannels()]
    assert barriers.on_barrier(B, barrier(1, 1000), 1020) == []
    barriers.on_barrier(A, barrier(2, 1000), 1200)
    assert barriers.on_aborted(2) == [DropInFlight(2)]
    assert barriers.in_flight == {}
    assert barriers.on_aborted(7) == []
    assert barriers.on_barrier(A, barrier(7), 1300) == []
    assert barriers.on_barrier(A, barrier(7), 1300, overtakes=True) == []


@pytest.mark.parametrize("begun", [False, True])
def test_later_barrier_abandons_an_earlier_checkpoint(begun):
    barriers = UnalignedBarriers([A, B], timeout_ms=100)
    barriers.on_barrier(A, barrier(1, 1000), 1200 if begun else 1010)
    found = barriers.on_barrier(B, barrier(2, 2000), 2010)
    assert kinds(found) == (
        [DropInFlight, AbandonCheckpoint, BlockChannel]
        if begun
        else [AbandonCheckpoint, UnblockChannels, BlockChannel]
    )
    assert barriers.on_barrier(B, barrier(1, 1000), 2020) == []


def test_a_savepoint_may_follow_while_barriers_of_a_checkpoint_are_missing():
    barriers = UnalignedBarriers([A, B], timeout_ms=0)
    barriers.on_barrier(A, barrier(1), 5)
    assert barriers.on_barrier(A, barrier(2, aligned=True), 6) == [BlockChannel(A)]
    assert barriers.in_flight == {B: (1,)}
    assert barriers.on_barrier(B, barrier(1), 7) == [CompleteInFlight(1)]
    assert kinds(barriers.on_barrier(B, barrier(2, aligned=True), 8)) == [
        BeginCheckpoint,
        UnblockChannels,
        CompleteInFlight,
    ]


class Subtask:
    """A subtask with links to its senders, which does what the core decides. Records are numbers."""

    def __init__(self, channels, timeout_ms, savepoints):
        self.savepoints = savepoints
        self.inputs = Inputs()
        self.links = [
            LocalLink(ChannelId(1, 0, 0, source), Outputs(), self.inputs)
            for source in range(channels)
        ]
        self.core = UnalignedBarriers([(0, source) for source in range(channels)], timeout_ms)
        self.now = 0.0
        self.numbers = 0
        self.sent = [[] for _ in self.links]
        self.before = {}  # checkpoint -> channel -> what was sent before its barrier
        self.processed = [[] for _ in self.links]
        self.begun = {}
        self.in_flight = {}
        self.complete = set()
        self.aborted = set()
        self.overtaking = set()
        self.triggered = {}

    def send(self, source):
        self.numbers += 1
        batch = (self.numbers,)
        self.sent[source].append(batch)
        self.links[source].send(DATA, batch)

    def send_barrier(self, source, *, overtakes):
        """Send the next barrier of a channel."""
        number = 1 + sum(source in each for each in self.before.values())
        self.before.setdefault(number, {})[source] = list(self.sent[source])
        aligned = number in self.savepoints
        message = barrier(number, self.triggered.setdefault(number, self.now), aligned=aligned)
        if overtakes and not aligned:
            self.overtaking.add(number)
            self.links[source].overtake(BARRIER, message)
        else:
            self.links[source].send(BARRIER, message)
            self.decide(self.core.on_announced(message, self.now))

    def take(self, source):
        channel = self.links[source].receiver
        if channel.items and not channel.blocked:
            self.take_from(channel)

    def take_from(self, channel):
        overtakes = channel.is_urgent
        item = channel.take()
        name = channel.id[2:]
        if item.kind == DATA:
            for number in self.core.in_flight.get(name, ()):
                self.in_flight[number][name[1]].append(item.content)
            self.processed[name[1]].append(item.content)
            return
        decisions = self.core.on_barrier(name, item.content, self.now, overtakes=overtakes)
        number = item.content.checkpoint
        found = [each.content for each in channel.overtaken()]
        self.decide(decisions, (number, name[1], found))

    def decide(self, decisions, overtaken=None):
        for decision in decisions:
            if isinstance(decision, BeginCheckpoint):
                self.begun[decision.checkpoint] = [list(each) for each in self.processed]
                self.in_flight[decision.checkpoint] = [[] for _ in self.links]
        if overtaken is not None:
            number, source, found = overtaken
            if number in self.in_flight and number not in self.complete:
                self.in_flight[number][source] += found
        for decision in decisions:
            if isinstance(decision, BlockChannel):
                self.inputs.channels[decision.channel].block()
            elif isinstance(decision, UnblockChannels):
                self.inputs.unblock_all()
            elif isinstance(decision, CompleteInFlight):
                self.complete.add(decision.checkpoint)
            elif isinstance(decision, DropInFlight):
                del self.in_flight[decision.checkpoint]
            elif isinstance(decision, ExpediteBarriers):
                for link in self.links:
                    link.receiver.expedite(
                        lambda item, n=decision.checkpoint: (
                            item.kind == BARRIER and item.content.checkpoint == n
                        )
                    )
        for channel in self.inputs.urgent():
            self.take_from(channel)

    def pass_time(self, milliseconds):
        self.now += milliseconds
        self.decide(self.core.on_time(self.now))

    def abort(self, number):
        self.aborted.add(number)
        self.decide(self.core.on_aborted(number))

    def finish(self):
        """Send the barriers that others have sent, and take all there is, from channels that are not blocked."""
        for source in range(len(self.links)):
            while any(source not in each for each in self.before.values()):
                self.send_barrier(source, overtakes=False)
        while (channel := self.inputs.next()) is not None:
            self.take_from(channel)
            channel.offer()


SOURCES = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), SOURCES),
        st.tuples(st.just("send"), SOURCES),
        st.tuples(st.just("take"), SOURCES),
        st.tuples(st.just("take"), SOURCES),
        st.tuples(st.just("barrier"), SOURCES, st.booleans()),
        st.tuples(st.just("pass_time"), st.sampled_from([10, 60, 200])),
        st.tuples(st.just("abort"), st.integers(1, 3)),
    ),
    max_size=60,
)


@settings(max_examples=examples(600), deadline=None)
@given(
    channels=st.integers(2, 3),
    timeout=st.sampled_from([0, 100, 10_000]),
    savepoints=st.sets(st.integers(1, 3)),
    steps=STEPS,
)
def test_a_complete_checkpoint_has_all_that_was_sent_before_its_barriers_and_each_record_once(
    channels, timeout, savepoints, steps
):
    subtask = Subtask(channels, timeout, savepoints)
    for kind, *arguments in steps:
        if arguments and kind in {"send", "take", "barrier"} and arguments[0] >= channels:
            continue
        if kind == "barrier":
            subtask.send_barrier(arguments[0], overtakes=arguments[1])
        else:
            getattr(subtask, kind)(*arguments)
    subtask.finish()
    for number in subtask.complete:
        for source in range(channels):
            kept = subtask.begun[number][source] + subtask.in_flight[number][source]
            assert kept == subtask.before[number][source]
        if number in savepoints:
            assert not any(subtask.in_flight[number])
    # The driver triggers no checkpoint behind a savepoint that is under way: its barriers would overtake the savepoint's.
    behind_a_savepoint = any(
        each < number for number in subtask.before.keys() - savepoints for each in savepoints
    )
    if not subtask.aborted and not subtask.overtaking and not behind_a_savepoint:
        assert subtask.complete == set(
            subtask.before
        )  # in their turn they do not disturb each other
    # All barriers have come, so no channel is blocked, and nothing is left.
    assert not any(link.receiver.blocked for link in subtask.links)
    assert subtask.processed == subtask.sent
    if subtask.before and not subtask.aborted:
        assert max(subtask.before) in subtask.complete
