"""A Kafka source while it runs: new partitions, failures of the job, of tasks and of the broker, watermarks."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

from penstock.common import Duration, WatermarkStrategy
from penstock.datastream import ProcessFunction
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaTopicPartition
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster
from tests.builders.kafka_jobs import (
    TIMEOUT_S,
    CommittedSink,
    environment,
    produce,
    run,
    source,
    start,
    until,
    values,
)
from tests.builders.modes import MODES, SOAKS
from tests.connectors import noticing
from tools.servers.process import free_port

LATEST = KafkaOffsetsInitializer.latest()
_names = itertools.count()


@pytest.fixture
def name():
    return f"running-{next(_names)}"


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture(autouse=True)
def _cluster():
    with MiniCluster():
        yield


def numbers(*ends):
    return [str(number) for number in range(*ends)]


def wait_for(sink, count):
    until(lambda: len(values(sink)) >= count)


def write_until(broker, topic, condition):
    """Write a message after the other until a condition holds; return them.

    When a job looks up the end of a partition is not to be seen. One of these is the first after that.
    """
    written = []

    def write_one_more():
        written.append(f"first-{len(written):05}")
        produce(broker, topic, written[-1:])
        return condition()

    until(write_one_more)
    return written


def failure_of(client):
    with pytest.raises(JobExecutionError) as caught:
        client.get_job_execution_result().result(TIMEOUT_S)
    return str(caught.value)


def no_restarts(mode, directory, **options):
    return environment(mode, directory, **{"restart-strategy.type": "none", **options})


@pytest.mark.ci
def test_new_partitions_are_read_from_their_first_message(kafka, mode, name, tmp_path):
    kafka.create_topic(name, 1)
    produce(kafka, name, ["before"])
    begin = source(kafka, name).set_starting_offsets(LATEST).build()
    client = start(environment(mode, tmp_path), begin, name)
    written = write_until(kafka, name, lambda: values(name))
    read = written[written.index(values(name)[0]) :]
    kafka.add_partitions(name, 3)
    produce(kafka, name, numbers(30))
    wait_for(name, 30 + len(read))
    client.cancel().result(TIMEOUT_S)
    assert values(name) == sorted([*read, *numbers(30)])


def test_topics_that_come_later_are_found_by_their_pattern(kafka, name, tmp_path):
    builder = source(kafka).set_topic_pattern(f"{name}-.*")
    client = start(environment("pipelined", tmp_path), builder.build(), name)
    kafka.create_topic(f"{name}-late", 2)
    produce(kafka, f"{name}-late", numbers(10))
    wait_for(name, 10)
    client.cancel().result(TIMEOUT_S)
    assert values(name) == numbers(10)


def test_a_topic_that_is_deleted_is_an_error_that_names_it(kafka, mode, name, tmp_path):
    kafka.create_topic(name, 1)
    produce(kafka, name, numbers(10))
    client = start(no_restarts(mode, tmp_path), source(kafka, name).build(), name)
    wait_for(name, 10)
    kafka.delete_topic(name)
    message = failure_of(client)
    assert f"the topic '{name}' does not exist" in message
    assert kafka.bootstrap in message


def test_missing_topic_is_an_error_at_the_start(kafka, name, tmp_path):
    client = start(no_restarts("pipelined", tmp_path), source(kafka, name).build(), name)
    assert f"the topic '{name}' does not exist" in failure_of(client)


def test_unreachable_brokers_are_named_after_the_timeout(name, tmp_path):
    class Nowhere:
        bootstrap = f"127.0.0.1:{free_port()}"

    nowhere = source(Nowhere, name, bootstrap_timeout_ms="1500").build()
    client = start(no_restarts("pipelined", tmp_path), nowhere, name)
    message = failure_of(client)
    assert f"no Kafka broker answers at {Nowhere.bootstrap}" in message
    assert "bootstrap.timeout.ms" in message


# Slots are threads: what these functions do is known in this process.
MARKS = ("1000", "4444", "8999")
failed: set[str] = set()
written = threading.Event()


def fail_once(value):
    if value in MARKS and value not in failed:
        failed.add(value)
        raise RuntimeError(f"at {value}")
    return value


def fail_late(value):
    """Fail at the first message, when there is a second."""
    if not failed:
        failed.add(value)
        written.wait(TIMEOUT_S)
        raise RuntimeError("before the first checkpoint")
    return value


@pytest.mark.ci
def test_records_are_read_once_though_the_job_fails(kafka, mode, name, tmp_path):
    kafka.create_topic(name, 3)
    produce(kafka, name, numbers(9000))
    failed.clear()
    found = run(
        environment(mode, tmp_path, **{"execution.checkpointing.interval": "10 ms"}),
        source(kafka, name).set_bounded(LATEST).build(),
        name,
        through=fail_once,
    )
    assert failed == set(MARKS)
    assert found == sorted(numbers(9000))


@pytest.mark.ci
def test_a_job_that_fails_before_its_first_checkpoint_begins_where_it_began(
    kafka, mode, name, tmp_path
):
    kafka.create_topic(name, 1)
    produce(kafka, name, ["old"])
    failed.clear()
    written.clear()
    latest = source(kafka, name).set_starting_offsets(LATEST).build()
    env = environment(mode, tmp_path, **{"execution.checkpointing.interval": "1 s"})
    client = start(env, latest, name, through=fail_late)
    read = write_until(kafka, name, lambda: failed)
    (first,) = failed
    produce(kafka, name, ["second"])
    written.set()
    expected = [*read[read.index(first) :], "second"]
    wait_for(name, len(expected))
    client.cancel().result(TIMEOUT_S)
    assert values(name) == expected


@pytest.mark.ci
def test_savepoint_resumes_with_another_parallelism_and_new_partitions(kafka, mode, name, tmp_path):
    kafka.create_topic(name, 3)
    produce(kafka, name, numbers(3000))
    group = source(kafka, name).set_starting_offsets(KafkaOffsetsInitializer.earliest()).build()
    client = start(environment(mode, tmp_path / "1", 3), group, name)
    wait_for(name, 1)
    path = client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result(TIMEOUT_S)
    client.get_job_execution_result().result(TIMEOUT_S)
    kafka.add_partitions(name, 4)
    produce(kafka, name, numbers(3000, 4000))
    options = {"execution.state-recovery.path": path}
    # The starting offsets are only for partitions without an offset: neither for restored nor for new partitions.
    again = source(kafka, name).set_starting_offsets(LATEST).build()
    client = start(environment(mode, tmp_path / "2", 2, **options), again, f"{name}-2")
    until(lambda: len(values(name)) + len(values(f"{name}-2")) >= 4000)
    client.cancel().result(TIMEOUT_S)
    assert sorted(values(name) + values(f"{name}-2")) == sorted(numbers(4000))


def test_bounded_job_resumes_from_a_savepoint_of_an_unbounded_one(kafka, mode, name, tmp_path):
    kafka.create_topic(name, 2)
    produce(kafka, name, numbers(100))
    client = start(environment(mode, tmp_path), source(kafka, name).build(), name)
    wait_for(name, 100)
    path = client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result(TIMEOUT_S)
    produce(kafka, name, numbers(100, 600))
    env = environment(mode, tmp_path, **{"execution.state-recovery.path": path})
    found = run(env, source(kafka, name).set_bounded(LATEST).build(), f"{name}-2")
    assert sorted(values(name) + found) == sorted(numbers(600))


def test_bounded_job_reads_partitions_newer_than_its_savepoint(kafka, mode, name, tmp_path):
    kafka.create_topic(name, 2)
    produce(kafka, name, numbers(100))
    client = start(environment(mode, tmp_path), source(kafka, name).build(), name)
    wait_for(name, 100)
    path = client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result(TIMEOUT_S)
    kafka.add_partitions(name, 3)
    produce(kafka, name, numbers(100, 500), partition=2)
    env = environment(mode, tmp_path, **{"execution.state-recovery.path": path})
    found = run(env, source(kafka, name).set_bounded(LATEST).build(), f"{name}-2")
    assert sorted(found) == sorted(numbers(100, 500))


def test_unbounded_job_resumes_from_a_savepoint_of_a_bounded_one(kafka, mode, name, tmp_path):
    kafka.create_topic(name, 2)
    produce(kafka, name, numbers(100))
    # The stops lie beyond the records that are there: the job waits for more.
    ends = {KafkaTopicPartition(name, partition): 100 for partition in range(2)}
    bounded = source(kafka, name).set_bounded(KafkaOffsetsInitializer.offsets(ends)).build()
    client = start(environment(mode, tmp_path), bounded, name)
    wait_for(name, 100)
    path = client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result(TIMEOUT_S)
    produce(kafka, name, numbers(100, 600))
    env = environment(mode, tmp_path, **{"execution.state-recovery.path": path})
    client = start(env, source(kafka, name).build(), f"{name}-2")
    until(lambda: len(values(name)) + len(values(f"{name}-2")) >= 600)
    client.cancel().result(TIMEOUT_S)
    assert sorted(values(name) + values(f"{name}-2")) == sorted(numbers(600))


def test_nothing_is_lost_or_read_twice_when_the_broker_is_away_for_a_while(
    fragile_kafka, mode, tmp_path
):
    topic = fragile_kafka.create_topic(f"away-{mode}", 2)
    produce(fragile_kafka, topic, numbers(2000))
    env = no_restarts(mode, tmp_path)
    client = start(env, source(fragile_kafka, topic).set_group_id(topic).build(), topic)
    wait_for(topic, 1)
    with noticing.message("penstock.connectors.kafka", "retrying") as noticed:
        fragile_kafka.kill()
        assert noticed.wait(TIMEOUT_S)
    time.sleep(30 if SOAKS else 0)  # it is away for some seconds in any case
    fragile_kafka.start()
    produce(fragile_kafka, topic, numbers(2000, 4000))
    wait_for(topic, 4000)
    produce(fragile_kafka, topic, ["last"])
    wait_for(topic, 4001)
    client.cancel().result(TIMEOUT_S)
    assert values(topic) == sorted([*numbers(4000), "last"])


def test_offsets_deleted_by_retention_are_an_error_without_a_reset_strategy(kafka, name, tmp_path):
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    kafka.create_topic(name, 1)
    produce(kafka, name, numbers(10))
    client = start(environment("pipelined", tmp_path / "1"), source(kafka, name).build(), name)
    wait_for(name, 10)
    path = client.stop_with_savepoint(False, f"{tmp_path}/savepoints").result(TIMEOUT_S)
    produce(kafka, name, numbers(10, 20))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    asked = TopicPartition(name, 0, 15)
    admin.delete_records([asked])[asked].result(TIMEOUT_S)

    options = {"execution.state-recovery.path": path}
    client = start(
        no_restarts("pipelined", tmp_path / "2", **options),
        source(kafka, name).build(),
        f"{name}-2",
    )
    message = failure_of(client)
    assert f"the broker does not have offset 10 of topic '{name}', partition 0" in message

    reset = source(kafka, name, auto_offset_reset="earliest").build()
    client = start(no_restarts("pipelined", tmp_path / "3", **options), reset, f"{name}-3")
    wait_for(f"{name}-3", 5)
    client.cancel().result(TIMEOUT_S)
    assert values(f"{name}-3") == numbers(15, 20)


class Watermarks(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} at {ctx.timer_service().current_watermark()}"


def watermarks_job(mode, directory, kafka_source, strategy, sink):
    env = environment(mode, directory, 1, **{"pipeline.auto-watermark-interval": "20 ms"})
    stream = env.from_source(kafka_source, strategy, "kafka").process(Watermarks())
    stream.sink_to(CommittedSink(sink))
    return env.execute_async(sink)


def last_watermark(broker, topic, sink):
    """Return the watermark that a new message sees. It is of no time of its own that matters."""
    before = len(values(sink))
    produce(broker, topic, [{"value": "probe", "timestamp": 1}], partition=0)
    wait_for(sink, before + 1)
    return max(
        (int(value.rpartition(" ")[2]) for value in values(sink) if value.startswith("probe")),
        default=None,
    )


def test_time_is_that_of_the_partition_that_is_behind(kafka, mode, name, tmp_path):
    kafka.create_topic(name, 2)
    produce(kafka, name, [{"value": "a", "timestamp": 10_000}], partition=0)
    produce(kafka, name, [{"value": "b", "timestamp": 3_000}], partition=1)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    client = watermarks_job(mode, tmp_path, source(kafka, name).build(), strategy, name)
    wait_for(name, 2)
    until(lambda: last_watermark(kafka, name, name) == 2_999)
    produce(kafka, name, [{"value": "c", "timestamp": 7_000}], partition=1)
    until(lambda: last_watermark(kafka, name, name) == 6_999)
    client.cancel().result(TIMEOUT_S)


def test_a_partition_without_messages_does_not_hold_time_back_once_it_is_idle(
    kafka, mode, name, tmp_path
):
    kafka.create_topic(name, 2)
    produce(kafka, name, [{"value": "a", "timestamp": 10_000}], partition=0)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(300))
    client = watermarks_job(mode, tmp_path, source(kafka, name).build(), strategy, name)
    until(lambda: last_watermark(kafka, name, name) == 9_999)
    client.cancel().result(TIMEOUT_S)
