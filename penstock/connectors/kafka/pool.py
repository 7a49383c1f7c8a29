"""The transactional producers of one writer.

A transaction is written by one producer, and stays with it until the driver has committed it. So a writer needs one producer for
every pending checkpoint, and another one to write with. After the driver's commit, the producer commits the transaction as well
and is reused: the brokers accept a commit of a committed transaction. That takes 2 ms, a new producer 70 to 550. Both happen in
the background: the next producer is ready when a checkpoint begins.
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
    CommitDecision,
    KafkaCommittable,
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
    """A producer, its transactional id, and its pending transaction."""

    transactional_id: str
    producer: KafkaProducer
    producer_id: int
    producer_epoch: int
    waits_for: KafkaCommittable | None = None
    checkpoint_id: int = 0

    def is_in(self, found: Transaction | None) -> bool:
        """Whether it has not been fenced."""
        return found is not None and (self.producer_id, self.producer_epoch) == (
            found.producer_id,
            found.producer_epoch,
        )


def transactional_settings(
    name: str, properties: Mapping[str, str], timeout_ms: int
) -> dict[str, Any]:
    """Return the settings of a transactional producer in addition to the common ones."""
    delivery_ms = int(properties.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS))
    return {
        "transactional.id": name,
        "transaction.timeout.ms": timeout_ms,
        "enable.idempotence": True,
        "delivery.timeout.ms": min(timeout_ms, delivery_ms),  # librdkafka rejects more
    }


class ProducerPool:
    """Provides a producer for each checkpoint, and takes it back when its transaction is over."""

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
        #: Unique: other processes may have writers, or transactions, of the same subtask.
        self._writer = uuid.uuid4().hex[:12]
        #: Number of producers created: the last part of their transactional ids.
        self._made = 0
        #: The attempt in which the idle producers were checked for fencing.
        self._attempt: str | None = None
        #: Guards `_made` and the producers below.
        self._lock = threading.Lock()
        #: Initialized, without a transaction; the next one is first.
        self._idle: list[PooledProducer] = []
        #: For their commit, oldest first.
        self._waiting: list[PooledProducer] = []
        #: Each may add an idle producer.
        self._coming: set[Future[None]] = set()
        #: One thread: the transactions of a pool are ended one after another.
        self._background = ThreadPoolExecutor(1, thread_name_prefix="kafka-transactions")
        #: Producers that become idle now are closed.
        self._closed = False

    def take(self, attempt: str) -> PooledProducer:
        """Return an idle producer, and prepare the next one."""
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
            coming.exception()  # waits; a failed one is not added to the idle producers

    def _leave_fenced(self) -> None:
        """Close producers that the driver has fenced, after a failed checkpoint."""
        with self._lock:
            idle = list(self._idle)
        found = self._transactions.describe(each.transactional_id for each in idle)
        fenced = [each for each in idle if not each.is_in(found.get(each.transactional_id))]
        with self._lock:
            self._idle = [each for each in self._idle if each not in fenced]
        for each in fenced:
            each.producer.let_go()

    def hand_over(
        self, pooled: PooledProducer, committable: KafkaCommittable, checkpoint_id: int
    ) -> None:
        """Keep a producer until its transaction is committed."""
        pooled.waits_for = committable
        pooled.checkpoint_id = checkpoint_id
        with self._lock:
            self._waiting.append(pooled)

    def take_back(self, pooled: PooledProducer) -> None:
        """Take back a producer whose transaction is over."""
        self._add(pooled)

    def settle(self, checkpoint_id: int) -> None:
        """Take back the producers whose transactions up to this checkpoint are over."""
        with self._lock:
            over = [each for each in self._waiting if each.checkpoint_id <= checkpoint_id]
            self._waiting = [each for each in self._waiting if each.checkpoint_id > checkpoint_id]
        for each in over:
            self._later(lambda each=each: self._recycle(each))  # type: ignore[misc]

    def _recycle(self, pooled: PooledProducer) -> None:
        try:
            usable = self._conclude(pooled)
        except KafkaSinkError as error:
            _log.info("the producer '%s' is not reused: %s", pooled.transactional_id, error)
            usable = False
        if usable:
            self._add(pooled)
        else:
            pooled.producer.let_go()

    def _conclude(self, pooled: PooledProducer) -> bool:
        """End a transaction in the producer like the driver did; False if the producer cannot be reused."""
        wanted, pooled.waits_for = pooled.waits_for, None
        assert wanted is not None
        found = self._transactions.describe([wanted.transactional_id]).get(wanted.transactional_id)
        if found is None or not pooled.is_in(found) or not wanted.describes(found):
            return False
        if found.state is TransactionState.ONGOING:
            pooled.producer.abort()  # another attempt at the checkpoint was committed
            return True
        if judge(wanted, found) is CommitDecision.LOST:
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
                f"the transactional id '{name}' is unknown right after its initialization",
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
        """Close all producers, and disconnect. Pending transactions stay open for their commit."""
        with self._lock:
            self._closed = True
            left = [*self._idle, *self._waiting]
            self._idle, self._waiting = [], []
        self._transactions.stop()
        self._background.shutdown(wait=True, cancel_futures=True)
        self._transactions.close()
        for each in left:
            each.producer.let_go()
