"""Declared types at every kind of operator, in whole programs."""

from __future__ import annotations

import pytest

from penstock.common import Row, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import JobExecutionError
from penstock.testing import MiniCluster

NAMED = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.INT()])
SIDE = OutputTag("side", Types.ROW_NAMED(["only"], [Types.DOUBLE()]))


class ByValue(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Emit(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        yield SIDE, Row(value[1])


class EmitKeyed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)
        return [value]

    def on_timer(self, timestamp, ctx):
        yield Row(ctx.get_current_key(), -1)


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return Row("all", accumulator)

    def merge(self, a, b):
        return a + b


class EmitWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, len(list(elements))


def by_time(stream):
    return stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByValue())
    ).key_by(lambda row: row[0])


def windows(stream):
    return by_time(stream).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))


OPERATORS = {
    "map": lambda s: s.map(lambda each: each, NAMED),
    "flat_map": lambda s: s.flat_map(lambda each: [each], NAMED),
    "process": lambda s: s.process(Emit(), NAMED),
    "keyed process": lambda s: by_time(s).process(EmitKeyed(), NAMED),
    "window": lambda s: windows(s).process(EmitWindow(), NAMED),
    "aggregate": lambda s: windows(s).aggregate(Count(), output_type=NAMED),
}


@pytest.fixture
def stream():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    with MiniCluster():
        yield env.from_collection([("a", 1), ("a", 2)])


@pytest.mark.parametrize("name", OPERATORS)
def test_the_results_of_every_operator_get_the_names_of_their_type(stream, name):
    results = list(OPERATORS[name](stream).execute_and_collect())
    assert results
    assert [row.get_field_names() for row in results] == [["word", "count"]] * len(results)


def test_a_side_output_has_the_type_of_its_tag(stream):
    side = stream.process(Emit(), NAMED).get_side_output(SIDE)
    assert list(side.execute_and_collect()) == [Row(only=1.0), Row(only=2.0)]


def test_the_error_names_the_operator_the_field_and_the_value(stream):
    grown = stream.map(lambda each: (each[0], each[1] * 2**31), NAMED).name("grow")
    with pytest.raises(JobExecutionError) as caught, grown.execute_and_collect() as results:
        list(results)
    text = str(caught.value)
    assert "2147483648 (int) is not a value of type Integer" in text
    assert (
        "in operator 'grow', subtask 1 of 1, in field 'count' of record ('a', 2147483648)" in text
    )
    assert "hint: return an int of 32 bits, or declare Types.LONG()" in text


def test_a_sum_that_outgrows_its_type_is_an_error(stream):
    typed = stream.map(
        lambda each: (each[0], 2**30 + each[1]), Types.TUPLE([Types.STRING(), Types.INT()])
    )
    sums = typed.key_by(lambda each: each[0]).sum(1)
    with (
        pytest.raises(JobExecutionError, match="in operator 'Sum'"),
        sums.execute_and_collect() as found,
    ):
        list(found)


def test_declared_type_applies_to_its_branch_only(stream):
    rows = stream.map(lambda each: Row(*each))
    named = rows.map(lambda row: row, NAMED).map(lambda row: ("named", row.get_field_names()))
    plain = rows.map(lambda row: ("plain", row.get_field_names()))
    results = list(named.union(plain).execute_and_collect())
    assert sorted(results, key=repr) == [
        ("named", ["word", "count"]), ("named", ["word", "count"]), ("plain", None), ("plain", None),
    ]  # fmt: skip
