"""Queues at the receiving end of a channel, and links between subtasks of one slot."""

from __future__ import annotations

from penstock.runtime.network.channels import (
    BufferOrEvent,
    ChannelId,
    InputChannel,
    Inputs,
    LocalLink,
    Outputs,
)
from penstock.runtime.network.messages import BARRIER, DATA, WATERMARK
from penstock.runtime.records import RowBatch

CHANNEL = ChannelId(vertex=1, subtask=0, gate=0, source=0)


def link(items: int = 8) -> tuple[LocalLink, InputChannel, Outputs, Inputs]:
    outputs, inputs = Outputs(), Inputs()
    made = LocalLink(CHANNEL, outputs, inputs, items)
    return made, made.receiver, outputs, inputs


def contents(items: list[BufferOrEvent]) -> list[object]:
    return [item.content for item in items]


def test_items_arrive_in_order() -> None:
    sender, receiver, _, inputs = link()
    batch = RowBatch([1])
    sender.send(DATA, batch)
    sender.send(WATERMARK, 5)
    assert inputs.next() is receiver
    assert receiver.take().content is batch
    assert receiver.take() == BufferOrEvent(WATERMARK, 5, 0)


def test_a_full_link_closes_the_sender_until_something_was_taken() -> None:
    sender, receiver, outputs, _ = link(items=2)
    sender.send(DATA, "a")
    assert outputs.has_room
    sender.send(DATA, "b")
    assert not outputs.has_room
    sender.send(DATA, "c")
    receiver.take()
    assert not outputs.has_room
    receiver.take()
    assert outputs.has_room


def test_overtaking_message_captures_only_earlier_records() -> None:
    sender, receiver, _, _ = link()
    for each in "ab":
        sender.send(DATA, each)
    sender.send(WATERMARK, 1)
    sender.overtake(BARRIER, 7)
    sender.send(DATA, "after")
    assert receiver.take().content == 7
    assert contents(receiver.overtaken()) == ["a", "b"]
    assert [receiver.take().content for _ in range(4)] == ["a", "b", 1, "after"]
    assert receiver.overtaken() == []


def test_a_second_message_that_overtakes_stays_behind_the_first() -> None:
    sender, receiver, _, _ = link()
    sender.send(DATA, "a")
    sender.overtake(BARRIER, 1)
    sender.send(DATA, "b")
    sender.overtake(BARRIER, 2)
    sender.send(DATA, "c")
    assert receiver.take().content == 1
    assert contents(receiver.overtaken()) == ["a"]
    assert receiver.take().content == 2
    assert contents(receiver.overtaken()) == ["a", "b"]


def test_a_message_that_waits_can_be_expedited() -> None:
    sender, receiver, _, _ = link()
    sender.send(DATA, "a")
    sender.send(BARRIER, 7)
    sender.send(DATA, "b")
    assert not receiver.expedite(lambda item: item.content == 8)
    assert receiver.expedite(lambda item: item.content == 7)
    assert receiver.expedite(lambda item: item.content == 7), "it is there, and stays where it is"
    assert receiver.take().content == 7
    assert contents(receiver.overtaken()) == ["a"]
    assert contents(list(receiver.items)) == ["a", "b"]


def test_a_blocked_channel_is_not_in_line_until_it_is_unblocked() -> None:
    sender, receiver, _, inputs = link()
    receiver.block()
    sender.send(DATA, "a")
    assert inputs.next() is None
    inputs.unblock_all()
    assert inputs.next() is receiver


def test_channels_take_turns() -> None:
    inputs = Inputs()
    links = [
        LocalLink(ChannelId(1, 0, 0, source), Outputs(), inputs, items=8) for source in range(2)
    ]
    for sender in links:
        for each in "ab":
            sender.send(DATA, each)
    turns = []
    while (channel := inputs.next()) is not None:
        turns.append((channel.id.source, channel.take().content))
        channel.offer()
    assert turns == [(0, "a"), (1, "a"), (0, "b"), (1, "b")]


def test_moved_records_come_before_new_input() -> None:
    """After a change of parallelism, another channel may bring the next records of the same keys."""
    inputs = Inputs()
    links = [LocalLink(ChannelId(1, 0, 0, source), Outputs(), inputs) for source in range(3)]
    for sender in links:
        sender.send(DATA, "new")
    links[1].receiver.restore_moved([b"a"])
    links[1].receiver.restore_moved([b"b"])
    links[2].receiver.restore_moved([b"c", b"d"])
    taken: list[object] = []
    while (channel := inputs.next()) is not None:
        item = channel.take()
        taken.append(item.content)
        if item.content == b"a":
            channel.put_back(RowBatch(["the rest of a"]), item)
        channel.offer()
    assert taken[:2] == [b"c", b"d"]
    assert taken[2] == b"a"
    assert isinstance(taken[3], RowBatch)
    assert taken[4:] == [b"b", "new", "new", "new"]


def test_a_neighbour_that_wants_few_records_is_full_with_few_until_some_are_processed() -> None:
    sender, receiver, outputs, _ = link()
    sender.send(DATA, RowBatch([1, 2, 3]))
    assert outputs.has_room
    receiver.fit(4)
    assert (sender.window, sender.most_records) == (4, 1)
    assert outputs.has_room
    sender.send(DATA, RowBatch([4]))
    assert not outputs.has_room
    assert sender.usage() == 1.0
    item = receiver.take()
    receiver.put_back(RowBatch([2, 3]), item)
    assert not outputs.has_room  # it works on them
    receiver.processed(item, 1)
    assert outputs.has_room
    assert sender.usage() == 0.75


def test_restored_records_use_no_capacity_and_free_none() -> None:
    sender, receiver, outputs, _ = link()
    receiver.fit(2)
    sender.send(DATA, RowBatch([1]))
    receiver.restore([b"restored"])
    receiver.restore_moved([b"moved"])
    for _ in range(2):
        item = receiver.take()
        receiver.put_back(RowBatch(["rest"]), item)
        receiver.processed(item, 1)
        receiver.processed(receiver.take(), 1)
    assert outputs.has_room
    sender.send(DATA, RowBatch([2]))
    assert not outputs.has_room


def test_either_end_can_be_attached_later() -> None:
    sender, receiver, _, _ = link(items=1)
    sender.send(DATA, "a")
    outputs, inputs = Outputs(), Inputs()
    sender.attach_outputs(outputs)
    receiver.attach(inputs)
    assert not outputs.has_room
    assert inputs.next() is receiver
    receiver.take()
    assert outputs.has_room


def test_who_is_attached_later_hears_of_barriers_that_wait_and_that_have_overtaken() -> None:
    sender, receiver, _, _ = link()
    sender.send(DATA, "a")
    sender.send(BARRIER, 1)
    sender.overtake(BARRIER, 2)
    inputs = Inputs()
    inputs.announces = True
    receiver.attach(inputs)
    assert contents(inputs.announced) == [2, 1]
    assert [each.take().content for each in inputs.urgent()] == [2]
