"""Transactions that outlive their writers: committed by others, twice, never, too late."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from penstock.connectors.base.sink import (
    CheckpointContext,
    CommitRequest,
    CommitterContext,
    WriterContext,
)
from penstock.connectors.kafka.committable import KafkaCommittable, operator_prefix
from penstock.connectors.kafka.errors import KafkaDataLossError, KafkaSinkError
from penstock.connectors.kafka.transactions import Transactions, TransactionState
from tests.builders.waiting import wait_until
from tests.connectors.kafka.sink_jobs import Watcher, sink

OPERATOR = "sink"


@pytest.fixture
def topic(kafka, request):
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)[:150]
    return kafka.create_topic(name, 2)


@pytest.fixture
def watcher(kafka, topic):
    return Watcher(kafka.bootstrap, topic)


@pytest.fixture
def transactions(kafka):
    found = Transactions({"bootstrap.servers": kafka.bootstrap})
    yield found
    found.close()


class Steps:
    """A sink, step by step: what tasks and the driver would do."""

    def __init__(self, kafka, topic, properties=None):
        # Keys in partitions of their own: one that is open does not hide the other.
        self.sink = sink(
            kafka.bootstrap,
            topic,
            prefix=topic,
            properties=properties,
            set_partitioner=lambda line, key, count: ord(line[0]) % count,
        )
        self.ids = operator_prefix(topic, "job", OPERATOR)
        self.closing = []

    def writer(self, subtask=0):
        context = WriterContext("job", OPERATOR, subtask, 2, "")
        writer = self.sink.create_writer(context)
        self.closing.append(writer)
        return writer

    def committer(self, *, writers_rest=False):
        committer = self.sink.create_committer()
        committer.open(CommitterContext("job", OPERATOR, 1000, writers_rest))
        self.closing.append(committer)
        return committer

    @staticmethod
    def write(writer, checkpoint_id, *lines, attempt="1"):
        writer.begin(CheckpointContext(checkpoint_id, f"{attempt}-{checkpoint_id}"))
        writer.write(list(lines), None, 0)

    def pre_commit(self, writer, checkpoint_id, *lines, attempt="1"):
        self.write(writer, checkpoint_id, *lines, attempt=attempt)
        return CommitRequest(checkpoint_id, writer.prepare_commit())

    def close(self):
        for each in self.closing:
            each.close()


@pytest.fixture
def steps(kafka, topic):
    found = Steps(kafka, topic)
    yield found
    found.close()


def seen(watcher):
    return watcher.lines().get("a", [])


@pytest.mark.ci
def test_nothing_is_visible_before_the_commit_and_everything_is_after_it(steps, watcher):
    writer, committer = steps.writer(), steps.committer()
    request = steps.pre_commit(writer, 1, "a:0", "a:1")
    other = steps.pre_commit(steps.writer(1), 1, "b:0")
    committer.commit(other)
    watcher.wait_until(lambda each: "b" in each.lines())
    assert seen(watcher) == []
    committer.commit(request)
    assert watcher.finish() == {"a": [0, 1], "b": [0]}


def test_closed_writer_leaves_committables_to_the_committer(steps, watcher):
    writer = steps.writer()
    request = steps.pre_commit(writer, 1, "a:0")
    steps.write(writer, 2, "a:1")  # and this epoch never ends
    writer.close()
    steps.committer().commit(request)
    assert watcher.finish() == {"a": [0]}


@pytest.mark.ci
def test_repeated_commit_does_not_commit_the_next_transaction(steps, watcher, transactions):
    writer, committer = steps.writer(), steps.committer()
    requests = [steps.pre_commit(writer, 1, "a:0")]
    committer.commit(requests[0])
    writer.on_committed(1)
    # Until a producer is used for the second time: under the same id, producer and epoch.
    checkpoint_id = 2
    used = {each.transactional_id for each in requests[0].committables}
    while True:
        steps.write(writer, checkpoint_id, f"a:{checkpoint_id - 1}")
        current = writer._current
        if current.transactional_id in used:
            break
        request = CommitRequest(checkpoint_id, writer.prepare_commit())
        committer.commit(request)
        writer.on_committed(checkpoint_id)
        used |= {each.transactional_id for each in request.committables}
        requests.append(request)
        wait_for_idle(writer)
        checkpoint_id += 1
    current.producer.flush()
    again = steps.committer()
    for request in requests:
        again.commit(request)
    found = transactions.describe([current.transactional_id])[current.transactional_id]
    assert found.state is TransactionState.ONGOING
    writer.close()
    assert watcher.finish() == {"a": list(range(len(requests)))}


def wait_for_idle(writer):
    """Wait until the pool has taken back its producers."""
    wait_until(lambda: not writer._pool._coming, seconds=120)


def test_producers_are_used_again(steps, watcher, transactions):
    writer, committer = steps.writer(), steps.committer()
    for checkpoint_id in range(1, 9):
        committer.commit(steps.pre_commit(writer, checkpoint_id, f"a:{checkpoint_id - 1}"))
        writer.on_committed(checkpoint_id)
        wait_for_idle(writer)
    assert watcher.finish() == {"a": list(range(8))}
    assert len(transactions.list_ids(steps.ids)) <= 3


def test_committables_of_an_aborted_checkpoint_come_with_the_next_one(steps, watcher):
    writer, committer = steps.writer(), steps.committer()
    carried = steps.pre_commit(writer, 1, "a:0")  # and checkpoint 1 comes to nothing
    request = steps.pre_commit(writer, 2, "a:1")
    committables = [*carried.committables, *request.committables]
    committer.commit(CommitRequest(2, committables))
    writer.on_committed(2)
    committer.commit(steps.pre_commit(writer, 3, "a:2"))
    assert watcher.finish() == {"a": [0, 1, 2]}


@pytest.mark.ci
def test_discarded_attempt_is_aborted_when_its_writer_continues(steps, watcher):
    writer, other, committer = steps.writer(), steps.writer(), steps.committer()
    steps.pre_commit(writer, 1, "a:0", attempt="first")
    committer.commit(steps.pre_commit(other, 1, "a:0", attempt="second"))
    writer.on_committed(1)
    committer.commit(steps.pre_commit(writer, 2, "a:1", attempt="third"))
    wait_for_idle(writer)
    assert watcher.finish() == {"a": [0, 1]}


@pytest.mark.parametrize("writers_rest", [True, False])
def test_strays_are_aborted_only_while_no_writer_is_at_work(steps, transactions, writers_rest):
    stray, writer = steps.writer(), steps.writer()
    committer = steps.committer(writers_rest=writers_rest)
    committer.commit(steps.pre_commit(writer, 1, "a:0"))
    (left,) = steps.pre_commit(stray, 2, "a:1").committables
    committer._next_look = 0  # it looks every few seconds
    committer.commit(steps.pre_commit(writer, 2, "a:1"))
    state = transactions.describe([left.transactional_id])[left.transactional_id].state
    expected = TransactionState.COMPLETE_ABORT if writers_rest else TransactionState.ONGOING
    assert state is expected


@pytest.mark.ci
def test_open_transactions_of_earlier_attempts_are_aborted_unless_in_a_checkpoint(
    steps, watcher, transactions
):
    dead, waiting = steps.writer(0), steps.writer(1)
    steps.write(dead, 2, "a:7")
    dead._current.producer.flush()
    dead._current.producer.let_go()  # as a kill would
    dead._current = None
    request = steps.pre_commit(waiting, 1, "b:0")
    committer = steps.committer()
    committer.clean_up([request], "job")
    (named,) = request.committables
    found = transactions.describe(transactions.list_ids(steps.ids))
    open_ones = [each for each in found.values() if each.state is TransactionState.ONGOING]
    assert [each.transactional_id for each in open_ones] == [named.transactional_id]
    committer.commit(request)
    assert watcher.finish() == {"b": [0]}


def test_ids_that_were_fenced_for_good_are_not_fenced_again(steps, transactions):
    writer = steps.writer()
    steps.pre_commit(writer, 1, "a:0")
    wait_for_idle(writer)
    committer = steps.committer()
    committer.clean_up([], "job")
    committer.clean_up([], "job")
    before = transactions.describe(transactions.list_ids(steps.ids))
    committer.clean_up([], "job")
    after = transactions.describe(transactions.list_ids(steps.ids))
    assert before
    assert after == before


@pytest.mark.ci
def test_a_writer_of_an_earlier_attempt_is_fenced(steps, watcher):
    zombie = steps.writer()
    steps.write(zombie, 2, "a:0")
    zombie._current.producer.flush()
    steps.committer().clean_up([], "job")
    fresh = steps.writer()
    steps.committer().commit(steps.pre_commit(fresh, 2, "a:1", attempt="2"))
    with pytest.raises(KafkaSinkError, match="has taken over"):
        go_on(zombie)
    assert watcher.finish() == {"a": [1]}


def go_on(zombie):
    zombie.write(["a:9"], None, 0)
    zombie.prepare_commit()


def test_a_writer_of_an_earlier_attempt_cannot_begin_either(steps, watcher):
    zombie = steps.writer()
    steps.pre_commit(zombie, 1, "a:0")
    wait_for_idle(zombie)
    steps.committer().clean_up([], "job")
    with pytest.raises(KafkaSinkError, match="has taken over"):
        steps.pre_commit(zombie, 2, "a:9")
    assert watcher.finish() == {}


def test_writer_drops_fenced_producers_after_a_restart(steps, watcher):
    writer, committer = steps.writer(), steps.committer()
    steps.pre_commit(writer, 1, "a:0", attempt="first")
    wait_for_idle(writer)
    committer.clean_up([], "job")  # the epoch has failed, somewhere else
    writer.on_committed(0)
    committer.commit(steps.pre_commit(writer, 1, "a:0", attempt="second"))
    assert watcher.finish() == {"a": [0]}


@pytest.mark.ci
def test_only_subtasks_that_failed_are_abandoned(steps, watcher):
    failed, healthy = steps.writer(0), steps.writer(1)
    steps.write(failed, 2, "a:7")
    failed._current.producer.flush()
    steps.write(healthy, 2, "b:0")
    committer = steps.committer()
    committer.abandon({0}, "job")
    committer.commit(CommitRequest(2, healthy.prepare_commit()))
    again = steps.writer(0)
    committer.commit(steps.pre_commit(again, 2, "a:0", attempt="2"))
    assert watcher.finish() == {"a": [0], "b": [0]}


@pytest.mark.ci
def test_a_transaction_that_was_aborted_is_reported_as_a_loss(steps, kafka, topic, transactions):
    request = steps.pre_commit(steps.writer(), 1, "a:0")
    (wanted,) = request.committables
    # As its timeout would do: the coordinator aborts it and gives the id another epoch.
    transactions.initialize(wanted.transactional_id, 60_000)
    committer = steps.committer()
    for _ in range(2):
        with pytest.raises(KafkaDataLossError) as caught:
            committer.commit(request)
        assert wanted.transactional_id in str(caught.value)
        assert kafka.bootstrap in str(caught.value)
        committer.clean_up([request], "job")  # does not make the loss unseen
    lenient = sink(kafka.bootstrap, topic, prefix=topic)
    lenient._ignores_losses = True
    other = lenient.create_committer()
    other.open(CommitterContext("job", OPERATOR, 1000))
    other.commit(request)
    other.close()


def test_a_transaction_of_another_cluster_is_reported_as_a_loss(steps):
    unknown = KafkaCommittable("never-heard-of-0-ab-0", 1, 0, 1000, 60_000, "elsewhere:9092")
    with pytest.raises(KafkaDataLossError, match="unknown to the brokers"):
        steps.committer().commit(CommitRequest(1, [unknown]))


def test_a_timeout_that_the_brokers_do_not_allow_is_refused_at_the_start(kafka, topic):
    steps = Steps(kafka, topic, {"transaction.timeout.ms": "3600000"})
    with pytest.raises(KafkaSinkError, match=r"transaction\.max\.timeout\.ms"):
        steps.committer().clean_up([], "job")
    steps.close()


@pytest.mark.ci
def test_transactions_of_others_are_left_alone(steps, kafka, topic, transactions):
    foreign = f"{topic}-foreign"
    other = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": foreign})
    other.init_transactions()
    other.begin_transaction()
    other.produce(topic, b"c:0")
    other.flush()
    steps.committer().clean_up([], "job")
    assert transactions.describe([foreign])[foreign].state is TransactionState.ONGOING
    other.commit_transaction()
