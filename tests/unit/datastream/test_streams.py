"""What the methods of streams add to the program."""

from __future__ import annotations

import pytest

from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    ProcessFunction,
    SlotSharingGroup,
)
from penstock.datastream.data_stream import DataStream, KeyedStream
from penstock.graph import operator_specs as specs
from penstock.graph.partitioning import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Hash,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.graph.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    UnionTransformation,
)
from tests.unit.datastream.conftest import PathSink


class Add(MapFunction):
    def map(self, value):
        return value + 1


class Twice(FlatMapFunction):
    def flat_map(self, value):
        return [value, value]


class Positive(FilterFunction):
    def filter(self, value):
        return value > 0


class Pass(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class KeyedPass(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class SelfSelector(KeySelector):
    def get_key(self, value):
        return value


ADD, TWICE, POSITIVE, PASS, SELF = Add(), Twice(), Positive(), Pass(), SelfSelector()


@pytest.mark.parametrize(
    ("build", "spec", "name"),
    [
        pytest.param(lambda s: s.map(ADD), specs.MapSpec(ADD), "Map", id="map"),
        pytest.param(lambda s: s.map(str), specs.MapSpec(str), "Map", id="map with a type"),
        pytest.param(
            lambda s: s.flat_map(TWICE), specs.FlatMapSpec(TWICE), "FlatMap", id="flat_map"
        ),
        pytest.param(
            lambda s: s.filter(POSITIVE), specs.FilterSpec(POSITIVE), "Filter", id="filter"
        ),
        pytest.param(lambda s: s.process(PASS), specs.ProcessSpec(PASS), "PROCESS", id="process"),
    ],
)
def test_a_step_becomes_an_operator_of_its_kind(stream, build, spec, name):
    result = build(stream)
    operator = result.transformation
    assert isinstance(operator, OperatorTransformation)
    assert (operator.spec, operator.name, operator.kind) == (spec, name, "operator")
    assert operator.inputs == (stream.transformation,)
    assert operator.key_selectors == ()
    assert type(result) is DataStream


@pytest.mark.parametrize(
    ("build", "partitioning"),
    [
        pytest.param(lambda s: s.shuffle(), Shuffle(), id="shuffle"),
        pytest.param(lambda s: s.rebalance(), Rebalance(), id="rebalance"),
        pytest.param(lambda s: s.rescale(), Rescale(), id="rescale"),
        pytest.param(lambda s: s.forward(), Forward(), id="forward"),
        pytest.param(lambda s: s.broadcast(), Broadcast(), id="broadcast"),
        pytest.param(lambda s: s.global_(), Global(), id="global"),
        pytest.param(lambda s: s.partition_custom(max, SELF), Custom(max, SELF), id="custom"),
        pytest.param(lambda s: s.key_by(SELF), Hash(SELF), id="key_by"),
    ],
)
def test_a_partitioning_is_virtual_and_keeps_the_type(env, build, partitioning):
    numbers = env.from_collection([1], Types.INT())
    result = build(numbers).transformation
    assert isinstance(result, PartitionTransformation)
    assert result.partitioning == partitioning
    assert result.inputs == (numbers.transformation,)
    assert result.output_type == Types.INT()


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        pytest.param(lambda s: s.map(ADD), specs.MapSpec, id="map"),
        pytest.param(lambda s: s.flat_map(TWICE), specs.FlatMapSpec, id="flat_map"),
        pytest.param(lambda s: s.filter(POSITIVE), specs.FilterSpec, id="filter"),
        pytest.param(lambda s: s.process(KeyedPass()), specs.KeyedProcessSpec, id="process"),
        pytest.param(lambda s: s.reduce(max), specs.KeyedReduceSpec, id="reduce"),
        pytest.param(lambda s: s.sum(), specs.KeyedReduceSpec, id="sum"),
        pytest.param(lambda s: s.count_window(2).reduce(max), specs.WindowSpec, id="window"),
    ],
)
def test_operators_on_a_keyed_stream_know_its_key_selector(stream, build, kind):
    keyed = stream.key_by(SELF)
    operator = build(keyed).transformation
    assert isinstance(operator.spec, kind)
    assert operator.key_selectors == (SELF,)
    assert operator.inputs == (keyed.transformation,)


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda s: s.project(0), id="project"),
        pytest.param(
            lambda s: s.assign_timestamps_and_watermarks(
                WatermarkStrategy.for_monotonous_timestamps()
            ),
            id="timestamps",
        ),
        pytest.param(lambda s: s.sink_to(PathSink()), id="sink"),
        pytest.param(lambda s: s.print(), id="print"),
        pytest.param(lambda s: s.count_window_all(2).reduce(max), id="window_all"),
    ],
)
def test_other_steps_after_a_keyed_stream_are_partitioned_by_key_but_not_keyed(stream, build):
    keyed = stream.key_by(SELF)
    operator = build(keyed).transformation
    assert operator.key_selectors == ()
    assert operator.inputs == (keyed.transformation,)


def test_key_by_on_a_keyed_stream_starts_from_the_stream_before(stream):
    again = stream.key_by(SELF).key_by(str)
    assert isinstance(again, KeyedStream)
    assert again.transformation.inputs == (stream.transformation,)


