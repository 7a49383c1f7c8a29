"""Function classes, tags, typed wrappers and other small parts."""

from __future__ import annotations

import pickle

import pytest

from penstock.common import Row, Types
from penstock.datastream import (
    AsyncFunction,
    AsyncRetryStrategy,
    CustomCheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    KeyedProcessFunction,
    MapFunction,
    MemorySize,
    OutputTag,
    PredefinedOptions,
    SlotSharingGroup,
)
from penstock.datastream import functions as all_functions
from penstock.datastream._checks import check_function
from penstock.datastream._typed import TypedFlatMap, TypedMap, TypedProcess, converter
from penstock.errors import PenstockError

NAMED = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])


def test_open_and_close_are_optional():
    class Identity(MapFunction):
        def map(self, value):
            return value

    identity = Identity()
    assert identity.open(None) is None
    assert identity.close() is None
    assert identity.map(1) == 1


CONCRETE = {"Function", "BaseBroadcastProcessFunction", "SinkFunction", "SourceFunction"}
ABSTRACT = [n for n in all_functions.__all__ if n.endswith("Function") and n not in CONCRETE]


@pytest.mark.parametrize("name", ABSTRACT)
def test_a_function_class_cannot_be_used_without_its_method(name):
    with pytest.raises(TypeError, match="abstract"):
        getattr(all_functions, name)()


def test_on_timer_is_optional():
    class Pass(KeyedProcessFunction):
        def process_element(self, value, ctx):
            return [value]

    assert Pass().on_timer(1, None) is None


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda value: value, id="a lambda"),
        pytest.param(lambda value, more=1: value, id="optional parameters"),
        pytest.param(lambda *values: values, id="any parameters"),
        pytest.param(str.upper, id="a method of a class"),
        pytest.param("".join, id="a bound builtin"),
        pytest.param(int, id="a class that is callable"),
        pytest.param(dict, id="a builtin without signature"),
        pytest.param(
            type("Duck", (), {"map": lambda self, value: value})(), id="an object with map"
        ),
    ],
)
def test_everything_that_can_be_called_is_taken(function):
    check_function(function, MapFunction, "map", ("value",))


def test_tags_are_equal_by_name_and_pickle():
    tag = OutputTag("late", Types.STRING())
    again = pickle.loads(pickle.dumps(tag))
    assert again == tag == OutputTag("late")
    assert hash(again) == hash(tag)
    assert tag != OutputTag("early", Types.STRING())
    assert tag != "late"
    assert again.type_info == Types.STRING()
    assert OutputTag("t").type_info == Types.PICKLED_BYTE_ARRAY()
    assert OutputTag("t", [Types.INT()]).type_info == Types.ROW([Types.INT()])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        pytest.param(NAMED, Row(1, "a"), Row(id=1, name="a"), id="an unnamed row"),
        pytest.param(NAMED, Row(id=1, name="a"), Row(id=1, name="a"), id="a named row"),
        pytest.param(NAMED, Row(name="a", id=1), Row(id=1, name="a"), id="names in another order"),
        pytest.param(NAMED, (1, "a"), Row(id=1, name="a"), id="a tuple as a row"),
        pytest.param(Types.ROW([Types.INT()]), Row(1), Row(f0=1), id="names by position"),
        pytest.param(
            Types.ROW([NAMED]), Row((1, "a")), Row(f0=Row(id=1, name="a")), id="a row in a row"
        ),
        pytest.param(Types.TUPLE([Types.INT()]), [1], (1,), id="a list as a tuple"),
        pytest.param(
            Types.TUPLE([NAMED]), ((1, "a"),), (Row(id=1, name="a"),), id="a row in a tuple"
        ),
        pytest.param(Types.DOUBLE(), 1, 1.0, id="an int as a double"),
        pytest.param(Types.FLOAT(), 0.1, 0.10000000149011612, id="a float of 32 bits"),
        pytest.param(Types.DOUBLE(), None, None, id="nothing stays nothing"),
    ],
)
def test_values_become_what_their_declared_type_says(kind, value, expected):
    converted = converter(kind)(value)
    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    "kind",
    [None, Types.INT(), Types.STRING(), Types.PICKLED_BYTE_ARRAY(), Types.LIST(Types.INT())],
    ids=str,
)
def test_values_of_other_types_are_not_touched(kind):
    assert converter(kind) is None


@pytest.mark.parametrize("value", [(1,), "ab", Row(1, "a", 2)], ids=repr)
def test_a_value_that_does_not_fit_its_declared_type_is_refused(value):
    with pytest.raises(PenstockError, match="is not a value of type"):
        converter(NAMED)(value)


def yields_pairs(value):
    yield value, "a"
    yield OutputTag("side", NAMED), (value, "b")
    yield OutputTag("plain"), (value, "c")


class Process(KeyedProcessFunction):
    def open(self, runtime_context):
        self.opened = runtime_context

    def close(self):
        self.opened = None

    def process_element(self, value, ctx):
        return yields_pairs(value)

    def on_timer(self, timestamp, ctx):
        yield timestamp, "timer"


EXPECTED = [
    Row(id=1, name="a"),
    (OutputTag("side"), Row(id=1, name="b")),
    (OutputTag("plain"), (1, "c")),
]


