"""What a Kafka source reads: from where, to where, and what happens to each message."""

from __future__ import annotations

import itertools

import pytest

from penstock.common import SimpleStringSchema, WatermarkStrategy
from penstock.datastream import OutputTag
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaTopicPartition,
)
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster
from tests.builders.kafka_jobs import (
    TIMEOUT_S,
    commit_offsets,
    committed,
    environment,
    group_offsets,
    produce,
    run,
    source,
    start,
    transaction,
    until,
    values,
)
from tests.builders.modes import MODES, PIPELINED
from tests.builders.scripted import collect, take

LATEST = KafkaOffsetsInitializer.latest()
_names = itertools.count()


@pytest.fixture
def name():
    return f"reading-{next(_names)}"


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture(autouse=True)
def _cluster():
    with MiniCluster():
        yield


def numbers(*ends):
    return [str(number) for number in range(*ends)]


@pytest.mark.ci
def test_a_bounded_source_reads_all_partitions_to_the_end_and_tells_the_group(
    kafka, mode, name, tmp_path
):
    kafka.create_topic(name, 3)
    produce(kafka, name, numbers(6000))
    group = source(kafka, name).set_group_id(name).set_bounded(LATEST).build()
    assert run(environment(mode, tmp_path), group, name) == sorted(numbers(6000))
    assert until(lambda: group_offsets(kafka, name, name, 3) == [2000, 2000, 2000])


def start_cases(topic):
    first, second = KafkaTopicPartition(topic, 0), KafkaTopicPartition(topic, 1)
    earliest = KafkaOffsetResetStrategy.EARLIEST
    return {
        "earliest": (KafkaOffsetsInitializer.earliest(), range(20)),
        "latest": (LATEST, []),
        "group": (KafkaOffsetsInitializer.committed_offsets(), [*range(8, 20, 2), 19]),
        "time": (KafkaOffsetsInitializer.timestamp(1011), range(11, 20)),
        "a time after all": (KafkaOffsetsInitializer.timestamp(9999), []),
        "offsets": (KafkaOffsetsInitializer.offsets({first: 9, second: 10}), [18]),
        "offsets, else the group's": (KafkaOffsetsInitializer.offsets({first: 9}), [18, 19]),
        "out of range": (
            KafkaOffsetsInitializer.offsets({first: 99, second: 10}, earliest),
            range(0, 20, 2),
        ),
    }


@pytest.mark.ci
@pytest.mark.parametrize("case", list(start_cases("x")))
def test_reading_begins_where_the_program_says(kafka, name, case, tmp_path):
    kafka.create_topic(name, 2)
    # Even numbers go to partition 0, odd ones to 1; number n has the timestamp 1000 + n.
    produce(kafka, name, [{"value": str(n), "timestamp": 1000 + n} for n in range(20)])
    commit_offsets(kafka, name, name, [4, 9])
    initializer, expected = start_cases(name)[case]
    builder = source(kafka, name).set_group_id(name).set_bounded(LATEST)
    found = run(
        environment("pipelined", tmp_path), builder.set_starting_offsets(initializer).build(), name
    )
    assert found == sorted(map(str, expected))
    assert all(timestamp == 1000 + int(value) for value, timestamp in committed(name))


@pytest.mark.ci
def test_stop_offsets_end_before_messages_that_are_there_and_each_partition_for_itself(
    kafka, mode, name, tmp_path
):
    kafka.create_topic(name, 2)
    produce(kafka, name, numbers(2000))
    stop = KafkaOffsetsInitializer.offsets(
        {KafkaTopicPartition(name, 0): 700, KafkaTopicPartition(name, 1): 0}
    )
    found = run(environment(mode, tmp_path), source(kafka, name).set_bounded(stop).build(), name)
    assert sorted(map(int, found)) == list(range(0, 1400, 2))


def test_topics_are_found_by_pattern_and_single_partitions_by_number(kafka, name, tmp_path):
    for topic in (f"{name}-orders", f"{name}-payments", f"other-{name}-orders"):
        kafka.create_topic(topic, 2)
        produce(kafka, topic, [f"{topic} {number}" for number in range(4)])
    pattern = source(kafka).set_topic_pattern(f"{name}-.*").set_bounded(LATEST).build()
    found = run(environment("pipelined", tmp_path / "1"), pattern, f"{name}-pattern")
    assert found == sorted(
        f"{name}-{topic} {number}" for topic in ("orders", "payments") for number in range(4)
    )
    single = source(kafka).set_partitions({KafkaTopicPartition(f"{name}-orders", 1)})
    found = run(environment("pipelined", tmp_path / "2"), single.set_bounded(LATEST).build(), name)
    assert found == [f"{name}-orders 1", f"{name}-orders 3"]


