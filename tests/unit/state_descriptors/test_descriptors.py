from __future__ import annotations

import pickle

import pytest

from penstock.common import Duration, Time, Types
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.state_descriptors.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


class Sum:
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator


DESCRIPTORS = [
    (lambda name: ValueStateDescriptor(name, Types.INT()), "value", Types.INT()),
    (lambda name: ListStateDescriptor(name, Types.INT()), "list", Types.LIST(Types.INT())),
    (
        lambda name: MapStateDescriptor(name, Types.STRING(), Types.INT()),
        "map",
        Types.MAP(Types.STRING(), Types.INT()),
    ),
    (lambda name: ReducingStateDescriptor(name, max, Types.INT()), "reducing", Types.INT()),
    (lambda name: AggregatingStateDescriptor(name, Sum(), Types.INT()), "aggregating", Types.INT()),
]
each_descriptor = pytest.mark.parametrize(
    ("create", "kind", "type_info"), DESCRIPTORS, ids=[kind for _, kind, _ in DESCRIPTORS]
)


@each_descriptor
def test_a_descriptor_has_a_name_a_kind_and_a_type(create, kind, type_info):
    descriptor = create("counts")
    assert descriptor.name == descriptor.get_name() == "counts"
    assert descriptor.kind == kind
    assert descriptor.type_info == type_info
    assert descriptor.ttl_config is None


@each_descriptor
@pytest.mark.parametrize(
    ("name", "error"),
    [("", ArgumentError), (None, ArgumentTypeError), (5, ArgumentTypeError)],
    ids=repr,
)
def test_a_name_is_a_text_that_is_not_empty(create, kind, type_info, name, error):
    with pytest.raises(error, match="state name"):
        create(name)


def test_the_functions_are_given_back():
    aggregate = Sum()
    assert ReducingStateDescriptor("a", max, Types.INT()).get_reduce_function() is max
    assert AggregatingStateDescriptor("a", aggregate, Types.INT()).get_agg_function() is aggregate


def test_a_type_may_be_left_out():
    assert ValueStateDescriptor("v").type_info is None
    assert MapStateDescriptor("m").type_info is None


@pytest.mark.parametrize(
    ("create", "match"),
    [
        (lambda: ValueStateDescriptor("v", int), "value_type_info is not a type"),
        (lambda: ListStateDescriptor("l", Types.INT), r"Types.INT\(\)"),
        (lambda: MapStateDescriptor("m", "key", Types.INT()), "key_type_info"),
        (lambda: ReducingStateDescriptor("r", 5, Types.INT()), "reduce_function"),
        (lambda: AggregatingStateDescriptor("a", max, Types.INT()), "create_accumulator"),
        (lambda: ValueStateDescriptor("v").enable_time_to_live(5), "StateTtlConfig"),
    ],
    ids=["python type", "parentheses", "text", "reduce", "aggregate", "ttl"],
)
def test_arguments_are_checked(create, match):
    with pytest.raises(ArgumentTypeError, match=match):
        create()


def test_time_to_live_has_flinks_defaults():
    config = StateTtlConfig.new_builder(Duration.of_seconds(10)).build()
    assert config.ttl_ms == 10_000
    assert config.get_ttl() == Duration.of_seconds(10)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert (
        config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    )
    cleanup = config.get_cleanup_strategies()
    assert cleanup.is_cleanup_in_background()
    assert not cleanup.in_full_snapshot()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (
        5,
        False,
    )
    rocksdb = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert rocksdb.get_query_time_after_num_entries() == 1000
    assert rocksdb.get_periodic_compaction_time() == Duration.of_days(30)


def test_the_builder_sets_everything():
    config = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_ttl(Time.seconds(2))
        .update_ttl_on_create_and_write()
        .update_ttl_on_read_and_write()
        .never_return_expired()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(10, True)
        .cleanup_in_rocksdb_compact_filter(99, Duration.of_days(1))
        .disable_cleanup_in_background()
        .build()
    )
    assert config.ttl_ms == 2000
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert (
        config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    )
    cleanup = config.get_cleanup_strategies()
    assert not cleanup.is_cleanup_in_background()
    assert cleanup.in_full_snapshot()
    assert cleanup.get_incremental_cleanup_strategy().get_cleanup_size() == 10
    assert cleanup.get_incremental_cleanup_strategy().run_cleanup_for_every_record()
    rocksdb = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert rocksdb.get_query_time_after_num_entries() == 99
    assert rocksdb.get_periodic_compaction_time() == Duration.of_days(1)


def test_without_background_cleanup_nothing_is_cleaned_unless_asked():
    cleanup = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .disable_cleanup_in_background()
        .build()
        .get_cleanup_strategies()
    )
    assert cleanup.get_incremental_cleanup_strategy() is None
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is None


def test_a_disabled_configuration_leaves_the_state_without_one():
    descriptor = ValueStateDescriptor("v")
    enabled = StateTtlConfig.new_builder(Time.seconds(1)).build()
    disabled = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_update_type(StateTtlConfig.UpdateType.Disabled)
        .build()
    )
    descriptor.enable_time_to_live(enabled)
    assert descriptor.ttl_config is enabled
    descriptor.enable_time_to_live(disabled)
    assert descriptor.ttl_config is None


def test_descriptors_survive_pickling():
    descriptor = AggregatingStateDescriptor("a", Sum(), Types.INT())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(3)).build())
    again = pickle.loads(pickle.dumps(descriptor))
    assert again.ttl_config.ttl_ms == 3000
    assert again.ttl_config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert again.kind == "aggregating"


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda: StateTtlConfig.new_builder(0), ArgumentError),
        (lambda: StateTtlConfig.new_builder("1 s"), ArgumentTypeError),
        (lambda: StateTtlConfig.new_builder(1).set_update_type("x"), ArgumentTypeError),
        (lambda: StateTtlConfig.new_builder(1).set_state_visibility(1), ArgumentTypeError),
        (lambda: StateTtlConfig.new_builder(1).cleanup_incrementally(0, False), ArgumentError),
    ],
    ids=["zero", "text", "update", "visibility", "size"],
)
def test_settings_that_make_no_sense_are_refused(act, error):
    with pytest.raises(error):
        act()
