"""Every option of the documentation does something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock import options
from penstock.checkpoint import shared_files
from penstock.datastream.state_backend import EmbeddedRocksDBStateBackend, PredefinedOptions
from penstock.errors import ConfigurationError
from penstock.options.configuration import Configuration
from penstock.options.option_checks import validate
from penstock.runtime.state.rocksdb.options import PREDEFINED, rocksdb_settings
from penstock.state_descriptors.descriptors import ValueStateDescriptor
from tests.unit.runtime.state.worlds import World

PREFIX = "state.backend.rocksdb."
KB, MB = 1 << 10, 1 << 20

DATABASE = {
    "writebuffer.size": ("2 mb", "write_buffer_size", str(2 * MB)),
    "writebuffer.count": ("3", "max_write_buffer_number", "3"),
    "files.open": ("77", "max_open_files", "77"),
    "thread.num": ("5", "max_background_jobs", "5"),
    "compaction.style": ("LEVEL", "compaction_style", "kCompactionStyleLevel"),
    "block.blocksize": ("16 kb", "block_size", str(16 * KB)),
    "use-bloom-filter": ("false", "filter_policy", "nullptr"),
    "memory.partitioned-index-filters": ("false", "index_type", "kBinarySearch"),
}
ELSEWHERE = {"localdir", "block.cache-size", "checkpoint.transfer.thread.num", "predefined-options"}


def settings_of(**changed):
    chosen = {PREFIX + name: value for name, value in changed.items()}
    return rocksdb_settings(Configuration.from_dict({"state.backend.type": "rocksdb", **chosen}))


@pytest.fixture
def opened(tmp_path):
    """Returns worlds with some state, by what the options say."""
    worlds = []

    def open_world(**changed):
        world = World("rocksdb", tmp_path / str(len(worlds)))
        world.backend.close()
        world.settings = settings_of(localdir=f"{world.directory}/local", **changed)
        world.backend = world.create()
        state = world.backend.get_state(ValueStateDescriptor("count"))
        for key in range(10):
            world.backend.current_key = key
            state.update("x")
        world.barrier()
        worlds.append(world)
        return world

    yield open_world
    for world in worlds:
        world.backend.close()


def database_options(world):
    """What RocksDB has noted of its options, beside its files."""
    newest = max(world.backend.store.directory.glob("OPTIONS-*"))
    return dict(re.findall(r"^ *(\w+)=(.*)$", newest.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", DATABASE)
def test_an_option_reaches_the_database(opened, name):
    value, key, expected = DATABASE[name]
    assert database_options(opened())[key] != expected
    world = opened(**{name: value})
    assert database_options(world)[key] == expected
    world.crash()
    assert database_options(world)[key] == expected


def test_the_block_cache_has_its_size(opened):
    world = opened(**{"block.cache-size": "3 mb"})
    assert world.backend.store._db.property_int_value("rocksdb.block-cache-capacity") == 3 * MB


def test_databases_are_in_the_local_directories(opened, tmp_path):
    world = opened()
    assert list(Path(f"{world.directory}/local").rglob("*.sst"))


def test_files_are_moved_by_so_many_threads(opened, monkeypatch):
    seen = []
    each = shared_files._each
    monkeypatch.setattr(shared_files, "_each", lambda *args: (seen.append(args[2]), each(*args))[1])
    world = opened(**{"checkpoint.transfer.thread.num": "3"})
    world.crash(lose_local=True)
    assert set(seen) == {3}


def test_entries_beyond_the_limit_are_written_early(tmp_path):
    configuration = {"state.backend.type": "rocksdb", "penstock.state.spill-entries": "5"}
    settings = rocksdb_settings(Configuration.from_dict(configuration))
    world = World("rocksdb", tmp_path, spill_entries=settings.spill_entries)
    state = world.backend.get_state(ValueStateDescriptor("count"))
    kept = []
    for key in range(6):
        world.backend.current_key = key
        state.update("x")
        world.backend.trim_cache()
        kept.append(world.backend.table("state/count").pending())
    assert kept == [1, 2, 3, 4, 5, 0]
    world.backend.close()


def test_incremental_checkpoints_are_the_default():
    assert settings_of().incremental
    reported = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "false"}
    assert not rocksdb_settings(Configuration.from_dict(reported)).incremental
    assert EmbeddedRocksDBStateBackend().is_incremental_checkpoints_enabled()
    assert not EmbeddedRocksDBStateBackend(False).is_incremental_checkpoints_enabled()


@pytest.mark.parametrize("chosen", PredefinedOptions)
def test_predefined_options_are_defaults_of_the_others(chosen):
    backend = EmbeddedRocksDBStateBackend()
    backend.set_predefined_options(chosen)
    found = rocksdb_settings(Configuration.from_dict(backend.options()))
    expected = {
        PredefinedOptions.DEFAULT: ("UNIVERSAL", 2, 64 * MB, 4 * KB, 2),
        PredefinedOptions.SPINNING_DISK_OPTIMIZED: ("LEVEL", 4, 64 * MB, 4 * KB, 2),
        PredefinedOptions.SPINNING_DISK_OPTIMIZED_HIGH_MEM: ("LEVEL", 4, 256 * MB, 128 * KB, 4),
        PredefinedOptions.FLASH_SSD_OPTIMIZED: ("UNIVERSAL", 4, 64 * MB, 4 * KB, 2),
    }
    assert expected[chosen] == (
        found.compaction_style,
        found.background_threads,
        found.block_cache_size,
        found.block_size,
        found.write_buffer_count,
    )


def test_an_option_that_is_set_counts_before_the_predefined_ones():
    found = settings_of(
        **{
            "predefined-options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
            "block.cache-size": "8 mb",
            "compaction.style": "UNIVERSAL",
        }
    )
    assert (found.block_cache_size, found.compaction_style) == (8 * MB, "UNIVERSAL")
    assert found.block_size == 128 * KB


def test_no_option_is_without_a_test():
    tested = {PREFIX + name for name in [*DATABASE, *ELSEWHERE]}
    assert {key for key in options.OPTIONS if key.startswith(PREFIX)} == tested
    assert set(PREDEFINED) == {option.name for option in PredefinedOptions}


def test_no_option_is_without_a_place_in_the_documentation():
    page = Path(__file__).parents[5].joinpath("docs/concepts/state.md").read_text()
    table = page.partition("### Options")[2].partition("\n## ")[0]
    for name in [*DATABASE, *ELSEWHERE]:
        assert f"{PREFIX}{name}`" in table or f"`.{name}`" in table, name


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state.backend.rocksdb.memory.managed", "true"),
        ("state.backend.rocksdb.timer-service.factory", "HEAP"),
        ("state.backend.rocksdb.log.level", "INFO_LEVEL"),
    ],
)
def test_options_of_flink_without_effect_are_accepted(key, value):
    validate(Configuration.from_dict({key: value}))


@pytest.mark.parametrize(
    "key", ["state.backend.rocksdb.block.cachesize", "state.backend.rocksdb.write-buffer.size"]
)
def test_misspelt_options_are_refused(key):
    with pytest.raises(ConfigurationError, match="unknown option") as caught:
        validate(Configuration.from_dict({key: "1"}))
    assert "did you mean state.backend.rocksdb" in caught.value.hint
