"""The registry of state backends, and functions that work with all of them.

A new backend is a folder next to this module with a StateBackend in it, a line at the end of BACKENDS, and its name among the
values of `state.backend.type`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from penstock import options
from penstock.graph.state_backend import StateBackendSettings
from penstock.options.configuration import Configuration
from penstock.runtime.state.hashmap.state_backend import HashMapStateBackendFactory
from penstock.runtime.state.keyed import Deltas, KeyedStateBackend
from penstock.runtime.state.rocksdb.state_backend import RocksDBStateBackendFactory
from penstock.runtime.state.state_backend import StateBackendFactory, StatePlace

BACKENDS: Final[dict[str, StateBackendFactory]] = {
    "hashmap": HashMapStateBackendFactory(),
    "rocksdb": RocksDBStateBackendFactory(),
}


def backend_settings(configuration: Configuration) -> StateBackendSettings:
    """Return the settings of the configured backend."""
    return BACKENDS[configuration.get(options.STATE_BACKEND)].settings(configuration)


def create_backend(
    settings: StateBackendSettings, clock: Callable[[], int], place: StatePlace
) -> KeyedStateBackend:
    """Return an empty backend for one operator in one subtask; it can be restored from the snapshots of any backend."""
    return BACKENDS[settings.name].create(settings, clock, place, read_chain)


def read_chain(
    state_io: object, chain: object, max_parallelism: int, owned: range | None = None
) -> Iterator[Deltas]:
    """Read the tables of a chain, oldest first, whichever backend wrote it.

    With `owned`, entries of other key groups may be omitted.
    """
    # From the last on: the first one reads tables, whichever backend wrote them.
    reader = next(backend for backend in reversed(BACKENDS.values()) if backend.reads(chain))
    return reader.read(state_io, chain, max_parallelism, owned)


def remove_local_state(settings: StateBackendSettings, job_id: str) -> None:
    """Delete the local files of a job on this machine, besides its checkpoints."""
    BACKENDS[settings.name].remove_job(settings, job_id)
