"""Describes and ends Kafka transactions from outside the producer that began them.

librdkafka ends only transactions of its own process. The protocol, however, lets every client with write access to a
transactional id end its transaction, given the producer id and producer epoch: so a transaction of one process can be committed
or aborted by another one. The requests (EndTxn, InitProducerId, DescribeTransactions, ListTransactions) go to the transaction's
coordinator, through kafka-python, which also supports TLS and SASL.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from penstock.connectors.base.retrying import Backoff, retry
from penstock.connectors.kafka.client_properties import protocol_configuration
from penstock.connectors.kafka.errors import KafkaConnectionError, KafkaSinkError
from penstock.connectors.kafka.producer import KafkaProducer
from penstock.dependencies.extras import optional_module
from penstock.logs.repeated_lines import RepeatedLineFilter

T = TypeVar("T")

_log = logging.getLogger("penstock.connectors.kafka.transactions")
_log.addFilter(RepeatedLineFilter())

# A permanently fenced id is marked with this timeout, so that it is not fenced again.
FENCED_TIMEOUT_MS: Final = 1
# EndTxn from version 5 on changes the producer epoch, which librdkafka would not notice.
_END_TXN_VERSION: Final = 4
_INIT_PRODUCER_ID_VERSION: Final = 4
_CONCURRENT: Final = 51
_NOT_FOUND: Final = 105
_TRANSACTION: Final = 1  # the type of a coordinator


class TransactionState(enum.Enum):
    """The coordinator's state of a transaction."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"

    @classmethod
    def of(cls, name: str) -> TransactionState:
        """Return the state with this name; UNKNOWN for states of newer brokers."""
        return _STATES.get(name, cls.UNKNOWN)


_STATES: Final = {state.value: state for state in TransactionState}


