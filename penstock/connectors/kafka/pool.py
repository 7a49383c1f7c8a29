"""The transactional producers of one writer.

A transaction is written by one producer, and stays with it until the driver has committed it. So a writer needs one producer for every
checkpoint that is under way, and another to go on with. After a commit the producer is told that its transaction is over, and used again:
the brokers answer its own commit of what was committed before with success. That takes 2 ms, a new producer 70 to 550. Both are done
in the background: the next producer is ready when an epoch begins.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from penstock.connectors.kafka.committable import (
    KafkaCommittable,
    Verdict,
    judge,
    transactional_id,
)
from penstock.connectors.kafka.errors import KafkaSinkError
from penstock.connectors.kafka.producer import DELIVERY_TIMEOUT_MS, KafkaProducer
from penstock.connectors.kafka.transactions import Transaction, Transactions, TransactionState

_log = logging.getLogger("penstock.connectors.kafka")

_MOST_IDLE: Final = 2


@dataclass(slots=True)
class PooledProducer:
    """A producer, the id that it has to itself, and the transaction that it waits for."""

    transactional_id: str
    producer: KafkaProducer
    producer_id: int
    producer_epoch: int
    waits_for: KafkaCommittable | None = None
    epoch: int = 0

    def is_in(self, found: Transaction | None) -> bool:
        """Whether nobody has fenced it."""
        return found is not None and (self.producer_id, self.producer_epoch) == (
            found.producer_id,
            found.producer_epoch,
        )


def transactional_settings(
    name: str, properties: Mapping[str, str], timeout_ms: int
) -> dict[str, Any]:
    """Return what a transactional producer has besides the properties of all."""
    delivery_ms = int(properties.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS))
    return {
        "transactional.id": name,
        "transaction.timeout.ms": timeout_ms,
        "enable.idempotence": True,
        "delivery.timeout.ms": min(timeout_ms, delivery_ms),  # librdkafka refuses more
    }


class ProducerPool:
    """Gives a producer to each epoch, and takes it back when its transaction is over."""

    def __init__(
        self,
        properties: Mapping[str, str],
        transactions: Transactions,
        prefix: str,
        subtask: int,
        timeout_ms: int,
        on_statistics: Callable[[str], None] | None = None,
    ) -> None:
        self._properties = properties
        self._transactions = transactions
        self._prefix = prefix
        self._subtask = subtask
        self._timeout_ms = timeout_ms
        self._on_statistics = on_statistics
        # Unique: writers of the same subtask may be at work, or have transactions that wait, in other processes.
        self._writer = uuid.uuid4().hex[:12]
        self._made = 0
        self._attempt: str | None = None  # in which the idle ones were known not to be fenced
        self._lock = threading.Lock()
        self._idle: list[PooledProducer] = []
        self._waiting: list[PooledProducer] = []  # for a commit, oldest first
        self._coming: set[Future[None]] = set()  # each may add to the idle ones
        self._background = ThreadPoolExecutor(1, thread_name_prefix="kafka-transactions")
        self._closed = False

    def take(self, attempt: str) -> PooledProducer:
        """Return a producer that is between transactions, and let the next one get ready."""
        if attempt != self._attempt:
            self._leave_fenced()
            self._attempt = attempt
        taken = self._next()
        with self._lock:
            short = not self._idle and not self._coming
        if short:
            self._later(lambda: self._add(self._create()))
        return taken

    def _next(self) -> PooledProducer:
        while True:
            with self._lock:
                if self._idle:
                    return self._idle.pop(0)
                coming = next(iter(self._coming), None)
            if coming is None:
                return self._create()
            coming.exception()  # waits; whoever failed there is not among the idle ones

    def _leave_fenced(self) -> None:
        """Let go of producers that the driver has fenced, after an epoch that failed."""
        with self._lock:
            idle = list(self._idle)
        found = self._transactions.describe(each.transactional_id for each in idle)
        fenced = [each for each in idle if not each.is_in(found.get(each.transactional_id))]
        with self._lock:
            self._idle = [each for each in self._idle if each not in fenced]
        for each in fenced:
            each.producer.let_go()

    def hand_over(self, pooled: PooledProducer, committable: KafkaCommittable, epoch: int) -> None:
        """Let a producer wait for the commit of its transaction."""
        pooled.waits_for = committable
        pooled.epoch = epoch
        with self._lock:
            self._waiting.append(pooled)

    def take_back(self, pooled: PooledProducer) -> None:
        """Take a producer whose transaction is over."""
        self._add(pooled)

    def settle(self, epoch: int) -> None:
        """Take back the producers whose transactions for this epoch and those before it are over."""
        with self._lock:
            over = [each for each in self._waiting if each.epoch <= epoch]
            self._waiting = [each for each in self._waiting if each.epoch > epoch]
        for each in over:
            self._later(lambda each=each: self._recycle(each))  # type: ignore[misc]

    def _recycle(self, pooled: PooledProducer) -> None:
        try:
            usable = self._conclude(pooled)
        except KafkaSinkError as error:
            _log.info("the producer '%s' is not used again: %s", pooled.transactional_id, error)
            usable = False
        if usable:
            self._add(pooled)
        else:
            pooled.producer.let_go()

    def _conclude(self, pooled: PooledProducer) -> bool:
        """End a transaction for the producer as it was ended by the driver; False if it cannot be used any more."""
        wanted, pooled.waits_for = pooled.waits_for, None
        assert wanted is not None
        found = self._transactions.describe([wanted.transactional_id]).get(wanted.transactional_id)
        if found is None or not pooled.is_in(found) or not wanted.describes(found):
            return False
        if found.state is TransactionState.ONGOING:
            pooled.producer.abort()  # another attempt at the epoch was committed
            return True
        if judge(wanted, found) is Verdict.LOST:
            return False
        pooled.producer.commit()
        return True

    def _add(self, pooled: PooledProducer) -> None:
        with self._lock:
            surplus = self._closed or len(self._idle) >= _MOST_IDLE
            if not surplus:
                self._idle.append(pooled)
        if surplus:
            pooled.producer.let_go()

    def _create(self) -> PooledProducer:
        with self._lock:
            number, self._made = self._made, self._made + 1
        name = transactional_id(self._prefix, self._subtask, self._writer, number)
        settings = transactional_settings(name, self._properties, self._timeout_ms)
        producer = KafkaProducer(self._properties, settings, self._on_statistics)
        producer.initialize(lambda: not self._closed)
        found = self._transactions.describe([name]).get(name)
        if found is None:
            raise KafkaSinkError(
                f"the transactional id '{name}' is gone as soon as it was initialized",
                detail=f"brokers: {producer.bootstrap}",
            )
        return PooledProducer(name, producer, found.producer_id, found.producer_epoch)

    def _later(self, action: Callable[[], None]) -> None:
        with self._lock:
            if self._closed:
                return
            future = self._background.submit(action)
            self._coming.add(future)
        future.add_done_callback(self._arrived)

    def _arrived(self, future: Future[None]) -> None:
        with self._lock:
            self._coming.discard(future)

    def close(self) -> None:
        """Let go of all producers, and disconnect. Transactions that wait for their commit stay as they are."""
        with self._lock:
            self._closed = True
            left = [*self._idle, *self._waiting]
            self._idle, self._waiting = [], []
        self._transactions.stop()
        self._background.shutdown(wait=True, cancel_futures=True)
        self._transactions.close()
        for each in left:
            each.producer.let_go()
