"""Sinks of Kafka's tables: what their options become."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.catalogs.tables import PhysicalColumn, ResolvedTable, TablePath
from penstock.common import Configuration
from penstock.connectors.base.sink import CommitRequest, CommitterContext
from penstock.connectors.kafka.errors import KafkaDataLossError
from penstock.connectors.kafka.sink import KafkaSink
from penstock.connectors.kafka.table.factory import KafkaFactory
from penstock.sql.connector.providers import TableContext
from penstock.sql.types import IntType
from tests.unit.connectors.kafka.coordinators import ABORTED, Coordinators


def sink_of(**options: str) -> KafkaSink:
    table = ResolvedTable(TablePath("c", "d", "t"), (PhysicalColumn("a", IntType()),))
    given = {
        "connector": "kafka",
        "topic": "orders",
        "properties.bootstrap.servers": "b:9092",
        "format": "json",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "orders",
        **{key.replace("_", "-"): value for key, value in options.items()},
    }
    context = TableContext(table, given, Configuration())
    sink = KafkaFactory().sink(context).write(overwrite=False, partition={}).sink
    assert isinstance(sink, KafkaSink)
    return sink


def commit_a_lost_transaction(sink: KafkaSink, monkeypatch: pytest.MonkeyPatch) -> None:
    coordinators = Coordinators()
    monkeypatch.setattr(KafkaSink, "_transactions", lambda _: coordinators)
    lost = coordinators.begin(0)
    found = coordinators.known[lost.transactional_id]
    coordinators.known[lost.transactional_id] = replace(found, state=ABORTED, producer_epoch=1)
    committer = sink.create_committer()
    assert committer is not None
    committer.open(CommitterContext("job", "sink", 1000, False))
    committer.commit(CommitRequest(4, [lost]))


def test_lost_transaction_error_names_the_option_to_ignore_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KafkaDataLossError) as caught:
        commit_a_lost_transaction(sink_of(), monkeypatch)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(
        "to continue without these records: 'sink.ignore-lost-transactions' = 'true'"
    )


def test_lost_transactions_are_ignored_if_the_option_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = sink_of(**{"sink.ignore-lost-transactions": "true"})
    commit_a_lost_transaction(sink, monkeypatch)
    assert "their records are lost" in caplog.text
