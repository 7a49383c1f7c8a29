"""Creates hashmap backends, and reads their snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.errors import UnsupportedOperationError
from penstock.graph.state_backend import StateBackendSettings
from penstock.options.configuration import Configuration
from penstock.runtime.state.hashmap.backend import HashMapKeyedStateBackend
from penstock.runtime.state.keyed import Deltas, ReadChain, database_of, load_tables
from penstock.runtime.state.state_backend import StatePlace


class HashMapStateBackendFactory:
    """Keeps state in memory; its snapshots are tables, like those of savepoints."""

    def settings(self, configuration: Configuration) -> StateBackendSettings:
        """Return the settings, which are just the name."""
        return StateBackendSettings()

    def create(
        self, settings: object, clock: Callable[[], int], place: StatePlace, read_chain: ReadChain
    ) -> HashMapKeyedStateBackend:
        """Return an empty backend for one operator in one subtask."""
        return HashMapKeyedStateBackend(clock, place.operator, read_chain)

    def create_temporary(
        self, clock: Callable[[], int], operator: str, max_parallelism: int
    ) -> HashMapKeyedStateBackend:
        """Return an empty backend without a job, for tests."""
        return HashMapKeyedStateBackend(clock, operator)

    def reads(self, chain: object) -> bool:
        """Whether a chain consists of tables."""
        return database_of(chain) is None

    def read(
        self, state_io: object, chain: object, max_parallelism: int, owned: range | None
    ) -> Iterator[Deltas]:
        """Read the tables of a chain, oldest first."""
        return load_tables(state_io, chain, max_parallelism, owned)

    def read_files(self, directory: Path, max_parallelism: int) -> Iterator[Deltas]:
        """Raise: this backend writes no files."""
        raise UnsupportedOperationError("the hashmap backend has no database to read")

    def remove_job(self, settings: object, job_id: str) -> None:
        """Do nothing: all state ends with the process."""
