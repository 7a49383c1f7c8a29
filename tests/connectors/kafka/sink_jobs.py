"""A job that writes numbered lines of several keys to Kafka, and a reader that watches what becomes visible."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from penstock.common import WatermarkStrategy
from penstock.common.serialization import SimpleStringSchema
from penstock.connectors import (
    Boundedness,
    Source,
    SourceBatch,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    KafkaSink,
)
from tests.builders.waiting import wait_until

KEYS = "abcd"
AT_ONCE = 20
TIMEOUT_S = 120  # for what happens within seconds, unless the machine is very busy
EXACTLY_ONCE = DeliveryGuarantee.EXACTLY_ONCE


class Lines(Source):
    """Lines `key:number`, in order for every key, some at a time; number n has the timestamp `since_ms + n`.

    Unless it `ends`, the job goes on when it has read all of them, and can be killed or stopped at any time. Another one may go on with more.
    """

    def __init__(
        self, length: int, pause_s: float = 0.0, *, ends: bool = True, since_ms: int = 0
    ) -> None:
        self.length, self.pause_s = length, pause_s
        self.ends, self.since_ms = ends, since_ms

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.ends else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, parallelism: int, restored: Any = None) -> SplitEnumerator:
        return _Keys(bool(restored))

    def create_reader(self) -> SourceReader:
        return _Reader(self)


class _Keys(SplitEnumerator):
    def __init__(self, found: bool) -> None:
        self.found = found

    def discover(self):
        splits = [] if self.found else [SourceSplit(key, None, 0) for key in KEYS]
        self.found = True
        return splits

    def no_more_splits(self) -> bool:
        return self.found

    def snapshot(self) -> bool:
        return self.found


class _Reader(SourceReader):
    def __init__(self, source: Lines) -> None:
        self.source = source

    def read(self, split, position, limits):
        source = self.source
        while position < source.length:
            if source.pause_s:
                time.sleep(source.pause_s)
            end = min(position + AT_ONCE, source.length)
            lines = [f"{split.split_id}:{n}" for n in range(position, end)]
            times = [source.since_ms + n for n in range(position, end)]
            yield SourceBatch(lines, end, times)
            position = end


def serializer(topic: str, **calls: Any) -> KafkaRecordSerializationSchema:
    builder = KafkaRecordSerializationSchema.builder().set_topic(topic).set_key_field(0)
    builder.set_value_serialization_schema(SimpleStringSchema())
    for name, argument in calls.items():
        getattr(builder, name)(argument)
    return builder.build()


def sink(
    bootstrap: str,
    topic: str,
    guarantee: DeliveryGuarantee = EXACTLY_ONCE,
    prefix: str | None = None,
    properties: dict[str, str] | None = None,
    **calls: Any,
) -> KafkaSink:
    """Return a sink; the key of a line is its first letter."""
    builder = KafkaSink.builder().set_bootstrap_servers(bootstrap)
    builder.set_delivery_guarantee(guarantee).set_record_serializer(serializer(topic, **calls))
    builder.set_properties({"linger.ms": "1", **(properties or {})})
    if prefix is not None:
        builder.set_transactional_id_prefix(prefix)
    return builder.build()


def write_lines(
    env: StreamExecutionEnvironment,
    source: Lines,
    to: KafkaSink,
    through: Callable[[str], str] | None = None,
) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    lines = env.from_source(source, strategy, "lines").uid("lines")
    if through is not None:
        lines = lines.map(through).uid("through")
    lines.sink_to(to).uid("sink")


def expected(length: int) -> dict[str, list[int]]:
    return {key: list(range(length)) for key in KEYS}


class Watcher:
    """Reads what is committed, from before the first record on, in the order in which it becomes visible."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 2) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._partitions = [
            TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)
        ]
        self.messages: list[Any] = []
        self._read_up_to: dict[int, int] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"watcher of {self._topic}",
                "enable.auto.commit": "false",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": "20",
                "enable.partition.eof": "true",
                "log_level": "0",
            }
        )
        consumer.assign(self._partitions)
        while not self._stopped.is_set():
            for each in consumer.consume(1000, 0.05):
                if each.error() is None:
                    self.messages.append(each)
                elif each.error().code() == KafkaError._PARTITION_EOF:
                    self._read_up_to[each.partition()] = each.offset()
        consumer.close()

    def lines(self) -> dict[str, list[int]]:
        """Return the numbers of each key, in the order in which they were seen."""
        found: dict[str, list[int]] = {}
        for message in list(self.messages):
            key, _, number = message.value().decode().partition(":")
            found.setdefault(key, []).append(int(number))
        return found

    def wait_until(self, condition: Callable[[Watcher], bool], seconds: float = TIMEOUT_S) -> None:
        wait_until(lambda: condition(self), seconds=seconds)

    def _has_all(self) -> bool:
        # Markers of transactions that are being aborted may be on their way. What is left open stays so for longer than anybody waits here.
        ends = end_offsets(self._bootstrap, self._partitions)
        committed = end_offsets(self._bootstrap, self._partitions, committed=True)
        return committed == ends == self._read_up_to

    def finish(self) -> dict[str, list[int]]:
        """Return the lines once everything that is in the topic is visible: nothing is left open."""
        self.wait_until(Watcher._has_all)
        self._stopped.set()
        self._thread.join()
        return self.lines()


def end_offsets(
    bootstrap: str,
    partitions: list[TopicPartition],
    *,
    committed: bool = False,
    client: dict[str, str] | None = None,
) -> dict[int, int]:
    """Return where the partitions end: for readers of everything, or of what is committed."""
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    admin = AdminClient(client or {"bootstrap.servers": bootstrap, "log_level": "0"})
    wanted = {
        TopicPartition(each.topic, each.partition): OffsetSpec.latest() for each in partitions
    }
    futures = admin.list_offsets(wanted, isolation_level=level)
    return {each.partition: future.result(TIMEOUT_S).offset for each, future in futures.items()}
