"""Tables of Kafka with a real broker: each partition has a watermark of its own, also where one subtask reads several."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections import Counter

import pytest

from penstock.common import Configuration
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.testing import MiniCluster
from tests.builders.kafka_jobs import produce
from tests.builders.modes import MODES
from tools.servers.kafka import KafkaBroker

BEGIN = dt.datetime(2024, 1, 1)
BEGIN_MS = int(BEGIN.replace(tzinfo=dt.UTC).timestamp() * 1000)
ROWS = 2_500  # of each partition, two seconds apart
WINDOW_MS = 300_000


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_no_row_is_late_because_of_another_partition(kafka: KafkaBroker, mode: str) -> None:
    topic = kafka.create_topic(f"readings-{uuid.uuid4().hex}", 2)
    wanted: Counter[dt.datetime] = Counter()
    for partition, behind_ms in enumerate((0, 86_400_000)):
        times = [2_000 * at - behind_ms for at in range(ROWS)]
        wanted.update(BEGIN + dt.timedelta(milliseconds=t // WINDOW_MS * WINDOW_MS) for t in times)
        messages = [
            {"value": json.dumps({"id": at}), "timestamp": BEGIN_MS + time}
            for at, time in enumerate(times)
        ]
        produce(kafka, topic, messages, partition)
    configuration = Configuration()
    configuration.set_string("penstock.execution.mode", mode)
    configuration.set_string("parallelism.default", "1")
    configuration.set_string("table.local-time-zone", "UTC")
    configuration.set_string("pipeline.auto-watermark-interval", "1 ms")
    settings = EnvironmentSettings.new_instance().in_streaming_mode()
    tables = TableEnvironment.create(settings.with_configuration(configuration).build())
    tables.execute_sql(
        "CREATE TABLE readings (id BIGINT, t TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', "
        "WATERMARK FOR t AS t - INTERVAL '10' SECOND) WITH ('connector' = 'kafka', "
        f"'topic' = '{topic}', 'properties.bootstrap.servers' = '{kafka.bootstrap}', 'format' = 'json', "
        "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset')"
    )
    query = (
        "SELECT CAST(window_start AS TIMESTAMP(3)), COUNT(*) FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(t), "
        "INTERVAL '5' MINUTE)) GROUP BY window_start, window_end"
    )
    found: Counter[dt.datetime] = Counter()
    with MiniCluster(), tables.execute_sql(query).collect() as rows:
        for row in rows:
            found[row[0]] += row[1]
    assert found.total() == 2 * ROWS
    assert found == wanted
