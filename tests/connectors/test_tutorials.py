"""docs/tutorials: the page with Kafka and PostgreSQL, against servers of ours in place of those that the reader starts."""

from __future__ import annotations

from pathlib import Path

from tests.builders.tutorials import Reader
from tools.servers.kafka import KafkaBroker

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "kafka-to-postgresql.md"


def test_every_order_is_written_once_although_the_job_is_killed(
    tmp_path: Path, kafka: KafkaBroker, database: str
) -> None:
    addresses = {
        "localhost:9092": kafka.bootstrap,
        "postgresql://penstock:secret@localhost:5433/shop": database,
    }
    try:
        with Reader(tmp_path, addresses) as reader:
            reader.follow(PAGE.read_text())
    finally:
        kafka.delete_topic("orders")
