"""Creates rocksdb backends, and reads their snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from penstock.options.configuration import Configuration
from penstock.processes import temporary
from penstock.runtime.state.keyed import Deltas, ReadChain, database_of
from penstock.runtime.state.rocksdb.backend import RocksDBKeyedStateBackend, read_deltas
from penstock.runtime.state.rocksdb.local_directory import LocalDirectory, remove_job
from penstock.runtime.state.rocksdb.options import rocksdb_settings
from penstock.runtime.state.rocksdb.settings import RocksDBSettings
from penstock.runtime.state.state_backend import StatePlace


class RocksDBStateBackendFactory:
    """Keeps state in databases; its snapshots are their files."""

    def settings(self, configuration: Configuration) -> RocksDBSettings:
        """Return the settings in the configuration of a job."""
        return rocksdb_settings(configuration)

    def create(
        self,
        settings: RocksDBSettings,
        clock: Callable[[], int],
        place: StatePlace,
        read_chain: ReadChain,
    ) -> RocksDBKeyedStateBackend:
        """Return an empty backend for one operator in one subtask."""
        directory = LocalDirectory(settings.local_dirs, place.job_id, place.place, place.subtask)
        return RocksDBKeyedStateBackend(
            clock, directory, settings, place.max_parallelism, place.operator, read_chain
        )

    def create_temporary(
        self, clock: Callable[[], int], operator: str, max_parallelism: int
    ) -> RocksDBKeyedStateBackend:
        """Return an empty backend in a new temporary directory, for tests."""
        return RocksDBKeyedStateBackend.temporary(clock, max_parallelism, operator=operator)

    def reads(self, chain: object) -> bool:
        """Whether a chain is a snapshot of a database."""
        return database_of(chain) is not None

    def read(
        self, state_io: Any, chain: Any, max_parallelism: int, owned: range | None
    ) -> Iterator[Deltas]:
        """Read the tables of a database, some entries at a time; all key groups."""
        with temporary.directory("state") as directory:
            path = Path(directory) / "database"
            path.mkdir()
            state_io.fetch_files(database_of(chain), path, RocksDBSettings())
            yield from self.read_files(path, max_parallelism)

    def read_files(self, directory: Path, max_parallelism: int) -> Iterator[Deltas]:
        """Read the tables of a database in a directory, some entries at a time."""
        return read_deltas(directory, RocksDBSettings(), max_parallelism)

    def remove_job(self, settings: RocksDBSettings, job_id: str) -> None:
        """Delete the databases of a job on this machine."""
        remove_job(settings.local_dirs, job_id)
