"""Reads the settings of the rocksdb backend from the configuration of a job."""

from __future__ import annotations

import importlib.util
import re
from typing import Any, Final

from penstock import options
from penstock.dependencies.distribution import install_command
from penstock.errors import UnsupportedOperationError
from penstock.options.config_options import ConfigOption
from penstock.options.configuration import Configuration
from penstock.runtime.state.rocksdb.settings import RocksDBSettings

_SPINNING: Final[dict[ConfigOption[Any], Any]] = {
    options.ROCKSDB_COMPACTION_STYLE: "LEVEL",
    options.ROCKSDB_THREADS: 4,
}

# Differences from the RocksDB defaults, as in Flink. Its other settings are defaults here, or have no counterpart.
PREDEFINED: Final[dict[str, dict[ConfigOption[Any], Any]]] = {
    "DEFAULT": {},
    "SPINNING_DISK_OPTIMIZED": _SPINNING,
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM": {
        **_SPINNING,
        options.ROCKSDB_BLOCK_CACHE_SIZE: 256 << 20,
        options.ROCKSDB_BLOCK_SIZE: 128 << 10,
        options.ROCKSDB_WRITE_BUFFER_COUNT: 4,
    },
    "FLASH_SSD_OPTIMIZED": {options.ROCKSDB_THREADS: 4},
}


def rocksdb_settings(configuration: Configuration) -> RocksDBSettings:
    """Return the settings of the rocksdb backend."""
    if importlib.util.find_spec("rocksdict") is None:
        raise UnsupportedOperationError(
            "state backend 'rocksdb' needs the package rocksdict, which is not installed",
            hint=f"{install_command()}, here and on the executors; or set state.backend.type to hashmap",
        )
    predefined = PREDEFINED[configuration.get(options.ROCKSDB_PREDEFINED)]

    def chosen(option: ConfigOption[Any]) -> Any:
        if option in predefined and not configuration.contains(option):
            return predefined[option]
        return configuration.get(option)

    directories = chosen(options.ROCKSDB_LOCAL_DIR) or ""
    return RocksDBSettings(
        local_dirs=tuple(path for path in re.split(r"[,|:]", directories) if path),
        block_cache_size=chosen(options.ROCKSDB_BLOCK_CACHE_SIZE),
        block_size=chosen(options.ROCKSDB_BLOCK_SIZE),
        write_buffer_size=chosen(options.ROCKSDB_WRITE_BUFFER_SIZE),
        write_buffer_count=chosen(options.ROCKSDB_WRITE_BUFFER_COUNT),
        open_files=chosen(options.ROCKSDB_OPEN_FILES),
        background_threads=chosen(options.ROCKSDB_THREADS),
        compaction_style=chosen(options.ROCKSDB_COMPACTION_STYLE),
        bloom_filter=chosen(options.ROCKSDB_BLOOM_FILTER),
        partitioned=chosen(options.ROCKSDB_PARTITIONED),
        incremental=chosen(options.CHECKPOINT_INCREMENTAL),
        transfer_threads=chosen(options.ROCKSDB_TRANSFER_THREADS),
        spill_entries=chosen(options.STATE_SPILL_ENTRIES),
    )
