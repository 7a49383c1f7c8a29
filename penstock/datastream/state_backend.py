"""State backends in the API of older Flink versions."""

from __future__ import annotations

import enum
from typing import Any

from penstock.datastream._not_implemented import not_implemented
from penstock.datastream.checkpoint_storage import as_flink_path
from penstock.errors import ArgumentError, UnsupportedOperationError
from penstock.errors.argument_checks import check_int, check_text


class StateBackend:
    """Base of state backends. `options()` is the equivalent configuration."""

    def options(self) -> dict[str, str]:
        """Return the options of this backend."""
        raise UnsupportedOperationError(
            f"unsupported state backend {type(self).__name__}",
            hint="use HashMapStateBackend or EmbeddedRocksDBStateBackend",
        )


class HashMapStateBackend(StateBackend):
    """Keeps state as Python objects in memory.

    >>> HashMapStateBackend().options()
    {'state.backend.type': 'hashmap'}
    """

    def __init__(self, j_hashmap_state_backend: Any = None) -> None:
        _refuse_java(j_hashmap_state_backend, "HashMapStateBackend")

    def options(self) -> dict[str, str]:
        """Return the options of this backend."""
        return {"state.backend.type": "hashmap"}


class PredefinedOptions(enum.Enum):
    """Predefined RocksDB settings for kinds of disks."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps state in an embedded RocksDB on the executor's disk.

    >>> EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True).options()
    {'state.backend.type': 'rocksdb', 'execution.checkpointing.incremental': 'true'}
    """

    get_options = not_implemented("RocksDB is tuned by options, not by Java factories")
    set_options = not_implemented(
        "RocksDB is tuned by options, not by Java factories", hint="use set_predefined_options"
    )

    def __init__(
        self,
        enable_incremental_checkpointing: bool | None = None,
        j_embedded_rocks_db_state_backend: Any = None,
    ) -> None:
        _refuse_java(j_embedded_rocks_db_state_backend, "EmbeddedRocksDBStateBackend")
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] | None = None
        self._predefined = PredefinedOptions.DEFAULT
        self._transfer_threads = 4

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the local directories of the databases."""
        if not paths:
            raise ArgumentError("at least one path is required")
        self._paths = [
            as_flink_path(check_text(path, "a storage path")).removeprefix("file:")
            for path in paths
        ]

    def get_db_storage_paths(self) -> list[str] | None:
        """Return the local directories, or None for the default."""
        return None if self._paths is None else list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Whether checkpoints are incremental (default yes)."""
        return self._incremental is not False

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Set predefined settings; single options override them."""
        self._predefined = PredefinedOptions(options)

    def get_predefined_options(self) -> PredefinedOptions:
        """Return the predefined settings."""
        return self._predefined

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Set how many files are transferred to and from checkpoint storage at a time."""
        self._transfer_threads = check_int(
            number_of_transfering_threads, "number_of_transfering_threads", minimum=1
        )

    def get_number_of_transfer_threads(self) -> int:
        """Return how many files are transferred at a time."""
        return self._transfer_threads

    def options(self) -> dict[str, str]:
        """Return the options of this backend."""
        chosen = {"state.backend.type": "rocksdb"}
        if self._incremental is not None:
            chosen["execution.checkpointing.incremental"] = str(self._incremental).lower()
        if self._paths is not None:
            chosen["state.backend.rocksdb.localdir"] = ",".join(self._paths)
        if self._predefined is not PredefinedOptions.DEFAULT:
            chosen["state.backend.rocksdb.predefined-options"] = self._predefined.name
        if self._transfer_threads != 4:
            chosen["state.backend.rocksdb.checkpoint.transfer.thread.num"] = str(
                self._transfer_threads
            )
        return chosen


class CustomStateBackend(StateBackend):
    """A Java state backend, which is not supported."""

    def __init__(self, j_custom_state_backend: Any) -> None:
        _refuse_java(j_custom_state_backend or "a custom state backend", "CustomStateBackend")


def _refuse_java(given: object, name: str) -> None:
    if given is not None:
        raise UnsupportedOperationError(
            f"{name} does not accept JVM objects",
            hint="use HashMapStateBackend() or EmbeddedRocksDBStateBackend()",
        )
