"""Jobs that write to a real Redis server, in both modes, over failures of the job, of the driver and of the server."""

from __future__ import annotations

import time

import pytest

from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.redis import RedisSink
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster
from tests.builders.environments import configured, restarts
from tests.builders.modes import MODES, runs_in
from tests.builders.waiting import wait_until
from tests.connectors import noticing

COUNT = 3000
failed: list[int] = []
seen: list[int] = []


def fail_twice(n):
    if n in {COUNT // 3, COUNT // 2} and n not in failed:
        failed.append(n)
        raise RuntimeError("once")
    return n


def slow(n):
    if n % 20 == 0:
        time.sleep(0.005)
    seen.append(n)
    return n


def count_and_push(n):
    return [("INCRBY", "sum", n), ("RPUSH", f"list:{n % 3}", n), ("XADD", "log", "*", "n", n)]


def environment(mode, **options):
    failed.clear()
    seen.clear()
    return configured({"execution.checkpointing.interval": "30 ms", **runs_in(mode), **options}, 2)


def exactly_once(url, mapper=count_and_push, **options):
    return RedisSink(url, mapper, delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE, **options)


def assert_once(client, count=COUNT):
    pushed = [int(n) for each in range(3) for n in client.lrange(f"list:{each}", 0, -1)]
    assert sorted(pushed) == list(range(count))
    assert int(client.get("sum")) == sum(range(count))
    assert sorted(int(fields["n"]) for _, fields in client.xrange("log")) == list(range(count))


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_commands_that_do_not_bear_it_are_done_once_though_the_job_fails(mode, url, client):
    env = environment(mode, **restarts(5))
    env.from_collection(list(range(COUNT))).map(slow).map(fail_twice).sink_to(exactly_once(url))
    with MiniCluster():
        env.execute()
    assert len(failed) == 2
    assert_once(client)


@pytest.mark.parametrize("mode", MODES)
def test_at_least_once_the_same_commands_are_done_again(mode, url, client):
    """What the guarantee does not say does happen: here no checkpoint comes before the failures, so all is done again."""
    env = environment(mode, **restarts(5), **{"execution.checkpointing.interval": "1 h"})
    sink = RedisSink(url, count_and_push, max_batch=10)
    # Slowly: what is read quickly is read at once, and of what fails then nothing has come to the sink.
    env.from_collection(list(range(COUNT))).map(slow).map(fail_twice).sink_to(sink)
    with MiniCluster():
        env.execute()
    pushed = [int(n) for each in range(3) for n in client.lrange(f"list:{each}", 0, -1)]
    assert set(pushed) == set(range(COUNT))
    assert len(pushed) > COUNT


@pytest.mark.parametrize("mode", MODES)
def test_commands_that_may_be_done_again_come_to_the_same(mode, url, client):
    env = environment(mode, **restarts(5))
    sink = RedisSink(url, lambda n: [("SET", f"n:{n}", n, "EX", 600), ("ZADD", "all", n, n)])
    env.from_collection(list(range(COUNT))).map(fail_twice).sink_to(sink)
    with MiniCluster():
        env.execute()
    assert client.zcard("all") == COUNT
    assert client.get("n:77") == "77"
    assert 0 < client.ttl("n:77") <= 600


@pytest.mark.ci
@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee)[:2], ids=lambda each: each.name)
@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_is_killed_and_comes_back_is_waited_for(
    mode, guarantee, redis_server, url, client
):
    env = environment(mode, **{"restart-strategy.type": "none"})
    sink = RedisSink(url, lambda n: ("HSET", "all", n, n), delivery_guarantee=guarantee)
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        sink = exactly_once(url)
    env.from_collection(list(range(COUNT))).map(slow).sink_to(sink)
    with MiniCluster(), noticing.retry() as noticed:
        running = env.execute_async()
        wait_until(lambda: len(seen) >= COUNT // 2, seconds=120)
        redis_server.kill()
        assert noticed.wait(120)
        redis_server.start()
        running.get_job_execution_result().result()
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        assert_once(client)
    else:
        assert sorted(map(int, client.hkeys("all"))) == list(range(COUNT))


@pytest.mark.parametrize("mode", MODES)
def test_many_commands_of_an_epoch_go_through_a_file_and_are_done_once(mode, url, client, tmp_path):
    env = environment(
        mode,
        **{
            "execution.checkpointing.dir": str(tmp_path),
            "execution.checkpointing.interval": "1 h",
        },
    )
    sink = exactly_once(url, lambda n: ("RPUSH", "all", "x" * 50 + str(n)))
    env.from_collection(list(range(6000))).sink_to(sink).set_parallelism(1)
    with MiniCluster():
        env.execute()
    assert [int(each[50:]) for each in client.lrange("all", 0, -1)] == list(range(6000))


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee)[:2], ids=lambda each: each.name)
@pytest.mark.parametrize("mode", MODES)
def test_a_command_that_is_refused_fails_the_job_and_is_named(mode, guarantee, url, client):
    client.set("text", "abc")
    env = environment(mode, **{"restart-strategy.type": "none"})
    sink = RedisSink(url, lambda n: ("INCRBY", "text", n), delivery_guarantee=guarantee)
    env.from_collection([5]).sink_to(sink)
    with MiniCluster(), pytest.raises(JobExecutionError, match="INCRBY text 5") as caught:
        env.execute()
    assert "not an integer" in str(caught.value)


@pytest.mark.parametrize("mode", MODES)
def test_notes_of_commits_do_not_pile_up(mode, url, client):
    env = environment(mode, **{"execution.checkpointing.interval": "1 ms"})
    env.from_collection(list(range(600))).map(slow).sink_to(exactly_once(url))
    with MiniCluster():
        env.execute()
    notes = [name for name in client.keys("penstock:commits:*") if not name.endswith(":order")]
    assert 1 <= len(notes) <= 2
    assert all(client.hlen(name) <= 256 for name in notes)