@dataclass(frozen=True, slots=True)
class Transaction:
    """The last transaction of a transactional id, as known to its coordinator."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    started_ms: int  # -1: none since the producer was initialized
    timeout_ms: int

    @property
    def fenced(self) -> bool:
        """Whether the id was permanently fenced."""
        return self.state is TransactionState.EMPTY and self.timeout_ms == FENCED_TIMEOUT_MS


class Transactions:
    """The transactions of a cluster. Connects on first use, and again after a failure; retries while the cluster is down.

    Thread-safe.
    """

    def __init__(self, properties: Mapping[str, str], timeout_s: float = 120.0) -> None:
        self.bootstrap = properties.get("bootstrap.servers", "")
        self._properties = dict(properties)
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._client: Any = None
        self._stopped = False

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """Return the transactions of ids; unknown ids are omitted."""
        wanted = sorted(set(transactional_ids))
        if not wanted:
            return {}
        return self._ask("describe transactions", lambda client: self._describe(client, wanted))

    def list_ids(self, prefix: str) -> list[str]:
        """Return all transactional ids of the cluster with a prefix."""
        return self._ask("list transactions", lambda client: self._list(client, prefix))

    def commit(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        """Commit a producer's transaction, and wait until it is visible."""

        async def end(client: Any) -> None:
            request = _protocol("producer.transaction").EndTxnRequest(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                committed=True,
                max_version=_END_TXN_VERSION,
            )
            response = await _send(client, transactional_id, request)
            _check(response.error_code, f"EndTxn of '{transactional_id}'")

        # While markers are being written, the coordinator answers CONCURRENT_TRANSACTIONS: then the request is retried.
        self._ask(f"commit the transaction '{transactional_id}'", end)

    def initialize(self, transactional_id: str, timeout_ms: int) -> bool:
        """Give an id a new producer: the current one is fenced, and its transaction aborted.

        False: the transaction is still being aborted; its producer is fenced all the same.
        """

        async def initialize(client: object) -> bool:
            request = _protocol("producer.transaction").InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
                max_version=_INIT_PRODUCER_ID_VERSION,
            )
            response = await _send(client, transactional_id, request)
            if response.error_code == _CONCURRENT:
                return False
            _check(response.error_code, f"InitProducerId of '{transactional_id}'")
            return True

        return self._ask(f"fence the transactional id '{transactional_id}'", initialize)

    def stop(self) -> None:
        """Stop waiting: requests in progress end, further ones are rejected."""
        self._stopped = True

    def close(self) -> None:
        """Disconnect permanently. No request may be in progress."""
        self.stop()
        self._disconnect()

    def _disconnect(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):  # the connection is discarded anyway
                client.close()

    async def _describe(self, client: Any, wanted: list[str]) -> dict[str, Transaction]:
        requests: dict[int, list[str]] = {}
        nodes = await client._find_coordinator_ids(wanted, key_type=_TRANSACTION)  # noqa: SLF001
        for transactional_id, node in nodes.items():
            requests.setdefault(node, []).append(transactional_id)
        found = {}
        for node, ids in requests.items():
            request = _protocol("admin.transactions").DescribeTransactionsRequest(
                transactional_ids=ids
            )
            response = await client._manager.send(request, node_id=node)  # noqa: SLF001
            for each in response.transaction_states:
                if each.error_code == _NOT_FOUND:
                    continue
                _check(each.error_code, f"DescribeTransactions of '{each.transactional_id}'")
                found[each.transactional_id] = Transaction(
                    each.transactional_id,
                    TransactionState.of(each.transaction_state),
                    each.producer_id,
                    each.producer_epoch,
                    each.transaction_start_time_ms,
                    each.transaction_timeout_ms,
                )
        return found

    async def _list(self, client: Any, prefix: str) -> list[str]:
        manager, found = client._manager, []  # noqa: SLF001
        for broker in manager.cluster.brokers():
            request = _protocol("admin.transactions").ListTransactionsRequest(
                state_filters=[], producer_id_filters=[], max_version=0
            )
            response = await manager.send(request, node_id=broker.node_id)
            _check(response.error_code, "ListTransactions")
            found += [each.transactional_id for each in response.transaction_states]
        return sorted(each for each in set(found) if each.startswith(prefix))

    def _ask(self, what: str, request: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Send a request, with retries while the cluster may recover."""
        errors = optional_module("kafka.errors", extra="kafka", needed_by="KafkaSink")
        since, checked = time.monotonic(), False

        def attempt() -> T:
            nonlocal checked
            if self._stopped:
                raise KafkaConnectionError(f"the sink was closed before it could {what}")
            try:
                client = self._connected()
                answer: T = client._manager.run(request, client)  # noqa: SLF001
            except errors.ConcurrentTransactionsError:
                raise  # the coordinator is busy: the connection is fine
            except errors.UnsupportedVersionError as error:
                raise KafkaSinkError(
                    "the Kafka brokers are too old for exactly-once delivery",
                    detail=f"brokers: {self.bootstrap}; to {what}: {error}",
                    hint="use Kafka 3.0 or later, which can describe transactions",
                ) from error
            except errors.KafkaError as error:
                if not error.retriable:
                    raise _refused(what, self.bootstrap, error) from error
                _log.info("could not %s: %s; retrying", what, error)
                self._disconnect()
                if not checked:
                    self._check_login()
                    checked = True
                raise
            return answer

        backoff = Backoff(5, 500, within_ms=self._timeout_s * 1000, jitter=0)
        try:
            return retry(
                attempt,
                backoff.pauses(since),
                when=lambda error: isinstance(error, errors.KafkaError),
            )
        except errors.KafkaError as error:
            raise KafkaConnectionError(
                f"Kafka could not {what}",
                detail=f"brokers: {self.bootstrap}; for {self._timeout_s:.0f} s: {error}",
                hint="check that the brokers are up and that bootstrap.servers and the security properties are right",
            ) from error

    def _check_login(self) -> None:
        """Raise an error if the brokers reject this client: kafka-python only reports that it has no connection."""
        producer = KafkaProducer(self._properties)
        try:
            producer.check_login()
        finally:
            producer.let_go()

    def _connected(self) -> Any:
        admin = optional_module("kafka.admin", extra="kafka", needed_by="KafkaSink")
        with self._lock:
            if self._client is None:
                _keep_quiet()
                self._client = admin.KafkaAdminClient(**protocol_configuration(self._properties))
            return self._client


async def _send(client: Any, transactional_id: str, request: Any) -> Any:
    """Send a request to the coordinator of an id."""
    nodes = await client._find_coordinator_ids([transactional_id], key_type=_TRANSACTION)  # noqa: SLF001
    return await client._manager.send(request, node_id=nodes[transactional_id])  # noqa: SLF001


def _keep_quiet() -> None:
    """Set kafka-python's log level to WARNING, unless it was configured: it would log every connection."""
    logger = logging.getLogger("kafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)


def _protocol(module: str) -> Any:
    return optional_module(f"kafka.protocol.{module}", extra="kafka", needed_by="KafkaSink")


def _check(code: int, what: str) -> None:
    if code:
        errors = optional_module("kafka.errors", extra="kafka", needed_by="KafkaSink")
        raise errors.for_code(code)(what)


def _refused(what: str, bootstrap: str, error: Exception) -> KafkaSinkError:
    name = type(error).__name__
    hint = None
    if "Authorization" in name:
        hint = (
            "the principal needs Write and Describe on the transactional ids with the sink's prefix"
        )
    elif "Authentication" in name or "Sasl" in name:
        hint = "check security.protocol, sasl.mechanism and sasl.jaas.config"
    elif name == "InvalidTransactionTimeoutError":
        hint = "set transaction.timeout.ms to at most the brokers' transaction.max.timeout.ms (15 minutes by default)"
    return KafkaSinkError(
        f"Kafka rejected the request to {what}", detail=f"brokers: {bootstrap}; {error}", hint=hint
    )
