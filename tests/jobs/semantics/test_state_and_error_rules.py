"""Rules 20 and 21: time to live; what the user reads when their code fails."""

from __future__ import annotations

import pytest

from penstock.common import Time, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, MapFunction, ProcessFunction
from penstock.errors import JobExecutionError
from penstock.graph.operator_specs import KeyedProcessSpec
from penstock.state_descriptors.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.testing import ManualClock, OperatorHarness
from tests.builders.scripted import LOG, MONOTONOUS, collect, environment, read

NEVER = StateTtlConfig.StateVisibility.NeverReturnExpired
WHILE_THERE = StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
ON_WRITE = StateTtlConfig.UpdateType.OnCreateAndWrite
ON_READ = StateTtlConfig.UpdateType.OnReadAndWrite


class Remember(KeyedProcessFunction):
    """Does what each element says: ("a", "put", 5), ("a", "get"), ("a", "add", 1) ..."""

    def __init__(self, update=ON_WRITE, visibility=NEVER):
        self.ttl = (
            StateTtlConfig.new_builder(Time.milliseconds(100))
            .set_update_type(update)
            .set_state_visibility(visibility)
            .build()
        )

    def _with_ttl(self, descriptor):
        descriptor.enable_time_to_live(self.ttl)
        return descriptor

    def open(self, context):
        self.value = context.get_state(self._with_ttl(ValueStateDescriptor("v", None)))
        self.list = context.get_list_state(self._with_ttl(ListStateDescriptor("l", None)))
        self.map = context.get_map_state(self._with_ttl(MapStateDescriptor("m", None, None)))

    def process_element(self, element, ctx):
        _, action, *rest = element
        if action == "put":
            self.value.update(rest[0])
        elif action == "get":
            yield self.value.value()
        elif action == "add":
            self.list.add(rest[0])
        elif action == "list":
            yield list(self.list.get() or ())
        elif action == "set":
            self.map.put(rest[0], rest[1])
        else:
            yield dict(self.map.items())


def harness_of(*settings, **options):
    return OperatorHarness(
        KeyedProcessSpec(Remember(*settings)),
        key_selector=lambda element: element[0],
        clock=options.pop("clock", None) or ManualClock(1000),
        **options,
    )


def ask(harness, action):
    harness.clear()
    harness.process_element(("a", action))
    return harness.values()[0]


def test_rule_20_state_expires_after_its_time_to_live():
    harness = harness_of()
    harness.process_element(("a", "put", 5))
    harness.clock.advance(99)
    assert ask(harness, "get") == 5
    harness.clock.advance(1)
    assert ask(harness, "get") is None


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        pytest.param(ON_WRITE, None, id="only writing prolongs"),
        pytest.param(ON_READ, 5, id="reading prolongs, too"),
    ],
)
def test_rule_20_what_prolongs_the_life_of_state(update, expected):
    harness = harness_of(update)
    harness.process_element(("a", "put", 5))
    harness.clock.advance(60)
    assert ask(harness, "get") == 5
    harness.clock.advance(60)
    assert ask(harness, "get") == expected


def test_rule_20_writing_prolongs_the_life_of_state():
    harness = harness_of()
    harness.process_element(("a", "put", 5))
    harness.clock.advance(60)
    harness.process_element(("a", "put", 6))
    harness.clock.advance(60)
    assert ask(harness, "get") == 6


def test_rule_20_expired_state_may_be_returned_while_it_is_there():
    harness = harness_of(ON_WRITE, WHILE_THERE)
    harness.process_element(("a", "put", 5))
    harness.clock.advance(500)
    assert ask(harness, "get") == 5  # once: reading it cleans it up
    assert ask(harness, "get") is None


def test_rule_20_elements_of_lists_and_entries_of_maps_expire_one_by_one():
    harness = harness_of()
    harness.process_element(("a", "add", 1))
    harness.process_element(("a", "set", "x", 1))
    harness.clock.advance(60)
    harness.process_element(("a", "add", 2))
    harness.process_element(("a", "set", "y", 2))
    assert (ask(harness, "list"), ask(harness, "map")) == ([1, 2], {"x": 1, "y": 2})
    harness.clock.advance(60)
    assert (ask(harness, "list"), ask(harness, "map")) == ([2], {"y": 2})
    harness.clock.advance(60)
    assert (ask(harness, "list"), ask(harness, "map")) == ([], {})


def test_rule_20_the_time_that_is_left_survives_a_restore():
    harness = harness_of()
    harness.process_element(("a", "put", 5))
    harness.clock.advance(60)
    restored = harness_of(snapshots=[harness.snapshot()], clock=ManualClock(1060))
    assert ask(restored, "get") == 5
    restored.clock.advance(40)
    assert ask(restored, "get") is None


# Rule 21


class Broken(MapFunction):
    def map(self, value):
        return self.look_up(value)

    def look_up(self, value):
        return {1: "one"}[value]


