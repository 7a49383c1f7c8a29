"""A broker that is killed and comes back while a job writes to it: the job waits, nothing is lost or doubled."""

from __future__ import annotations

import time

import pytest

from penstock.common import JobStatus
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.modes import EPOCHS, PIPELINED, SOAKS, runs_in
from tests.connectors import noticing
from tests.connectors.kafka.sink_jobs import (
    EXACTLY_ONCE,
    KEYS,
    TIMEOUT_S,
    DeliveryGuarantee,
    Lines,
    Watcher,
    expected,
    sink,
    write_lines,
)

LENGTH = 1000
AWAY_S = 30.0 if SOAKS else 0.0  # and some seconds until it is back


@pytest.mark.parametrize(
    ("mode", "guarantee"),
    [
        (PIPELINED, EXACTLY_ONCE),
        (EPOCHS, EXACTLY_ONCE),
        (PIPELINED, DeliveryGuarantee.AT_LEAST_ONCE),
    ],
    ids=str,
)
def test_a_broker_that_comes_back_is_waited_for(fragile_kafka, mode, guarantee):
    topic = fragile_kafka.create_topic(f"waited-for-{mode}-{guarantee.name}", 2)
    watcher = Watcher(fragile_kafka.bootstrap, topic)
    options = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.timeout": "2 min",
        "restart-strategy.type": "none",
    }
    env = configured({**options, **runs_in(mode)}, 2)
    properties = {"reconnect.backoff.max.ms": "500"}
    to = sink(fragile_kafka.bootstrap, topic, guarantee, properties=properties)
    # A broker that was killed forgets the numbers of batches that look a day old, and would take them twice.
    now = int(time.time() * 1000)
    write_lines(env, Lines(LENGTH, 0.004, ends=False, since_ms=now), to)
    with MiniCluster():
        client = env.execute_async()
        watcher.wait_until(lambda each: len(each.messages) > LENGTH)
        with noticing.message("penstock.connectors.kafka") as noticed:
            fragile_kafka.kill()
            assert noticed.wait(TIMEOUT_S)
        time.sleep(AWAY_S)
        assert client.get_job_status().result(TIMEOUT_S) is JobStatus.RUNNING
        fragile_kafka.start()
        watcher.wait_until(lambda each: len(each.messages) >= len(KEYS) * LENGTH)
        assert client.get_job_status().result(TIMEOUT_S) is JobStatus.RUNNING
        client.cancel().result(TIMEOUT_S)
    assert watcher.finish() == expected(LENGTH)
