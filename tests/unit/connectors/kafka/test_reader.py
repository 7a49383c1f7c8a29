"""The reader of a Kafka source, over a consumer that is a dictionary: messages, starting offsets and positions."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import confluent_kafka
import pytest

from penstock.common.serialization import DeserializationSchema
from penstock.connectors.base.source import NonBlockingReadLimits, SourceSplit
from penstock.connectors.kafka import reader as reader_module
from penstock.connectors.kafka.enumerator import KafkaPartitionSplit
from penstock.connectors.kafka.offsets import KafkaTopicPartition
from penstock.connectors.kafka.reader import KafkaReader
from penstock.connectors.kafka.source_options import source_options
from penstock.errors import PenstockError
from penstock.runtime.operators.runtime_context import StreamingRuntimeContext

END = confluent_kafka.KafkaError._PARTITION_EOF
OUT_OF_RANGE = confluent_kafka.KafkaError._AUTO_OFFSET_RESET


class Message:
    """A message, or an event instead of one."""

    def __init__(self, topic, partition, offset, value=b"", error=None):
        self._place, self._value, self._error = (topic, partition, offset), value, error

    def topic(self):
        return self._place[0]

    def partition(self):
        return self._place[1]

    def offset(self):
        return self._place[2]

    def value(self):
        return self._value

    def error(self):
        return None if self._error is None else confluent_kafka.KafkaError(self._error)

    def timestamp(self):
        return 1, 1_000_000 + self._place[2]

    def key(self):
        return None

    def headers(self):
        return None

    def __len__(self):
        return len(self._value)


class Broker:
    """Partitions of one topic: the values by offset, as far as they are kept. `at_once` bounds what a consumer gets at a time."""

    def __init__(self, **partitions):
        self.logs = {int(name[1:]): dict(log) for name, log in partitions.items()}
        self.consumers = []
        self.at_once = 1000

    def library(self):
        return SimpleNamespace(
            Consumer=self.connect,
            Message=Message,
            TopicPartition=confluent_kafka.TopicPartition,
            OFFSET_BEGINNING=confluent_kafka.OFFSET_BEGINNING,
            OFFSET_END=confluent_kafka.OFFSET_END,
            KafkaException=confluent_kafka.KafkaException,
        )

    def connect(self, configuration, logger):
        self.consumers.append(Consumer(self))
        return self.consumers[-1]


class Consumer:
    def __init__(self, broker):
        self.broker = broker
        self.places = {}
        self.paused = set()
        self.ended = set()  # partitions whose end was reported
        self.closed = False

    def incremental_assign(self, partitions):
        for each in partitions:
            log = self.broker.logs[each.partition]
            ends = {
                confluent_kafka.OFFSET_BEGINNING: min(log, default=0),
                confluent_kafka.OFFSET_END: max(log, default=-1) + 1,
            }
            self.places[each.partition] = ends.get(each.offset, each.offset)
            self.ended.discard(each.partition)

    def incremental_unassign(self, partitions):
        for each in partitions:
            del self.places[each.partition]

    def pause(self, partitions):
        self.paused |= {each.partition for each in partitions}

    def resume(self, partitions):
        self.paused -= {each.partition for each in partitions}

    def poll(self, seconds):
        return next(iter(self.consume(1, seconds)), None)

    def consume(self, most, seconds):
        found = []
        for number in sorted(set(self.places) - self.paused):
            found += self._of(number, min(most, self.broker.at_once) - len(found))
        return found

    def _of(self, number, most):
        log, place = self.broker.logs[number], self.places[number]
        if log and place < min(log):
            return [Message("t", number, place, error=OUT_OF_RANGE)]
        offsets = [each for each in sorted(log) if each >= place][: max(most, 0)]
        if offsets:
            self.places[number] = offsets[-1] + 1
            self.ended.discard(number)
        # What is in the log with the value None is a marker of a transaction.
        found = [Message("t", number, each, log[each]) for each in offsets if log[each] is not None]
        end = max(log, default=-1) + 1
        if self.places[number] >= end and number not in self.ended:
            self.ended.add(number)
            found.append(Message("t", number, end, error=END))
        return found

    def get_watermark_offsets(self, partition, cached):
        log = self.broker.logs[partition.partition]
        return min(log, default=0), max(log, default=-1) + 1

    def close(self):
        self.closed = True


def numbered(*ends):
    return {offset: str(offset).encode() for offset in range(*ends)}


class Numbers(DeserializationSchema):
    """Texts of numbers; `skip` is left out."""

    def deserialize(self, message):
        return None if message == b"skip" else int(message)


@pytest.fixture(autouse=True)
def _time(monkeypatch):
    ticks = itertools.count(1)  # a clock that is read later is later, by a second
    monkeypatch.setattr(reader_module, "time", SimpleNamespace(monotonic=lambda: next(ticks)))


def open_reader(monkeypatch, broker, **properties):
    monkeypatch.setattr(reader_module, "confluent_kafka", lambda _: broker.library())
    options = source_options({"bootstrap.servers": "a:1", **properties})
    reader = KafkaReader(options, Numbers())
    reader.open(StreamingRuntimeContext(task_name="t", subtask=0, parallelism=1, max_parallelism=1))
    return reader


def split(number=0, start=0, stop=None, *, from_earliest=False):
    payload = KafkaPartitionSplit(KafkaTopicPartition("t", number), stop, from_earliest)
    return SourceSplit(f"t-{number}", payload, start, bounded=stop is not None)


def look(reader, part, position, size=1024):
    """Read a split once, as far as there is something; return the batches."""
    found = []
    for batch in reader.read(part, position, NonBlockingReadLimits(size)):
        found.append(batch)
        if not batch.records and not batch.malformed:
            break
    return found


def records(batches):
    return [record for batch in batches for record in batch.records]


def test_the_position_after_a_batch_is_the_offset_after_its_last_message(monkeypatch):
    reader = open_reader(monkeypatch, Broker(p0=numbered(5)))
    (batch,) = look(reader, split(), 0)
    assert batch.records == [0, 1, 2, 3, 4]
    assert batch.position == 5
    assert batch.timestamps == [1_000_000 + offset for offset in range(5)]


def test_reading_reuses_the_consumer_at_the_reached_position(monkeypatch):
    broker = Broker(p0=numbered(3))
    reader = open_reader(monkeypatch, broker)
    position = look(reader, split(), 0)[-1].position
    broker.logs[0].update(numbered(3, 6))
    assert records(look(reader, split(), position)) == [3, 4, 5]
    assert len(broker.consumers) == 1


@pytest.mark.parametrize("position", [0, 2])
def test_an_earlier_position_is_read_again(monkeypatch, position):
    broker = Broker(p0=numbered(5))
    reader = open_reader(monkeypatch, broker)
    look(reader, split(), 0)
    assert records(look(reader, split(), position)) == list(range(position, 5))
    assert [each.closed for each in broker.consumers] == [True, False]


def test_small_batches_have_positions_of_their_own(monkeypatch):
    reader = open_reader(monkeypatch, Broker(p0=numbered(5)))
    batches = look(reader, split(), 0, size=2)
    assert [(each.records, each.position) for each in batches] == [
        ([0, 1], 2),
        ([2, 3], 4),
        ([4], 5),
    ]


def test_messages_from_the_stopping_offset_on_are_not_read(monkeypatch):
    broker = Broker(p0=numbered(10))
    reader = open_reader(monkeypatch, broker)
    batches = list(reader.read(split(stop=7), 0, NonBlockingReadLimits()))
    assert records(batches) == list(range(7))
    assert batches[-1].position == 7
    assert batches[-1].timestamps == [1_000_000 + offset for offset in range(7)]
    assert broker.consumers[0].places == {}


def test_a_partition_that_ends_with_markers_of_transactions_is_read_to_its_end(monkeypatch):
    reader = open_reader(monkeypatch, Broker(p0={0: b"0", 1: b"1", 2: None}))
    batches = look(reader, split(), 0)
    assert records(batches) == [0, 1]
    assert batches[-1].position == 3


def test_markers_beyond_the_stopping_offset_do_not_move_the_position_past_it(monkeypatch):
    log = {0: b"0", 1: None, 2: None, 3: None}
    reader = open_reader(monkeypatch, Broker(p0=log))
    batches = list(reader.read(split(stop=2), 0, NonBlockingReadLimits()))
    assert records(batches) == [0]
    assert batches[-1].position == 2


def test_timestamps_stay_with_their_records_when_a_message_is_left_out(monkeypatch):
    reader = open_reader(monkeypatch, Broker(p0={0: b"skip", 1: b"1", 2: b"2"}))
    (batch,) = look(reader, split(), 0)
    assert batch.records == [1, 2]
    assert batch.timestamps == [1_000_001, 1_000_002]
    assert batch.position == 3


def test_a_malformed_message_is_named_and_has_the_position_after_it(monkeypatch):
    reader = open_reader(monkeypatch, Broker(p0={0: b"0", 1: b"one", 2: b"2"}))
    (batch,) = look(reader, split(), 0)
    assert (batch.records, batch.position) == ([0, 2], 3)
    (bad,) = batch.malformed
    assert bad.origin == {"topic": "t", "partition": 0, "offset": 1}
    assert bad.position == 2


def test_each_partition_gets_its_own_messages(monkeypatch):
    broker = Broker(p0=numbered(4), p1=numbered(100, 104))
    reader = open_reader(monkeypatch, broker)
    parts = [split(0), split(1, start=100)]
    positions = [0, 100]
    found = [[], []]
    for _ in range(3):
        for number, part in enumerate(parts):
            for batch in look(reader, part, positions[number]):
                found[number] += batch.records
                positions[number] = batch.position
    assert found == [list(range(4)), list(range(100, 104))]


def test_deleted_offset_is_an_error_with_the_available_offsets(monkeypatch):
    reader = open_reader(monkeypatch, Broker(p0=numbered(5, 8)))
    with pytest.raises(PenstockError, match="does not have offset 2") as caught:
        look(reader, split(start=2), 2)
    assert "offsets 5 to 8" in caught.value.detail


def test_deleted_offset_is_reset_to_earliest(monkeypatch):
    reader = open_reader(
        monkeypatch, Broker(p0=numbered(5, 8)), **{"auto.offset.reset": "earliest"}
    )
    batches = look(reader, split(start=2), 2) or look(reader, split(start=2), 2)
    assert records(batches) == [5, 6, 7]


def test_partition_read_from_earliest_starts_at_the_first_remaining_message(monkeypatch):
    reader = open_reader(monkeypatch, Broker(p0=numbered(5, 8)))
    part = split(start=2, from_earliest=True)
    assert records(look(reader, part, 2) or look(reader, part, 2)) == [5, 6, 7]


def test_a_partition_that_was_read_in_part_is_not_continued_after_a_gap(monkeypatch):
    reader = open_reader(monkeypatch, Broker(p0=numbered(5, 8)))
    with pytest.raises(PenstockError, match="does not have offset 3"):
        look(reader, split(start=2, from_earliest=True), 3)


def test_unread_partition_is_paused_when_its_buffer_is_full(monkeypatch):
    monkeypatch.setattr("penstock.connectors.kafka.partition_buffer.MOST_MESSAGES", 10)
    broker = Broker(p0=numbered(100), p1=numbered(100))
    broker.at_once = 6
    reader = open_reader(monkeypatch, broker)
    idle, busy = split(0), split(1)
    reader.read(
        idle, 0, NonBlockingReadLimits()
    ).__next__()  # it is assigned, and left with what was fetched
    consumer = broker.consumers[0]
    position = 0
    for _ in range(40):
        for batch in look(reader, busy, position):
            position = batch.position
    assert consumer.paused == {0}
    assert position == 100
    rest = look(reader, idle, 6)
    assert records(rest) == list(range(6, 100))
    assert consumer.paused == set()


def test_a_message_that_follows_the_end_is_read(monkeypatch):
    broker = Broker(p0={})
    reader = open_reader(monkeypatch, broker)
    assert look(reader, split(), 0) == []
    broker.logs[0].update(numbered(2))
    assert records(look(reader, split(), 0)) == [0, 1]