class BrokenProcess(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        raise ValueError(f"cannot process {value}")


class BrokenTimer(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp, ctx):
        raise ValueError("timer broke")


class BrokenOpen(MapFunction):
    def open(self, runtime_context):
        raise ValueError("cannot open")

    def map(self, value):
        return value


def no_reduce(first, second):
    raise ValueError("cannot reduce")


def no_key(value):
    raise ValueError("no key")


def no_partition(key, count):
    raise ValueError("no partition")


def no_time(value, timestamp):
    raise ValueError("no time")


FAILURES = [
    pytest.param(
        lambda stream: stream.map(Broken()).name("look up"), "KeyError: 2", "look up", "2", id="map"
    ),
    pytest.param(
        lambda stream: stream.filter(lambda n: 1 // (n - 2)).name("keep"),
        "ZeroDivisionError",
        "keep",
        "2",
        id="filter",
    ),
    pytest.param(
        lambda stream: stream.flat_map(lambda n: [1 // (n - 2)]).name("spread"),
        "ZeroDivisionError",
        "spread",
        "2",
        id="flat_map",
    ),
    pytest.param(
        lambda stream: stream.process(BrokenProcess()).name("work"),
        "ValueError: cannot process ",
        "work",
        "1",
        id="process",
    ),
    pytest.param(
        lambda stream: stream.key_by(lambda n: 0).reduce(no_reduce).name("fold"),
        "ValueError: cannot reduce",
        "fold",
        "2",
        id="reduce",
    ),
    pytest.param(
        lambda stream: stream.map(lambda n: n).name("before").key_by(no_key).map(lambda n: n),
        "ValueError: no key",
        "before",
        "1",
        id="key selector",
    ),
    pytest.param(
        lambda stream: (
            stream.map(lambda n: n)
            .name("before")
            .partition_custom(no_partition, lambda n: n)
            .map(lambda n: n)
        ),
        "ValueError: no partition",
        "before",
        "1",
        id="partitioner",
    ),
    pytest.param(
        lambda stream: stream.assign_timestamps_and_watermarks(
            MONOTONOUS.with_timestamp_assigner(no_time)
        ).name("times"),
        "ValueError: no time",
        "times",
        "1",
        id="timestamp assigner",
    ),
]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(("program", "error", "operator", "record"), FAILURES)
def test_rule_21_a_failure_names_operator_subtask_and_record(
    program, error, operator, record, parallelism, mode
):
    env = environment(parallelism)
    with pytest.raises(JobExecutionError) as caught:
        collect(program(env.from_collection([1, 2]).rebalance().map(lambda n: n)))
    message = caught.value.message
    assert message.startswith("Traceback (most recent call last):")
    first_frame = message.splitlines()[1]
    assert f'File "{__file__}"' in first_frame
    assert "penstock/runtime" not in message
    assert error in message
    assert f"in operator '{operator}', subtask " in message
    assert f"of {parallelism}" in message
    # in pipelined mode, two subtasks that both fail are side by side
    either = mode == "pipelined" and parallelism == 2
    assert any(f", record {each}" in message for each in (["1", "2"] if either else [record]))


def test_rule_21_the_cause_is_the_users_own_exception():
    with pytest.raises(JobExecutionError) as caught:
        collect(environment().from_collection([1, 2]).map(Broken()))
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__cause__.args == (2,)


@pytest.mark.parametrize(
    ("program", "reported"),
    [
        pytest.param(
            lambda stream: stream.map(BrokenOpen()).name("opener"),
            ["ValueError: cannot open", "in operator 'opener', subtask 1 of 1"],
            id="open",
        ),
        pytest.param(
            lambda stream: stream.key_by(lambda n: n).process(BrokenTimer()).name("alarm"),
            ["ValueError: timer broke", "in operator 'alarm'", "timer 1 of key 1"],
            id="timer",
        ),
    ],
)
def test_rule_21_failures_outside_of_records_name_the_operator(program, reported):
    with pytest.raises(JobExecutionError) as caught:
        collect(program(environment().from_collection([1])))
    message = caught.value.message
    assert message.startswith("Traceback (most recent call last):")
    assert all(text in message for text in reported)


def test_rule_21_a_function_of_a_sink_and_of_a_source_name_their_operators():
    env = environment()
    env.from_collection([1]).add_sink(no_sink).name("writer")
    with pytest.raises(JobExecutionError, match="ValueError: no sink") as caught:
        env.execute()
    assert "writer'" in caught.value.message
    env = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(no_time)
    with pytest.raises(JobExecutionError, match="ValueError: no time") as caught:
        collect(read(env, [[1]], strategy=strategy, name="orders"))
    assert "orders'" in caught.value.message
    assert "record 1" in caught.value.message


def no_sink(value):
    raise ValueError("no sink")


def test_rule_21_nothing_of_a_failed_epoch_is_collected():
    with pytest.raises(JobExecutionError):
        collect(environment().from_collection([1, 2]).map(lambda n: LOG(n) or 1 // (n - 2)))
    assert LOG.lines == [1, 2]
