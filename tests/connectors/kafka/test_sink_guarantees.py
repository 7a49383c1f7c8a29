"""What KafkaSink promises, while jobs run and fail and start again."""

from __future__ import annotations

import threading

import pytest

from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster
from tests.builders.environments import configured, restarts
from tests.builders.modes import MODES, runs_in
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

AT_LEAST_ONCE = DeliveryGuarantee.AT_LEAST_ONCE


def environment(mode, parallelism=2, **options):
    return configured(
        {"execution.checkpointing.interval": "50 ms", **runs_in(mode), **options}, parallelism
    )


@pytest.fixture
def topic(kafka, request):
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)[:200]
    return kafka.create_topic(name, 2)


@pytest.mark.parametrize("guarantee", list(DeliveryGuarantee), ids=lambda each: each.name)
@pytest.mark.parametrize("mode", MODES)
def test_every_record_arrives_in_the_order_of_its_key(kafka, topic, mode, guarantee):
    watcher = Watcher(kafka.bootstrap, topic)
    env = environment(mode)
    write_lines(env, Lines(500, 0.002), sink(kafka.bootstrap, topic, guarantee))
    with MiniCluster():
        env.execute()
    assert watcher.finish() == expected(500)
    # The timestamps of records are those of messages, and the key is written.
    by_key = {each.key(): each for each in watcher.messages}
    assert sorted(by_key) == [key.encode() for key in KEYS]
    stamps = {each.value(): each.timestamp()[1] for each in watcher.messages}
    assert stamps[b"a:77"] == 77


class FailsAt:
    """Fails once at each of some lines. Slots are threads: all attempts see what failed before."""

    failed: set[str] = set()
    lock = threading.Lock()

    def __init__(self, run, lines):
        self.run, self.lines = run, lines

    def __call__(self, line):
        if line in self.lines:
            with FailsAt.lock:
                seen = (self.run, line) in FailsAt.failed
                FailsAt.failed.add((self.run, line))
            if not seen:
                raise RuntimeError(f"it fails at {line}")
        return line


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_exactly_once_holds_over_failures_of_the_job(kafka, topic, mode):
    watcher = Watcher(kafka.bootstrap, topic)
    env = environment(mode, **restarts(10))
    breaks = FailsAt(topic, {"a:130", "b:210", "c:380", "d:381"})
    write_lines(env, Lines(500, 0.004), sink(kafka.bootstrap, topic, prefix=topic[:150]), breaks)
    with MiniCluster():
        env.execute()
    assert len([line for run, line in FailsAt.failed if run == topic]) == 4
    assert watcher.finish() == expected(500)


@pytest.mark.parametrize("mode", MODES)
def test_at_least_once_loses_nothing_over_failures_of_the_job(kafka, topic, mode):
    watcher = Watcher(kafka.bootstrap, topic)
    env = environment(mode, **restarts(10))
    breaks = FailsAt(topic, {"a:130", "d:381"})
    write_lines(env, Lines(500, 0.002), sink(kafka.bootstrap, topic, AT_LEAST_ONCE), breaks)
    with MiniCluster():
        env.execute()
    found = watcher.finish()
    assert {key: sorted(set(numbers)) for key, numbers in found.items()} == expected(500)


@pytest.mark.parametrize("mode", MODES)
def test_missing_topic_fails_the_job_at_once(kafka, mode):
    env = environment(mode, **{"restart-strategy.type": "none"})
    write_lines(env, Lines(10), sink(kafka.bootstrap, "no-such-topic"))
    with MiniCluster(), pytest.raises(JobExecutionError) as caught:
        env.execute()
    text = str(caught.value)
    assert "no-such-topic" in text
    assert kafka.bootstrap in text
    assert "create the topic" in text


@pytest.mark.parametrize("guarantee", [AT_LEAST_ONCE, EXACTLY_ONCE], ids=lambda each: each.name)
def test_a_record_that_is_too_large_fails_the_job_at_once(kafka, topic, guarantee):
    env = environment(MODES[1], **{"restart-strategy.type": "none"})
    to = sink(kafka.bootstrap, topic, guarantee)
    write_lines(env, Lines(10), to, lambda line: line * 500_000)
    with MiniCluster(), pytest.raises(JobExecutionError) as caught:
        env.execute()
    text = str(caught.value)
    assert "cannot send a record of 1500000 bytes" in text
    assert topic in text
    assert "max.request.size" in text


def test_keys_go_where_java_producers_put_them(kafka):
    topic = kafka.create_topic("as-in-java", 5)
    watcher = Watcher(kafka.bootstrap, topic, 5)
    env = environment(MODES[0])
    write_lines(env, Lines(3), sink(kafka.bootstrap, topic, AT_LEAST_ONCE))
    with MiniCluster():
        env.execute()
    assert watcher.finish() == expected(3)
    found = {each.key(): each.partition() for each in watcher.messages}
    assert found == {key.encode(): murmur2(key.encode()) % 5 for key in KEYS}


def murmur2(data: bytes) -> int:
    """The positive hash of Java's default partitioner, by its description."""
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    found = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        block = int.from_bytes(data[at : at + 4], "little") * multiplier & mask
        block = (block ^ block >> 24) * multiplier & mask
        found = (found * multiplier & mask) ^ block
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * multiplier & mask
    found = (found ^ found >> 13) * multiplier & mask
    return (found ^ found >> 15) & 0x7FFFFFFF


def test_headers_partitions_and_tombstones_are_written(kafka, topic):
    watcher = Watcher(kafka.bootstrap, topic)
    env = environment(MODES[1])
    to = sink(
        kafka.bootstrap,
        topic,
        set_headers=lambda line: {"origin": line},
        set_partitioner=lambda line, key, count: int(line[2:]) % count,
        set_tombstones=lambda line: line == "b:1",
    )
    write_lines(env, Lines(4), to)
    with MiniCluster():
        env.execute()
    watcher.wait_until(lambda each: len(each.messages) == 16)
    for message in watcher.messages:
        ((name, origin),) = message.headers()
        assert name == "origin"
        assert message.partition() == int(origin[2:]) % 2
        assert message.value() == (None if origin == b"b:1" else origin)


@pytest.mark.ci
@pytest.mark.parametrize("mode", MODES)
def test_exactly_once_holds_from_a_savepoint_into_another_job_with_another_parallelism(
    kafka, topic, mode, tmp_path
):
    watcher = Watcher(kafka.bootstrap, topic)
    options = {
        "execution.checkpointing.dir": f"{tmp_path}/checkpoints",
        "restart-strategy.type": "none",
    }
    first = environment(mode, 3, **options)
    lines = Lines(300, 0.005, ends=False)
    write_lines(first, lines, sink(kafka.bootstrap, topic, prefix="moved"))
    with MiniCluster():
        client = first.execute_async()
        watcher.wait_until(lambda each: len(each.messages) > 200)
        path = client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result(TIMEOUT_S)
    second = environment(mode, 2, **options, **{"execution.state-recovery.path": path})
    write_lines(second, Lines(600), sink(kafka.bootstrap, topic, prefix="moved"))
    with MiniCluster():
        second.execute()
    assert watcher.finish() == expected(600)
