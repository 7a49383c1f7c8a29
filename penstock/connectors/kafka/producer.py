"""A librdkafka producer that raises background errors in the calling thread."""

from __future__ import annotations

import contextlib
import operator
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

from penstock.connectors.base.retrying import Backoff, retry
from penstock.connectors.kafka.client_log import client_log
from penstock.connectors.kafka.errors import KafkaSinkError, sink_error
from penstock.connectors.kafka.properties import client_configuration, confluent_kafka

DELIVERY_TIMEOUT_MS: Final = 120_000
_SLICE_S: Final = 1.0  # how long to wait for librdkafka before checking for errors
_UNASSIGNED: Final = -1
# Permanent errors that librdkafka would retry until messages time out.
_HOPELESS: Final = {"_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL"}
_TOPIC_TIMEOUT_S: Final = 2.0  # a topic that is created on first use takes a moment


def producer_configuration(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's configuration of a producer, with the defaults of Kafka's Java client where they differ.

    >>> producer_configuration({"acks": "1"})["enable.idempotence"]
    False
    """
    given = client_configuration(properties, "producer")
    acks = str(given.get("acks", given.get("request.required.acks", "all")))
    defaults = {
        # Choose the same partition for a key as Java's producers.
        "partitioner": "murmur2_random",
        "enable.idempotence": acks in {"all", "-1"},
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        "queue.buffering.max.messages": 500_000,
        # A callback for every message would cost more than sending it.
        "delivery.report.only.error": True,
    }
    if "message.timeout.ms" in given:
        del defaults["delivery.timeout.ms"]
    return {**defaults, **given}


class KafkaProducer:
    """Sends messages in the background; an error there is raised by the next call."""

    def __init__(
        self,
        properties: Mapping[str, str],
        settings: Mapping[str, Any] | None = None,
        on_statistics: Callable[[str], None] | None = None,
    ) -> None:
        library = confluent_kafka("KafkaSink")
        self.bootstrap = properties.get("bootstrap.servers", "")
        self._exceptions: tuple[type[Exception], ...] = (library.KafkaException,)
        self._failure: KafkaSinkError | None = None
        self._last_error: Any = None
        self._partitions: dict[str, int] = {}
        configuration = {
            **producer_configuration(properties),
            **(settings or {}),
            "error_cb": self._on_error,
            "on_delivery": self._on_delivery,
            "logger": client_log,
        }
        if on_statistics is not None:
            configuration.setdefault("statistics.interval.ms", 5000)
            configuration["stats_cb"] = on_statistics
        self.producer: Any = library.Producer(configuration)

    # Background events; called from within `poll` and `flush`

    def _ask_for_error(self) -> object:
        """Return the fatal error of a transactional producer, which it raises for every call."""
        try:
            self.producer.begin_transaction()
        except self._exceptions as exception:
            error: Any = exception.args[0]
            return error if error.fatal() else None
        return None

    def _on_error(self, error: Any) -> None:
        if self._failure is None and error.name() in _HOPELESS:
            self._failure = sink_error(error, "Kafka rejected the sink", self.bootstrap)

    def _on_delivery(self, error: Any, message: Any) -> None:
        self._last_error = error  # first: no method can be called here after a fatal error
        if error is None or self._failure is not None:
            return
        if error.name() in {"_PURGE_QUEUE", "_PURGE_INFLIGHT"}:
            return  # purged on purpose
        topic = message.topic()
        self._failure = sink_error(error, "cannot send a record", self.bootstrap, topic)

    def raise_failure(self) -> None:
        """Raise an error of the background."""
        if self._failure is not None:
            raise self._failure

    def poll(self, seconds: float = 0) -> None:
        """Run callbacks."""
        self._hear(self.producer.poll, seconds)
        self.raise_failure()

    def _hear(self, call: Callable[[float], int], seconds: float) -> int:
        """Call a method that runs callbacks. A fatal error is raised from there, whatever the callbacks did."""
        try:
            return call(seconds)
        except self._exceptions as exception:
            error: Any = exception
        except (
            SystemError
        ) as broken:  # the library calls back while that error is set, and may lose it
            error = broken.__cause__ or self._ask_for_error() or self._last_error or broken
        if self._failure is None:
            self._failure = self._error(error, "Kafka rejected the sink")
        return 0

    def check_login(self) -> None:
        """Raise an error if the brokers reject this client; a broker that is down is not an error."""
        with contextlib.suppress(*self._exceptions):
            self.producer.list_topics(timeout=2)
        self.poll()

    # Sending

    def partitions_of(self, topic: str) -> int:
        """Return a topic's number of partitions; an unknown or unauthorized topic is an error at once."""
        known = self._partitions.get(topic)
        if known is None:
            known = self._partitions[topic] = self._look_up(topic)
        return known

    def _look_up(self, topic: str) -> int:
        end = time.monotonic() + DELIVERY_TIMEOUT_MS / 1000
        absent_until = None
        while True:
            try:
                found = self.producer.list_topics(topic, timeout=_SLICE_S).topics[topic]
            except self._exceptions as exception:
                error: Any = exception.args[0]
                if time.monotonic() > end or not _may_pass(error):
                    raise self._error(exception, "Kafka does not answer", topic) from exception
                self.poll(0.1)
                continue
            if found.error is None:
                return len(found.partitions)
            now = time.monotonic()
            absent_until = absent_until or now + _TOPIC_TIMEOUT_S
            passing = found.error.name() in {"LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PART"}
            if not passing or now > absent_until:
                raise self._error(found.error, "cannot write to a topic", topic)
            self.poll(0.2)

    def send(self, topic: str | Sequence[str], values: Sequence[Any], *columns: Any) -> None:
        """Send messages, in order. Columns: keys, partitions, timestamps, headers; None for none."""
        start, count = 0, len(values)
        produce = self.producer.produce
        while start < count:
            rest = iter(values if start == 0 else values[start:])
            topics = repeat(topic) if isinstance(topic, str) else iter(topic[start:])
            try:
                # A loop in Python would take a quarter of the time of `produce`.
                deque(map(produce, topics, rest, *_iterators(columns, start)), maxlen=0)
            except BufferError:
                start = count - operator.length_hint(rest) - 1
                self._make_room()
            except self._exceptions as exception:
                at = count - operator.length_hint(rest) - 1
                self.poll()
                raise self._unsendable(exception, topic, values[at], at) from exception
            else:
                break
        self.poll()

    def _unsendable(
        self, exception: Exception, topic: str | Sequence[str], value: Any, at: int
    ) -> KafkaSinkError:
        where = topic if isinstance(topic, str) else topic[at]
        size = 0 if value is None else len(value)
        return self._error(exception, f"cannot send a record of {size} bytes", where)

    def _make_room(self) -> None:
        """Wait until the brokers have acknowledged part of the queue, at most as long as the delivery timeout of a record."""
        queued = len(self.producer)
        while len(self.producer) > queued * 0.9:
            self.poll(0.05)

    def flush(self) -> None:
        """Wait until the brokers have acknowledged everything."""
        left = 1
        while left:
            left = self._hear(self.producer.flush, _SLICE_S)
            self.raise_failure()

    # Transactions

    def initialize(self, keep_on: Callable[[], bool] = lambda: True) -> None:
        """Get the producer id; an older producer with the same transactional id is fenced."""
        self._retry(
            self.producer.init_transactions,
            "cannot initialize the transactional id",
            keep_on,
        )

    def begin(self) -> None:
        """Begin a transaction, locally: the brokers are notified with the first record."""
        try:
            self.producer.begin_transaction()
        except self._exceptions as exception:
            self.raise_failure()
            raise self._error(exception, "cannot begin a transaction") from exception

    def commit(self) -> None:
        """Commit."""
        self._retry(self.producer.commit_transaction, "cannot commit a transaction")

    def abort(self) -> None:
        """Abort."""
        self._retry(self.producer.abort_transaction, "cannot abort a transaction")

    def _retry(
        self, call: Callable[[float], Any], what: str, keep_on: Callable[[], bool] = lambda: True
    ) -> None:
        def attempt() -> None:
            try:
                call(_SLICE_S)  # it waits for the brokers, so there are no pauses between attempts
            except self._exceptions:
                self.poll()
                raise

        def when(error: Exception) -> bool:
            return isinstance(error, self._exceptions) and error.args[0].retriable() and keep_on()

        pauses = Backoff(0, 0, within_ms=DELIVERY_TIMEOUT_MS, jitter=0).pauses(time.monotonic())
        try:
            retry(attempt, pauses, when=when)
        except self._exceptions as exception:
            raise self._error(exception, what) from exception

    def _error(self, error: object, what: str, topic: str | None = None) -> KafkaSinkError:
        return sink_error(error, what, self.bootstrap, topic)

    # Closing

    def give_up(self) -> None:
        """Abort the current transaction, without waiting for a cluster that is down, and close the producer."""
        producer = self.producer
        with contextlib.suppress(
            Exception
        ):  # else the coordinator aborts it on timeout, or the next attempt does
            producer.purge()
            producer.abort_transaction(_SLICE_S)
        self.let_go()

    def let_go(self) -> None:
        """Release resources, and leave the transaction open: the library's own `close` would abort it."""
        self.producer = None


def _may_pass(error: Any) -> bool:
    return error.retriable() or error.name() in {"_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN"}


def _iterators(columns: Sequence[Any], start: int) -> list[Any]:
    """Return the set arguments of `produce` after topic and value: key, partition, (no callback), timestamp, headers."""
    given = [*columns, *[None] * (4 - len(columns))]
    while given and given[-1] is None:
        given.pop()
    found: list[Any] = []
    for index, column in enumerate(given):
        if index == 2:
            found += [repeat(None), repeat(None)]  # no callback, under both of its names
        empty: Any = (None, _UNASSIGNED, 0, None)[index]
        found.append(repeat(empty) if column is None else iter(column[start:]))
    return found
