"""Offsets that a source commits when it ends."""

from __future__ import annotations

import socket

import pytest

from penstock.connectors.kafka.cluster import KafkaCluster
from penstock.connectors.kafka.offsets import KafkaTopicPartition
from penstock.connectors.kafka.source_options import source_options


def test_a_last_commit_without_a_broker_is_not_waited_for_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    # The client waits for a whole session before it forgets what it could not commit.
    session = {"session.timeout.ms": "500", "heartbeat.interval.ms": "100"}
    properties = {"bootstrap.servers": address, "group.id": "watched", **session}
    cluster = KafkaCluster(source_options(properties))
    cluster.commit({KafkaTopicPartition("orders", 0): 7})
    cluster.close()
    assert "the last offsets of the group 'watched' may not be committed" in caplog.text
    assert "no broker can be reached" in caplog.text
