"""What the Redis connector refuses before it talks to a server, and how it waits for one."""

from __future__ import annotations

import pytest

from penstock.connectors.base.retrying import Backoff
from penstock.connectors.base.sink import CheckpointContext, WriterContext
from penstock.connectors.base.staged_sinks import CollectSink
from penstock.connectors.redis.client import RedisCalls
from penstock.connectors.redis.commands import commands_of, show
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.redis import RedisLookup, RedisSink
from penstock.errors import ArgumentError, ArgumentTypeError, ConnectionFailedError, RecordError
from tests.builders.ports import reserved_port

URL = "redis://localhost"
EXACTLY = DeliveryGuarantee.EXACTLY_ONCE


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: RedisSink("http://x", str), ArgumentError),
        (lambda: RedisSink(7, str), ArgumentTypeError),
        (lambda: RedisSink(URL, "SET"), ArgumentTypeError),
        (lambda: RedisSink(URL, str, max_batch=0), ArgumentError),
        (lambda: RedisSink(URL, str, linger_ms=-1), ArgumentError),
        (lambda: RedisSink(URL, str, delivery_guarantee=1), ArgumentTypeError),
        (lambda: RedisSink(URL, str, delivery_guarantee=EXACTLY, cluster=True), ArgumentError),
        (
            lambda: RedisSink(URL, str, delivery_guarantee=EXACTLY, on_rejected=CollectSink()),
            ArgumentError,
        ),
        (lambda: RedisLookup(URL, "key"), ArgumentTypeError),
        (lambda: RedisLookup(URL, str, command="SET"), ArgumentError),
        (lambda: RedisLookup(URL, str, command="HMGET"), ArgumentError),
        (lambda: RedisLookup(URL, str, fields=["a"]), ArgumentError),
        (lambda: RedisLookup(URL, str, cache={}), ArgumentTypeError),
    ],
)
def test_arguments_are_checked_at_once(make, error):
    with pytest.raises(error):
        make()


def test_a_password_is_not_shown():
    with pytest.raises(ArgumentError) as caught:
        RedisSink("http://ada:geheim@host", str)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "mapped", ["SET", 7, ("SET", "a", None), ("SET", "a", True), [("SET", object())], [7], (1, 2)]
)
def test_invalid_command_is_reported_with_its_record(mapped):
    with pytest.raises(RecordError, match=r"command|argument") as caught:
        commands_of(mapped, "the record")
    assert "the record" in caught.value.detail


@pytest.mark.parametrize("mapped", [None, [], ()])
def test_a_record_may_make_no_command(mapped):
    assert commands_of(mapped, None) == []


def test_a_long_command_is_cut_in_messages():
    assert len(show(("SET", "a", "x" * 1000))) < 250


def test_a_command_that_a_script_cannot_pass_on_is_refused():
    sink = RedisSink(URL, lambda n: ("SADD", "all", *range(n)), delivery_guarantee=EXACTLY)
    writer = sink.create_writer(WriterContext("job", "op", 0, 1, ""))
    writer.begin(CheckpointContext(1, "a"))
    writer.write([100], None, 0)
    with pytest.raises(RecordError, match="too many arguments"):
        writer.write([8000], None, 0)


def test_a_server_that_stays_away_is_named_after_the_last_attempt():
    attempts = []

    def ping(client):
        attempts.append(client)
        return client.ping()

    with reserved_port() as port:
        backoff = Backoff(1, retries=3, within_ms=600_000)
        calls = RedisCalls(f"redis://:geheim@127.0.0.1:{port}/0", cluster=False, backoff=backoff)
        with pytest.raises(ConnectionFailedError, match=f"127.0.0.1:{port}") as caught:
            calls.call(ping)
    assert len(attempts) == 4
    assert "geheim" not in str(caught.value)
    calls.close()
