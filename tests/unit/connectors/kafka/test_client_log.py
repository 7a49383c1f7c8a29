"""What librdkafka's clients log while a broker is down."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator

import pytest

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.base.source import NonBlockingReadLimits, SourceSplit
from penstock.connectors.kafka import client_log as module
from penstock.connectors.kafka.client_log import client_log, read_client_line
from penstock.connectors.kafka.cluster import KafkaCluster, KafkaUnavailableError
from penstock.connectors.kafka.enumerator import KafkaPartitionSplit
from penstock.connectors.kafka.offsets import KafkaTopicPartition
from penstock.connectors.kafka.producer import KafkaProducer
from penstock.connectors.kafka.reader import KafkaReader
from penstock.connectors.kafka.source_options import source_options
from penstock.runtime.operators.runtime_context import StreamingRuntimeContext
from tests.builders.ports import reserved_port
from tests.builders.waiting import wait_until


class Heard(logging.Filter):
    """Counts the lines that clients log, before any is left out."""

    count = 0

    def filter(self, _: logging.LogRecord) -> bool:
        self.count += 1
        return True


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """Let the log begin again: what other tests have logged does not count."""
    heard = Heard()
    (lines,) = client_log.filters
    monkeypatch.setattr(lines, "_logged", {})
    monkeypatch.setattr(lines, "_every_s", math.inf)
    monkeypatch.setattr(client_log, "filters", [heard, lines])
    return heard


@pytest.fixture
def down() -> Iterator[str]:
    with reserved_port() as port:
        yield f"127.0.0.1:{port}"


def enumerator(servers: str) -> Callable[[], object]:
    cluster = KafkaCluster(source_options({"bootstrap.servers": servers, "group.id": "shop"}))

    def ask() -> None:
        with pytest.raises(KafkaUnavailableError):
            cluster.topics(timeout=0.1)

    return ask


def sink(servers: str) -> Callable[[], object]:
    producer = KafkaProducer({"bootstrap.servers": servers})
    return lambda: producer.poll(0.1)


def source(servers: str) -> Callable[[], object]:
    reader = KafkaReader(
        source_options({"bootstrap.servers": servers, "group.id": "shop"}), SimpleStringSchema()
    )
    reader.open(
        StreamingRuntimeContext(task_name="read", subtask=0, parallelism=1, max_parallelism=1)
    )
    partition = KafkaTopicPartition("orders", 0)
    split = SourceSplit("orders-0", KafkaPartitionSplit(partition, None), 0)
    return lambda: list(reader.read(split, 0, NonBlockingReadLimits()))


@pytest.mark.parametrize("client", [enumerator, sink, source])
def test_a_broker_that_is_down_is_logged_once(
    client: Callable[[str], Callable[[], object]],
    down: str,
    heard: Heard,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ask = client(down)

    def heard_often() -> bool:
        ask()
        return heard.count >= 5

    wait_until(heard_often)
    said = [record for record in caplog.records if "Connection refused" in record.getMessage()]
    assert len(said) == 1
    assert said[0].name.startswith("penstock.connectors.kafka")
    assert said[0].levelno == logging.WARNING
    assert (
        said[0]
        .getMessage()
        .endswith(f": {down}: Connect to ipv4#{down} failed: Connection refused; retrying")
    )


def test_all_clients_and_addresses_of_a_broker_count_as_one() -> None:
    def read(text: str) -> tuple[object, str, int]:
        line = read_client_line(logging.LogRecord("any", logging.ERROR, "", 1, text, (), None))
        return line.kind, line.text, line.times

    kind, text, times = read(
        "FAIL [shop-enumerator#consumer-2] [thrd:localhost:9092/bootstrap]: localhost:9092/bootstrap: "
        "Connect to ipv4#127.0.0.1:9092 failed: Connection refused (after 0ms in state CONNECT)"
    )
    assert times == 1
    assert text == (
        "shop-enumerator: localhost:9092: Connect to ipv4#127.0.0.1:9092 failed: Connection refused; retrying"
    )
    again = read(
        "FAIL [rdkafka#producer-1] [thrd:localhost:9092/1]: localhost:9092/1: Connect to ipv6#[::1]:9092 failed: "
        "Connection refused (after 2ms in state CONNECT, 518 identical error(s) suppressed)"
    )
    assert again[0] == kind
    assert again[2] == 519
    other = read(
        "FAIL [rdkafka#producer-1] [thrd:b2:9092/2]: b2:9092/2: Disconnected (after 9ms in state UP)"
    )
    assert other[0] != kind


def test_lines_about_other_things_keep_level_and_text() -> None:
    text = "CONFWARN [rdkafka#consumer-1] [thrd:app]: Configuration property acks is ignored"
    line = read_client_line(logging.LogRecord("any", logging.INFO, "", 1, text, (), None))
    assert (line.text, line.level) == (
        "rdkafka: Configuration property acks is ignored",
        logging.INFO,
    )
    plain = read_client_line(logging.LogRecord("any", logging.INFO, "", 1, "as it is", (), None))
    assert plain.text == "as it is"


def test_an_error_that_a_client_also_tells_is_logged_once(
    heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    class Error:
        def str(self) -> str:
            return "b1:9092/1: Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after 1ms in state CONNECT)"

    client_log.error("FAIL [shop-0#consumer-1] [thrd:b1:9092/1]: %s", Error().str())
    module.log_client_error("shop-0", Error())
    assert heard.count == 2
    assert len(caplog.records) == 1