def test_undeclared_types_are_pickled_objects(env):
    numbers = env.from_collection([(1, "a")], Types.TUPLE([Types.INT(), Types.STRING()]))
    assert numbers.get_type() == Types.TUPLE([Types.INT(), Types.STRING()])
    assert numbers.filter(bool).get_type() == numbers.get_type()
    assert numbers.map(str).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert numbers.map(str, Types.STRING()).get_type() == Types.STRING()
    assert numbers.project(1).get_type() == Types.TUPLE([Types.STRING()])
    assert numbers.rebalance().get_type() == numbers.get_type()
    keyed = numbers.key_by(lambda value: value[0], Types.INT())
    assert keyed.get_type() == Types.ROW([Types.INT(), numbers.get_type()])
    assert keyed.reduce(max).get_type() == numbers.get_type()
    assert numbers.map(str, [Types.STRING()]).get_type() == Types.ROW([Types.STRING()])


def test_a_union_has_all_inputs_in_order(env):
    first, second, third = (env.from_collection([n], Types.INT()) for n in range(3))
    united = first.union(second, third.key_by(SELF))
    assert isinstance(united.transformation, UnionTransformation)
    assert [type(step).__name__ for step in united.transformation.inputs] == [
        "OperatorTransformation",
        "OperatorTransformation",
        "PartitionTransformation",
    ]
    assert united.get_type() == Types.INT()


def test_a_union_of_declared_and_undeclared_types_has_the_declared_one(env):
    declared = env.from_collection([1], Types.INT())
    assert declared.map(ADD).union(declared).get_type() == Types.INT()


def test_a_side_output_reads_from_its_operator_and_has_the_tags_type(stream):
    tag = OutputTag("late", Types.STRING())
    processed = stream.process(PASS)
    side = processed.get_side_output(tag)
    assert isinstance(side.transformation, SideOutputTransformation)
    assert side.transformation.tag_id == "late"
    assert side.transformation.inputs == (processed.transformation,)
    assert side.get_type() == Types.STRING()


def test_one_tag_may_be_used_at_two_operators(stream):
    tag = OutputTag("late", Types.STRING())
    first = stream.process(PASS).get_side_output(tag)
    second = stream.process(PASS).get_side_output(tag)
    assert first.transformation.inputs != second.transformation.inputs


def test_settings_reach_the_operator(stream, env):
    group = SlotSharingGroup.builder("heavy").build()
    result = (
        stream.map(ADD)
        .name("add")
        .uid("add-1")
        .set_parallelism(3)
        .set_max_parallelism(64)
        .set_description("adds one")
        .set_buffer_timeout(20)
        .slot_sharing_group(group)
        .start_new_chain()
    )
    operator = result.transformation
    assert result.get_name() == "add"
    assert (operator.uid, operator.parallelism, operator.max_parallelism) == ("add-1", 3, 64)
    assert (operator.description, operator.buffer_timeout) == ("adds one", 20)
    assert (operator.slot_sharing_group, operator.chaining) == ("heavy", "HEAD")
    assert result.disable_chaining().transformation.chaining == "NEVER"
    assert result.set_buffer_timeout(-1).transformation.buffer_timeout is None


def test_a_uid_hash_is_kept(stream):
    digits = "0123456789abcdef" * 2
    assert stream.map(ADD).set_uid_hash(digits).transformation.uid_hash == digits


def test_an_operator_that_is_forced_to_one_subtask_stays_there(stream):
    operator = stream.map(ADD).force_non_parallel().transformation
    assert (operator.parallelism, operator.max_parallelism) == (1, 1)
    assert operator.parallelism_fixed


def test_sinks_have_settings_too(stream):
    sink = stream.sink_to(PathSink()).name("out").uid("sink-1").set_parallelism(2)
    sink.set_description("the end").slot_sharing_group("io").disable_chaining()
    operator = sink.transformation
    assert (operator.kind, operator.name, operator.uid) == ("sink", "out", "sink-1")
    assert (operator.parallelism, operator.slot_sharing_group) == (2, "io")
    assert (operator.description, operator.chaining) == ("the end", "NEVER")
    assert isinstance(operator.spec, specs.SinkSpec)


def test_a_sink_may_prepare_its_stream(stream):
    class Prepared(PathSink):
        def get_transformer(self):
            return self

        def apply(self, data_stream):
            return data_stream.map(ADD).name("prepared")

    operator = stream.sink_to(Prepared()).transformation
    assert [step.name for step in operator.inputs] == ["prepared"]


def test_collected_rows_of_a_keyed_stream_hold_key_and_element(stream, executor):
    stream.key_by(lambda value: value[0]).execute_and_collect().close()
    (sink,) = executor.submitted[0][0][-1:]
    rows = sink.inputs[0].spec.function
    assert rows.map(("a", 1)) == Row(f0="a", f1=("a", 1))


def test_streams_know_their_environment(stream, env):
    assert stream.get_execution_environment() is env
    assert stream.key_by(SELF).map(ADD).get_execution_environment() is env
    assert stream.key_by(SELF).count_window(3).get_execution_environment() is env
    assert stream.get_execution_config() is env.get_config()


def test_a_union_of_nothing_is_the_stream_itself(stream):
    assert stream.union() is stream


def test_an_empty_collection_needs_no_type(env):
    assert env.from_collection([]).get_type() == Types.PICKLED_BYTE_ARRAY()
