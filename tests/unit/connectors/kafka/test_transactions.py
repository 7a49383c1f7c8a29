"""Requests about transactions of Kafka, over a client that answers from a list."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import kafka.errors
import pytest

from penstock.connectors.base import retrying
from penstock.connectors.kafka import transactions as transactions_module
from penstock.connectors.kafka.errors import KafkaConnectionError, KafkaSinkError
from penstock.connectors.kafka.transactions import Transactions, TransactionState

CONCURRENT, NOT_FOUND, NOT_COORDINATOR, INVALID_EPOCH, DENIED = 51, 105, 16, 47, 53


class Client:
    """Two brokers. Each request is noted, and gets the next answer: a code of an error, or a response."""

    def __init__(self, answers):
        self.answers = answers
        self.requests = []
        self.nodes = []
        self.closed = False
        self._manager = self
        self.cluster = SimpleNamespace(
            brokers=lambda: [SimpleNamespace(node_id=number) for number in (1, 2)]
        )

    async def _find_coordinator_ids(self, names, key_type):
        return {name: 1 + index % 2 for index, name in enumerate(names)}

    async def send(self, request, node_id):
        self.requests.append(request)
        self.nodes.append(node_id)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return SimpleNamespace(error_code=answer)
        return SimpleNamespace(error_code=0, transaction_states=answer)

    def run(self, request, client):
        return asyncio.run(request(client))

    def close(self):
        self.closed = True


class Asking:
    """Transactions whose clients share the answers, and whose pauses take no time."""

    def __init__(self, monkeypatch):
        self.answers, self.clients, self.pauses = [], [], []
        clock = SimpleNamespace(monotonic=lambda: sum(self.pauses), sleep=self.pauses.append)
        monkeypatch.setattr(transactions_module, "time", clock)
        monkeypatch.setattr(retrying, "time", clock)
        self.transactions = Transactions({"bootstrap.servers": "a:1"}, timeout_s=10)
        monkeypatch.setattr(self.transactions, "_check_login", lambda: None)
        monkeypatch.setattr(self.transactions, "_connected", self._connected)

    def _connected(self):
        if self.transactions._client is None:
            self.clients.append(Client(self.answers))
            self.transactions._client = self.clients[-1]
        return self.transactions._client

    @property
    def requests(self):
        return [request for client in self.clients for request in client.requests]


@pytest.fixture
def asking(monkeypatch):
    return Asking(monkeypatch)


def state(name, state="Ongoing", error_code=0):
    return SimpleNamespace(
        transactional_id=name,
        transaction_state=state,
        producer_id=7,
        producer_epoch=3,
        transaction_start_time_ms=1000,
        transaction_timeout_ms=60_000,
        error_code=error_code,
    )


def test_ids_of_all_brokers_that_begin_with_the_prefix_are_listed(asking):
    asking.answers += [[state("a-1"), state("b-1")], [state("a-2"), state("a-1")]]
    assert asking.transactions.list_ids("a-") == ["a-1", "a-2"]
    assert asking.clients[0].nodes == [1, 2]


def test_transactions_that_the_cluster_does_not_know_are_left_out(asking):
    asking.answers += [[state("a")], [state("b", error_code=NOT_FOUND)]]
    found = asking.transactions.describe(["b", "a"])
    assert list(found) == ["a"]
    assert found["a"].state is TransactionState.ONGOING


def test_no_request_is_sent_for_no_ids(asking):
    assert asking.transactions.describe([]) == {}
    assert asking.clients == []


def test_a_commit_is_one_of_a_version_that_leaves_the_epoch_as_it_is(asking):
    # From version 5 on the coordinator would give the producer another epoch.
    asking.answers.append(0)
    asking.transactions.commit("a", 7, 3)
    (request,) = asking.requests
    assert request.committed
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("a", 7, 3)
    assert request._max_version == 4


def test_a_commit_waits_while_the_coordinator_is_at_work_on_the_transaction(asking):
    asking.answers += [CONCURRENT, CONCURRENT, 0]
    asking.transactions.commit("a", 7, 3)
    assert len(asking.requests) == 3
    assert len(asking.clients) == 1  # the connection is fine


def test_abort_in_progress_is_reported_without_waiting(asking):
    asking.answers += [CONCURRENT, 0]
    assert asking.transactions.initialize("a", 60_000) is False
    assert asking.transactions.initialize("a", 60_000) is True
    assert len(asking.requests) == 2


def test_a_coordinator_that_has_moved_is_looked_for_over_a_new_connection(asking):
    asking.answers += [NOT_COORDINATOR, 0]
    asking.transactions.commit("a", 7, 3)
    assert [client.closed for client in asking.clients] == [True, False]


def test_a_cluster_that_stays_away_is_an_error_that_names_it(asking):
    asking.answers += [kafka.errors.KafkaConnectionError("refused")] * 1000
    with pytest.raises(KafkaConnectionError, match="could not commit") as caught:
        asking.transactions.commit("a", 7, 3)
    assert "a:1" in caught.value.detail


@pytest.mark.parametrize("code", [INVALID_EPOCH, DENIED])
def test_rejected_request_is_an_error_at_once(asking, code):
    asking.answers.append(code)
    with pytest.raises(KafkaSinkError, match="rejected the request to commit"):
        asking.transactions.commit("a", 7, 3)
    assert asking.pauses == []


def test_nothing_is_asked_after_the_end(asking):
    asking.transactions.close()
    with pytest.raises(KafkaConnectionError, match="was closed"):
        asking.transactions.commit("a", 7, 3)
    assert asking.clients == []
