"""Function classes, tags and other small parts."""

from __future__ import annotations

import pickle

import pytest

from penstock.common import Types
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
from penstock.errors import PenstockError


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


def test_checkpoint_storages_keep_their_arguments():
    files = FileSystemCheckpointStorage("file:///c", 100, 200)
    assert files.get_checkpoint_path() == "file:/c"
    assert (files.get_min_file_size_threshold(), files.get_write_buffer_size()) == (100, 200)
    assert files.get_savepoint_path() is None
    assert files.options() == {
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": "file:/c",
        "execution.checkpointing.data-inline-threshold": "100 b",
    }
    usual = FileSystemCheckpointStorage("file:///c")
    assert (usual.get_min_file_size_threshold(), usual.get_write_buffer_size()) == (20480, 4096)
    assert "execution.checkpointing.data-inline-threshold" not in usual.options()
    memory = JobManagerCheckpointStorage(max_state_size=7)
    assert (memory.get_checkpoint_path(), memory.get_max_state_size()) == (None, 7)
    assert memory.options() == {"execution.checkpointing.storage": "jobmanager"}


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
