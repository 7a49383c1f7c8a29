"""One Redis server for all tests of this directory, a database for each."""

from __future__ import annotations

import itertools

import pytest
import redis

from tests.connectors.conftest import serving
from tools.servers.redis import RedisServer

_databases = itertools.count(1)


@pytest.fixture(scope="session")
def redis_server():
    with serving(RedisServer) as server:
        yield server


@pytest.fixture
def url(redis_server):
    """An empty database."""
    if not redis_server.running:
        redis_server.start()
    database = next(_databases) % 64
    with redis.Redis.from_url(redis_server.url(database)) as client:
        client.flushdb()
    return redis_server.url(database)


@pytest.fixture
def client(url):
    with redis.Redis.from_url(url, decode_responses=True) as client:
        yield client
