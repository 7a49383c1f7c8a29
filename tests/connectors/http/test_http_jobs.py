"""Jobs that send to an HTTP server, in both modes, over failures of the job and of the server."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from penstock.datastream.connectors.http import HttpSink
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster
from tests.builders.environments import configured, restarts
from tests.builders.http_server import http_server
from tests.builders.modes import MODES, runs_in
from tests.builders.waiting import wait_until

failed: list[int] = []
COUNT = 2000


def fail_twice(n):
    if n in {COUNT // 3, COUNT // 2} and n not in failed:
        failed.append(n)
        raise RuntimeError("once")
    return n


def environment(mode, **options):
    failed.clear()
    return configured({"execution.checkpointing.interval": "20 ms", **runs_in(mode), **options}, 2)


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_every_record_is_delivered_though_the_job_fails(mode):
    env = environment(mode, **restarts(5))
    with http_server() as server, MiniCluster():
        sink = HttpSink(server.url, framing="json_array", max_batch_records=50, linger_ms=5)
        env.from_collection(list(range(COUNT))).map(fail_twice).sink_to(sink)
        env.execute()
        counts = Counter(n for body in server.bodies for n in json.loads(body))
    assert len(failed) == 2
    assert set(counts) == set(range(COUNT))
    assert max(counts.values()) <= 3


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_knows_keys_takes_every_record_once(mode):
    taken: list[str] = []

    def take(got):
        key = got.headers["Idempotency-Key"]
        if key in taken:
            return 200, {}, b"known"
        taken.append(key)
        return (
            (503, {}, b"taken, and then lost my mind") if len(taken) % 100 == 0 else (200, {}, b"")
        )

    env = environment(mode, **restarts(5))
    with http_server(take) as server, MiniCluster():
        env.from_collection(list(range(COUNT))).map(fail_twice).sink_to(
            HttpSink(server.url, idempotency_key=str)
        )
        env.execute()
        assert len(server.requests) > COUNT  # some came again
    assert sorted(map(int, taken)) == list(range(COUNT))


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_is_killed_in_the_middle_is_waited_for(mode, program):
    """What it has acknowledged is in its file; what it was killed over is sent again."""
    env = environment(mode, **{"restart-strategy.type": "none"})
    program.hold.touch()
    sink = HttpSink(program.url, framing="json_array", max_batch_records=20)
    env.from_collection(list(range(COUNT))).sink_to(sink)
    with MiniCluster():
        running = env.execute_async()
        wait_until(lambda: bool(program.taken()))
        program.kill()
        before = len(program.taken())
        program.hold.unlink()
        program.start()
        running.get_job_execution_result().result()
    assert 0 < before < COUNT
    assert set(program.taken()) == set(range(COUNT))


@pytest.mark.parametrize("mode", MODES)
def test_a_record_that_is_refused_fails_the_job_and_names_it(mode):
    env = environment(mode, **{"restart-strategy.type": "none"})
    with http_server(lambda got: (400 if got.body == b"77" else 200, {}, b"bad luck")) as server:
        env.from_collection(list(range(100))).sink_to(HttpSink(server.url))
        with MiniCluster(), pytest.raises(JobExecutionError, match="77") as caught:
            env.execute()
    assert "400: bad luck" in str(caught.value)