def test_a_schema_of_whole_messages_sees_key_headers_and_where_they_are(
    kafka, mode, name, tmp_path
):
    kafka.create_topic(name, 2)
    message = {"key": b"k", "headers": [("h", b"1"), ("h", b"2")], "timestamp": 77}
    produce(kafka, name, [{**message, "value": b"v"}, {"value": None, "key": b"x", "timestamp": 1}])
    whole = KafkaRecordDeserializationSchema.of(tuple)
    builder = source(kafka, name).set_deserializer(whole).set_bounded(LATEST)
    assert sorted(run(environment(mode, tmp_path), builder.build(), name)) == [
        (b"k", b"v", [("h", b"1"), ("h", b"2")], name, 0, 0, 77),
        (b"x", None, [], name, 1, 0, 1),
    ]


@pytest.mark.ci
def test_malformed_messages_are_dead_letters_with_the_bytes_and_their_place(
    kafka, mode, name, tmp_path
):
    kafka.create_topic(name, 2)
    produce(kafka, name, [b"good", b"\xff\xfe", b"fine", None, b"last"], partition=1)
    env = environment(mode, tmp_path)
    builder = source(kafka, name).set_bounded(LATEST)
    tag = OutputTag("dead")
    stream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "kafka")
    stream = stream.on_error(tag)
    letters = stream.get_side_output(tag).map(lambda letter: (letter.record, letter.origin))
    found = collect(stream.map(lambda value: (value, None)).union(letters))
    assert sorted(found, key=str) == sorted(
        [
            ("good", None),
            ("fine", None),
            ("last", None),
            (b"\xff\xfe", {"topic": name, "partition": 1, "offset": 1}),
        ],
        key=str,
    )


def test_a_malformed_message_fails_a_job_without_a_place_for_it(kafka, name, tmp_path):
    kafka.create_topic(name, 1)
    produce(kafka, name, [b"\xff"])
    env = environment("pipelined", tmp_path, **{"restart-strategy.type": "none"})
    with pytest.raises(JobExecutionError, match=rf"topic {name}, partition 0, offset 0"):
        run(env, source(kafka, name).set_bounded(LATEST).build(), name)


@pytest.mark.ci
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_a_bounded_source_ends_though_the_last_offsets_are_markers_of_transactions(
    kafka, mode, name, level, tmp_path
):
    kafka.create_topic(name, 2)
    transaction(kafka, name, ["a", "b"])
    transaction(kafka, name, ["no"], commit=False)
    transaction(kafka, name, ["only aborted"], commit=False, partition=1)
    builder = source(kafka, name, isolation_level=level).set_group_id(f"{name}-{level}")
    found = run(environment(mode, tmp_path), builder.set_bounded(LATEST).build(), name)
    aborted = [] if level == "read_committed" else ["no", "only aborted"]
    assert found == ["a", "b", *aborted]
    # The markers were read, too: no lag.
    assert until(lambda: group_offsets(kafka, f"{name}-{level}", name, 2) == [5, 2])


def test_offsets_are_not_committed_when_the_program_does_not_want_it(kafka, name, tmp_path):
    kafka.create_topic(name, 1)
    produce(kafka, name, numbers(10))
    builder = source(kafka, name, commit_offsets_on_checkpoint="false").set_group_id(name)
    run(environment("pipelined", tmp_path), builder.set_bounded(LATEST).build(), name)
    assert group_offsets(kafka, name, name, 1) == [-1001]


def test_the_old_consumer_begins_where_its_group_is(kafka, mode, name, tmp_path):
    kafka.create_topic(name, 1)
    produce(kafka, name, numbers(10))
    commit_offsets(kafka, name, name, [7])
    properties = {"bootstrap.servers": kafka.bootstrap, "group.id": name}
    consumer = FlinkKafkaConsumer(name, SimpleStringSchema(), properties)
    stream = environment(mode, tmp_path).add_source(consumer)
    assert sorted(take(stream, 3)) == ["7", "8", "9"]


def test_the_lag_and_the_offsets_are_metrics(kafka, mode, name, tmp_path):
    kafka.create_topic(name, 2)
    produce(kafka, name, numbers(100))
    client = start(environment(mode, tmp_path, 1), source(kafka, name).build(), name)
    until(lambda: len(values(name)) == 100)

    def reported():
        found = client.get_accumulators().result(TIMEOUT_S)
        return {key.partition(".")[2]: value for key, value in found.items()}

    try:
        expected = {
            "pendingRecords": 0,
            "KafkaSourceReader.KafkaConsumer.records-lag-max": 0,
            f"KafkaSourceReader.topic.{name}.partition.0.currentOffset": 49,
        }
        if (
            mode == PIPELINED
        ):  # in epoch mode it is committed with the next epoch, which starts with the next record
            expected[f"KafkaSourceReader.topic.{name}.partition.1.committedOffset"] = 50
        until(lambda: expected.items() <= reported().items())
    finally:
        client.cancel().result(TIMEOUT_S)