def test_typed_functions_convert_results_and_side_outputs():
    assert list(TypedFlatMap(yields_pairs, NAMED).flat_map(1)) == EXPECTED
    process = pickle.loads(pickle.dumps(TypedProcess(Process(), NAMED)))
    assert list(process.process_element(1, None)) == EXPECTED
    assert list(process.on_timer(7, None)) == [Row(id=7, name="timer")]
    process.open("context")
    assert process.function.opened == "context"
    process.close()
    assert process.function.opened is None


def test_typed_functions_may_return_nothing():
    assert TypedFlatMap(lambda value: None, NAMED).flat_map(1) is None
    assert TypedMap(lambda value: (value, "a"), NAMED).map(1) == Row(id=1, name="a")


def test_retry_strategies_say_when_to_try_again():
    fixed = AsyncRetryStrategy.fixed_delay(2, 100, lambda result: not result, None)
    assert [fixed.can_retry(n) for n in (1, 2, 3)] == [True, True, False]
    assert fixed.get_backoff_time_millis(2) == 100
    assert fixed.get_retry_predicate().result_predicate()([]) is True
    assert fixed.get_retry_predicate().exception_predicate() is None
    assert not AsyncRetryStrategy.no_restart().can_retry(1)
    assert AsyncRetryStrategy.no_restart().get_retry_predicate().result_predicate() is None
    with pytest.raises(PenstockError, match="max_attempts must be greater than 0"):
        AsyncRetryStrategy.fixed_delay(0, 100)


def test_an_async_timeout_raises_unless_it_is_overridden():
    class Ask(AsyncFunction):
        async def async_invoke(self, value):
            return [value]

    with pytest.raises(PenstockError, match="timed out"):
        Ask().timeout(1)


@pytest.mark.parametrize(
    ("bytes_size", "kibi", "mebi", "gibi", "tebi"),
    [(0, 0, 0, 0, 0), (1 << 20, 1024, 1, 0, 0), ((1 << 41) + 5, 1 << 31, 1 << 21, 2048, 2)],
)
def test_memory_sizes_are_whole_units(bytes_size, kibi, mebi, gibi, tebi):
    size = MemorySize(bytes_size=bytes_size)
    assert (size.get_kibi_bytes(), size.get_mebi_bytes()) == (kibi, mebi)
    assert (size.get_gibi_bytes(), size.get_tebi_bytes()) == (gibi, tebi)
    assert size == MemorySize(bytes_size=bytes_size)
    assert size < MemorySize(bytes_size=bytes_size + 1)


def test_the_resources_of_a_slot_sharing_group_are_kept():
    group = (
        SlotSharingGroup.builder("g")
        .set_cpu_cores(0.5)
        .set_task_heap_memory("1 gb")
        .set_task_off_heap_memory_mb(2)
        .set_managed_memory(MemorySize.of_mebi_bytes(3))
        .set_external_resource("gpu", 1.0)
        .build()
    )
    assert (group.get_name(), group.get_cpu_cores()) == ("g", 0.5)
    assert group.get_task_heap_memory().get_gibi_bytes() == 1
    assert group.get_task_off_heap_memory().get_mebi_bytes() == 2
    assert group.get_managed_memory().get_mebi_bytes() == 3
    assert group.get_external_resources() == {"gpu": 1.0}


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda b: b.set_cpu_cores(1.0).build(), id="cores without memory"),
        pytest.param(lambda b: b.set_managed_memory_mb(1).build(), id="managed memory alone"),
        pytest.param(lambda b: b.set_cpu_cores(0), id="no cores"),
        pytest.param(lambda b: b.set_task_heap_memory("much"), id="no size"),
    ],
)
def test_incomplete_resources_are_refused(build):
    with pytest.raises(PenstockError):
        build(SlotSharingGroup.builder("g"))


def test_rocksdb_settings_become_options():
    backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
    backend.set_db_storage_paths("/a", "/b")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_number_of_transfer_threads(8)
    assert backend.is_incremental_checkpoints_enabled()
    assert backend.get_db_storage_paths() == ["/a", "/b"]
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert backend.get_number_of_transfer_threads() == 8
    assert backend.options() == {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "state.backend.rocksdb.localdir": "/a,/b",
        "state.backend.rocksdb.predefined-options": "FLASH_SSD_OPTIMIZED",
        "state.backend.rocksdb.checkpoint.transfer.thread.num": "8",
    }


def test_checkpoint_storages_keep_what_they_are_given():
    files = FileSystemCheckpointStorage("file:///c", 100, 200)
    assert files.get_checkpoint_path() == "file:///c"
    assert (files.get_min_file_size_threshold(), files.get_write_buffer_size()) == (100, 200)
    assert files.get_savepoint_path() is None
    assert FileSystemCheckpointStorage("file:///c").get_write_buffer_size() == 4096
    memory = JobManagerCheckpointStorage(max_state_size=7)
    assert (memory.get_checkpoint_path(), memory.get_max_state_size()) == (None, 7)
    assert memory.options() == {}


@pytest.mark.parametrize(
    "create",
    [
        pytest.param(lambda: CustomStateBackend(None), id="a state backend"),
        pytest.param(lambda: CustomCheckpointStorage(None), id="a checkpoint storage"),
        pytest.param(lambda: EmbeddedRocksDBStateBackend(None, object()), id="a wrapped backend"),
        pytest.param(lambda: FileSystemCheckpointStorage(), id="no path"),
    ],
)
def test_java_objects_are_refused(create):
    with pytest.raises(PenstockError):
        create()
