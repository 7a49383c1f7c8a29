"""Messages between the consumer and the reader: in order, none twice, not too many."""

from __future__ import annotations

from penstock.connectors.kafka.enumerator import KafkaPartitionSplit
from penstock.connectors.kafka.offsets import KafkaTopicPartition
from penstock.connectors.kafka.partition_buffer import MOST_BYTES, MOST_MESSAGES, PartitionBuffer


class Message:
    def __init__(self, offset, size=1):
        self._offset, self._size = offset, size

    def offset(self):
        return self._offset

    def __len__(self):
        return self._size


def buffer(position=0, stop=None):
    split = KafkaPartitionSplit(KafkaTopicPartition("a", 0), stop)
    return PartitionBuffer(split, position, untouched=True)


def messages(*ends):
    return [Message(offset) for offset in range(*ends)]


def offsets(taken):
    return [each.offset() for each in taken]


def test_messages_leave_in_order_and_in_pieces_of_the_wanted_size():
    found = buffer()
    found.add(messages(0, 3))
    found.add(messages(3, 10))
    found.add(messages(10, 12))
    assert offsets(found.take(4)) == [0, 1, 2]
    assert offsets(found.take(4)) == [3, 4, 5, 6]
    assert offsets(found.take(100)) == [7, 8, 9, 10, 11]
    assert found.take(100) == []
    assert (found.count, found.bytes, found.fetched) == (0, 0, 12)


def test_redelivered_messages_are_dropped():
    found = buffer(5)
    found.add(messages(3, 8))
    found.add(messages(6, 8))
    found.add(messages(7, 9))
    assert offsets(found.take(100)) == [5, 6, 7, 8]


def test_the_end_counts_until_there_is_more():
    found = buffer()
    found.add(messages(0, 3))
    found.on_end(2)  # something was written since
    assert found.end is None
    found.on_end(5)  # with two markers of transactions
    assert found.end == 5
    found.add(messages(5, 6))
    assert found.end is None


def test_a_partition_with_an_end_is_done_when_it_was_read_to_there():
    found = buffer(stop=5)
    assert not found.done
    found.next = 5
    assert found.done
    assert not buffer(10**6).done


def test_it_is_full_by_number_and_by_size():
    found = buffer()
    found.add(messages(0, MOST_MESSAGES))
    assert found.full
    found.take(1)
    assert not found.full
    large = buffer()
    large.add([Message(0, MOST_BYTES)])
    assert large.full
    large.take(10)
    assert not large.full
