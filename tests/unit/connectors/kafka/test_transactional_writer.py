"""The writer of transactions and its pool of producers, over coordinators that are a dictionary."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.base.sink import CheckpointContext, WriterContext
from penstock.connectors.kafka import pool as pool_module
from penstock.connectors.kafka import writer as writer_module
from penstock.connectors.kafka.errors import KafkaSinkError
from penstock.connectors.kafka.serialization import KafkaRecordSerializationSchema
from penstock.connectors.kafka.transactions import FENCED_TIMEOUT_MS
from penstock.connectors.kafka.writer import TransactionalWriter
from tests.builders.waiting import wait_until
from tests.unit.connectors.kafka.coordinators import (
    ABORTED,
    COMMITTED,
    ONGOING,
    Coordinators,
    Producer,
    producers,
)


class Writing:
    """A writer, and what its producers do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.coordinators = Coordinators()
        self.made: list[Producer] = []
        monkeypatch.setattr(pool_module, "KafkaProducer", producers(self.coordinators, self.made))
        schema = KafkaRecordSerializationSchema.builder().set_topic("t")
        schema.set_value_serialization_schema(SimpleStringSchema())
        self.writer = TransactionalWriter(
            {"bootstrap.servers": "broker:9092"},
            schema.build(),
            WriterContext("job", "sink", 0, 1, ""),
            self.coordinators,
            "orders",
            60_000,
        )

    def write(self, checkpoint_id, *lines, attempt="1"):
        self.writer.begin(CheckpointContext(checkpoint_id, f"{attempt}-{checkpoint_id}"))
        self.writer.write(list(lines), None, 0)

    def pre_commit(self, checkpoint_id, *lines, attempt="1"):
        self.write(checkpoint_id, *lines, attempt=attempt)
        (committable,) = self.writer.prepare_commit()
        return committable

    def commit(self, committable):
        """Commit as the driver does."""
        self.coordinators.commit(
            committable.transactional_id, committable.producer_id, committable.producer_epoch
        )

    def settle(self, checkpoint_id):
        """Say that an epoch is committed, and wait until the pool has done what follows from it."""
        self.writer.on_committed(checkpoint_id)
        self.wait_for_pool()

    def wait_for_pool(self):
        wait_until(lambda: not self.writer._pool._coming)

    def records(self, committable):
        return self.coordinators.written.get(committable.started_ms, [])

    def idle(self):
        return [each.transactional_id for each in self.writer._pool._idle]


@pytest.fixture
def writing(monkeypatch) -> Iterator[Writing]:
    found = Writing(monkeypatch)
    yield found
    found.writer.close()


def test_committable_has_all_records_of_the_checkpoint(writing):
    committable = writing.pre_commit(1, "a", "b")
    assert writing.records(committable) == [b"a", b"b"]
    assert writing.coordinators.state(committable) is ONGOING


def test_each_epoch_is_a_transaction_of_its_own(writing):
    first, second = writing.pre_commit(1, "a"), writing.pre_commit(2, "b")
    assert first.transactional_id != second.transactional_id
    assert (writing.records(first), writing.records(second)) == ([b"a"], [b"b"])


def test_a_producer_is_used_again_after_the_commit_of_its_transaction(writing):
    for checkpoint_id in range(1, 10):
        writing.commit(writing.pre_commit(checkpoint_id, "a"))
        writing.settle(checkpoint_id)
    assert len(writing.made) <= 3


def test_a_commit_does_not_touch_the_transaction_of_a_later_epoch(writing):
    first, second = writing.pre_commit(1, "a"), writing.pre_commit(2, "b")
    writing.commit(first)
    writing.settle(1)
    assert first.transactional_id in writing.idle()
    assert second.transactional_id not in writing.idle()
    assert writing.coordinators.state(second) is ONGOING


def test_a_transaction_whose_attempt_does_not_count_is_aborted(writing):
    abandoned = writing.pre_commit(1, "a")
    writing.settle(1)  # another attempt at the epoch was committed
    assert writing.coordinators.state(abandoned) is ABORTED
    assert abandoned.transactional_id in writing.idle()


def test_a_producer_that_was_fenced_while_it_waited_is_not_used_again(writing):
    committable = writing.pre_commit(1, "a")
    writing.coordinators.initialize(committable.transactional_id, FENCED_TIMEOUT_MS)
    writing.settle(1)
    assert committable.transactional_id not in writing.idle()


