"""The Redis sink goes through the kit for connectors, with a real server: kills at each step, repeated commits, rescaling."""

from __future__ import annotations

import pytest
import redis

from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.redis import RedisSink
from penstock.testing.conformance import SinkConformance, SinkSetup


class PushedSetup(SinkSetup):
    """Records are pushed to a list, which does not bear to be done twice."""

    def __init__(self, url):
        self.url = url

    def create(self):
        return RedisSink(self.url, push, delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)

    def shown(self):
        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            return client.lrange("all", 0, -1)

    def unwritable(self):
        return object()

    def wrong_arguments(self):
        return (
            lambda: RedisSink("http://x", push),
            lambda: RedisSink(self.url, None),
            lambda: RedisSink(self.url, push, max_batch=0),
            lambda: RedisSink(self.url, push, delivery_guarantee="once"),
            lambda: RedisSink(
                self.url, push, delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE, cluster=True
            ),
        )


def push(record):
    return ("RPUSH", "all", record)


class TestExactlyOnce(SinkConformance):
    @pytest.fixture
    def connector(self, url):
        return PushedSetup(url)
