"""Which backend keeps the state of an operator."""

from __future__ import annotations

from collections.abc import Callable

from penstock.graph.deployment import JobSettings
from penstock.runtime.state.keyed import KeyedStateBackend


def create_backend(
    settings: JobSettings,
    clock: Callable[[], int],
    *,
    operator: str,
    place: str,
    subtask: int,
    max_parallelism: int,
) -> KeyedStateBackend:
    """Return an empty backend. `operator` is for messages, `place` names the operator's local directory."""
    if settings.rocksdb is None:
        return KeyedStateBackend(clock, operator)
    from penstock.runtime.state.rocksdb.backend import RocksDBStateBackend
    from penstock.runtime.state.rocksdb.local_directory import LocalDirectory

    directory = LocalDirectory(settings.rocksdb.local_dirs, settings.job_id, place, subtask)
    return RocksDBStateBackend(clock, directory, settings.rocksdb, max_parallelism, operator)