def test_a_producer_whose_transaction_was_lost_is_not_used_again(writing):
    committable = writing.pre_commit(1, "a")
    writing.coordinators.end(committable.transactional_id, ABORTED)
    writing.settle(1)
    assert committable.transactional_id not in writing.idle()


def test_a_producer_whose_id_has_a_later_transaction_is_not_used_again(writing):
    committable = writing.pre_commit(1, "a")
    writing.commit(committable)
    writing.coordinators.write(committable.transactional_id, [b"of another writer"])
    writing.settle(1)
    assert committable.transactional_id not in writing.idle()
    later = writing.coordinators.known[committable.transactional_id]
    assert later.state is ONGOING


def test_a_new_attempt_leaves_idle_producers_that_were_fenced(writing):
    writing.commit(writing.pre_commit(1, "a"))
    writing.settle(1)
    fenced = writing.idle()
    assert fenced
    for name in fenced:
        writing.coordinators.initialize(name, FENCED_TIMEOUT_MS)
    committable = writing.pre_commit(2, "b", attempt="2")
    assert committable.transactional_id not in fenced
    assert all(each.gone for each in writing.made if each.name in fenced)


def test_the_same_attempt_keeps_its_idle_producers(writing):
    writing.commit(writing.pre_commit(1, "a"))
    writing.settle(1)
    idle = writing.idle()
    assert writing.pre_commit(2, "b").transactional_id in idle


def test_a_pre_commit_of_a_transaction_that_timed_out_is_an_error(writing):
    writing.write(1, "a")
    current = writing.writer._current
    current.producer.flush()
    writing.coordinators.end(current.transactional_id, ABORTED)
    with pytest.raises(KafkaSinkError, match="ended before its checkpoint"):
        writing.writer.prepare_commit()


def test_a_pre_commit_of_a_writer_that_was_fenced_is_an_error(writing):
    writing.write(1, "a")
    name = writing.writer._current.transactional_id
    writing.coordinators.initialize(name, FENCED_TIMEOUT_MS)
    with pytest.raises(KafkaSinkError, match="ended before its checkpoint"):
        writing.writer.prepare_commit()


def test_close_aborts_the_current_transaction_and_keeps_committables(writing):
    handed_over = writing.pre_commit(1, "a")
    writing.write(2, "b")
    current = writing.writer._current
    current.producer.flush()
    writing.writer.close()
    assert writing.coordinators.state(handed_over) is ONGOING
    assert writing.coordinators.known[current.transactional_id].state is ABORTED
    assert all(each.gone for each in writing.made)


def test_a_producer_of_an_epoch_that_was_committed_tells_its_client_so(writing):
    committable = writing.pre_commit(1, "a")
    writing.commit(committable)
    writing.settle(1)
    (producer,) = [each for each in writing.made if each.name == committable.transactional_id]
    assert not producer.open
    assert writing.coordinators.state(committable) is COMMITTED


class Plain:
    """A producer without transactions."""

    def __init__(self, *_):
        self.sent, self.arrived = [], []
        self.producer = self

    def partitions_of(self, topic):
        return 1

    def send(self, topic, values, *columns):
        self.sent += values

    def flush(self):
        self.arrived += self.sent
        self.sent = []

    def poll(self):
        pass

    def let_go(self):
        pass


@pytest.mark.parametrize("flushes", [True, False])
def test_a_checkpoint_waits_for_the_brokers_only_where_nothing_may_be_lost(monkeypatch, flushes):
    monkeypatch.setattr(writer_module, "KafkaProducer", Plain)
    schema = KafkaRecordSerializationSchema.builder().set_topic("t")
    schema.set_value_serialization_schema(SimpleStringSchema())
    context = WriterContext("job", "sink", 0, 1, "")
    writer = writer_module.KafkaWriter({}, schema.build(), context, flushes=flushes)
    writer.begin(CheckpointContext(1, "1-1"))
    writer.write(["a"], None, 0)
    assert writer.prepare_commit() == []
    assert writer._producer.arrived == ([b"a"] if flushes else [])
    writer.close()  # between two epochs: nothing has failed
    assert writer._producer.arrived == [b"a"]
