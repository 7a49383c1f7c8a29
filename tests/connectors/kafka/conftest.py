"""A broker that a test may take down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.conftest import serving
from tools.servers.kafka import KafkaBroker, MortalBroker


@pytest.fixture(scope="session")
def shared_fragile_kafka() -> Iterator[KafkaBroker]:
    """A broker that tests kill. A start takes seconds, so they share it."""
    with serving(MortalBroker) as broker:
        yield broker


@pytest.fixture
def fragile_kafka(shared_fragile_kafka: KafkaBroker) -> KafkaBroker:
    """A broker that a test may kill; it runs when the test begins, whatever the last one left."""
    if not shared_fragile_kafka.running:
        shared_fragile_kafka.start()
    return shared_fragile_kafka
