"""Coordinators of Kafka's transactions that are a dictionary, and the producers that use them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from penstock.connectors.kafka.committable import (
    KafkaCommittable,
    operator_prefix,
    transactional_id,
)
from penstock.connectors.kafka.transactions import Transaction, TransactionState

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
COMMITTED, ABORTED = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
ABORTING = TransactionState.PREPARE_ABORT
PREFIX = operator_prefix("orders", "job", "sink")


class Coordinators:
    """Transactions by their ids. An abort is over when the transaction was described `looks_per_abort` times."""

    bootstrap = "broker:9092"

    def __init__(self) -> None:
        self.known: dict[str, Transaction] = {}
        self.initialized: list[str] = []
        self.committed: list[str] = []
        self.lists = 0
        self.written: dict[int, list[Any]] = {}  # by the moment in which the transaction began
        self.closed = False
        self.looks_per_abort = 0
        self._looks: dict[str, int] = {}
        self._moments = itertools.count(1000)

    def begin(self, subtask: int = 0, number: int = 0, prefix: str = PREFIX) -> KafkaCommittable:
        """Open a transaction, as a writer would, and return what it hands over."""
        name = transactional_id(prefix, subtask, "ab", number)
        self.known[name] = Transaction(name, ONGOING, 7, 0, next(self._moments), 60_000)
        return self.handed_over(name)

    def handed_over(self, name: str) -> KafkaCommittable:
        found = self.known[name]
        return KafkaCommittable(
            name,
            found.producer_id,
            found.producer_epoch,
            found.started_ms,
            found.timeout_ms,
            self.bootstrap,
        )

    def idle(self, subtask: int = 0, number: int = 0) -> str:
        """Add a producer that is between two transactions."""
        name = transactional_id(PREFIX, subtask, "ab", number)
        self.known[name] = Transaction(name, EMPTY, 7, 0, -1, 60_000)
        return name

    def write(self, name: str, values: list[Any]) -> None:
        """Take records of a producer; the first ones open its transaction."""
        found = self.known[name]
        if found.state is not ONGOING:
            self.known[name] = replace(found, state=ONGOING, started_ms=next(self._moments))
        self.written.setdefault(self.known[name].started_ms, []).extend(values)

    def end(self, name: str, state: TransactionState) -> None:
        """End a transaction as its own producer wants it; what was ended so before stays as it is."""
        found = self.known[name]
        assert found.state in {ONGOING, EMPTY, state}, f"{name} is {found.state}"
        if found.state is ONGOING:
            self.known[name] = replace(found, state=state)

    def state(self, committable: KafkaCommittable) -> TransactionState:
        return self.known[committable.transactional_id].state

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        found = {}
        for name in transactional_ids:
            if name in self.known:
                self._go_on(name)
                found[name] = self.known[name]
        return found

    def _go_on(self, name: str) -> None:
        if self.known[name].state is ABORTING:
            self._looks[name] = self._looks.get(name, 0) + 1
            if self._looks[name] >= self.looks_per_abort:
                self.known[name] = replace(self.known[name], state=ABORTED)

    def list_ids(self, prefix: str) -> list[str]:
        self.lists += 1
        return sorted(name for name in self.known if name.startswith(prefix))

    def commit(self, name: str, producer_id: int, producer_epoch: int) -> None:
        found = self.known[name]
        assert (found.producer_id, found.producer_epoch) == (producer_id, producer_epoch)
        self.committed.append(name)
        self.known[name] = replace(found, state=COMMITTED)

    def initialize(self, name: str, timeout_ms: int) -> bool:
        self.initialized.append(name)
        found = self.known.get(name) or Transaction(name, EMPTY, 8, -1, -1, timeout_ms)
        if found.state is ONGOING and self.looks_per_abort:
            self.known[name] = replace(
                found, state=ABORTING, producer_epoch=found.producer_epoch + 1
            )
            return False
        self.known[name] = Transaction(
            name, EMPTY, found.producer_id, found.producer_epoch + 1, -1, timeout_ms
        )
        return True

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class Producer:
    """A producer of transactions, as the pool of a writer uses it. What it sends arrives when it is flushed."""

    bootstrap = Coordinators.bootstrap

    def __init__(self, coordinators: Coordinators, name: str) -> None:
        self.coordinators, self.name = coordinators, name
        self.sent: list[Any] = []
        self.open = False  # between `begin` and the end of the transaction, as the client sees it
        self.gone = False

    def initialize(self, keep_on: Callable[[], bool]) -> None:
        self.coordinators.initialize(self.name, 60_000)
        self.coordinators.initialized.remove(self.name)  # not by the committer

    def partitions_of(self, topic: str) -> int:
        return 1

    def begin(self) -> None:
        assert not self.open, "the transaction before is not over"
        self.open = True

    def send(self, topic: str, values: list[Any], *columns: Any) -> None:
        self.sent += values

    def flush(self) -> None:
        if self.sent:
            self.coordinators.write(self.name, self.sent)
            self.sent = []

    def commit(self) -> None:
        self.coordinators.end(self.name, COMMITTED)
        self.open = False

    def abort(self) -> None:
        self.coordinators.end(self.name, ABORTED)
        self.open = False

    def give_up(self) -> None:
        self.abort()
        self.let_go()

    def let_go(self) -> None:
        self.gone = True


def producers(coordinators: Coordinators, made: list[Producer]) -> Callable[..., Producer]:
    """Return what makes producers in place of KafkaProducer; all of them are noted."""

    def make(properties: Mapping[str, str], settings: Mapping[str, Any], _: Any) -> Producer:
        made.append(Producer(coordinators, settings["transactional.id"]))
        return made[-1]

    return make
