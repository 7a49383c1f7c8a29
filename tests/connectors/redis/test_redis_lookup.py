"""Lookups in a real Redis server, in both modes."""

from __future__ import annotations

import time

import pytest

from penstock.common import Time
from penstock.datastream import AsyncDataStream
from penstock.datastream.connectors.redis import LookupCache, RedisLookup
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster
from tests.builders.environments import configured
from tests.builders.modes import MODES, runs_in
from tests.builders.scripted import collect
from tests.builders.waiting import wait_until
from tools.servers.process import free_port

COUNT = 1000
seen: list[int] = []


def looked_up(mode, lookup, count=COUNT, **options):
    seen.clear()
    env = configured({**runs_in(mode), "restart-strategy.type": "none", **options}, 2)
    numbers = env.from_collection(list(range(count))).map(slow)
    return AsyncDataStream.unordered_wait(numbers, lookup, Time.seconds(60), 200)


def slow(n):
    if n % 50 == 0:
        time.sleep(0.005)
    seen.append(n)
    return n


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_missing_values_are_none(mode, url, client):
    client.mset({f"k:{n}": f"v{n}" for n in range(0, COUNT, 2)})
    with MiniCluster():
        found = collect(looked_up(mode, RedisLookup(url, lambda n: f"k:{n}")))
    assert sorted(found) == [(n, None if n % 2 else f"v{n}") for n in range(COUNT)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"command": "HGETALL"}, {"a": "1", "b": "2"}),
        ({"command": "HMGET", "fields": ["b", "c"]}, {"b": "2", "c": None}),
    ],
    ids=["HGETALL", "HMGET"],
)
@pytest.mark.parametrize("mode", MODES)
def test_hashes_are_dicts(mode, options, expected, url, client):
    client.hset("h:3", mapping={"a": 1, "b": 2})
    lookup = RedisLookup(url, lambda n: f"h:{n}", lambda n, found: found and (n, found), **options)
    with MiniCluster():
        assert collect(looked_up(mode, lookup, 10)) == [(3, expected)]


@pytest.mark.parametrize("mode", MODES)
def test_the_cache_saves_calls_and_keys_are_asked_for_together(mode, url, client):
    client.mset({f"k:{n}": n for n in range(10)})
    client.config_resetstat()
    lookup = RedisLookup(url, lambda n: f"k:{n % 10}", cache=LookupCache(100, ttl=60))
    with MiniCluster():
        found = collect(looked_up(mode, lookup))
    assert len(found) == COUNT
    assert client.info("commandstats")["cmdstat_mget"]["calls"] <= 40
    client.config_resetstat()
    with MiniCluster():
        collect(looked_up(mode, RedisLookup(url, lambda n: f"k:{n}")))
    calls = client.info("commandstats")["cmdstat_mget"]["calls"]
    assert calls < COUNT / 3


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_is_killed_and_comes_back_is_waited_for(mode, redis_server, url, client):
    client.mset({f"k:{n}": n for n in range(COUNT)})
    stream = looked_up(mode, RedisLookup(url, lambda n: f"k:{n}", max_batch_size=5))
    with MiniCluster(), stream.execute_and_collect() as found:
        wait_until(lambda: len(seen) >= COUNT // 2, seconds=120)
        redis_server.kill()
        redis_server.start()
        results = list(found)
    assert sorted(results) == [(n, str(n)) for n in range(COUNT)]


def test_a_server_that_stays_away_is_named():
    lookup = RedisLookup(f"redis://:geheim@127.0.0.1:{free_port()}", str, retry_timeout_ms=200)
    with MiniCluster(), pytest.raises(JobExecutionError, match="did not answer") as caught:
        collect(looked_up("epochs", lookup, 10))
    assert "geheim" not in str(caught.value)
