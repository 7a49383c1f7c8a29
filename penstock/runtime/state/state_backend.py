"""The interface of a state backend package (see `backends.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock.graph.state_backend import StateBackendSettings
from penstock.options.configuration import Configuration
from penstock.runtime.state.keyed import Deltas, KeyedStateBackend, ReadChain


@dataclass(frozen=True, slots=True)
class StatePlace:
    """The owner of keyed state. `operator` is for messages, `place` identifies the operator in the job."""

    job_id: str
    operator: str
    place: str
    subtask: int
    max_parallelism: int


class StateBackendFactory(Protocol):
    """A kind of state backend."""

    def settings(self, configuration: Configuration) -> StateBackendSettings:
        """Return the settings in the configuration of a job."""

    def create(
        self, settings: Any, clock: Callable[[], int], place: StatePlace, read_chain: ReadChain
    ) -> KeyedStateBackend:
        """Return an empty backend for one operator in one subtask."""

    def create_temporary(
        self, clock: Callable[[], int], operator: str, max_parallelism: int
    ) -> KeyedStateBackend:
        """Return an empty backend without a job, for tests."""

    def reads(self, chain: object) -> bool:
        """Whether this backend has written a chain of snapshots, or reads it as its own."""

    def read(
        self, state_io: Any, chain: Any, max_parallelism: int, owned: range | None
    ) -> Iterator[Deltas]:
        """Read the tables of a chain, oldest first; with `owned`, entries of other key groups may be omitted."""

    def read_files(self, directory: Path, max_parallelism: int) -> Iterator[Deltas]:
        """Read the tables of a database in a directory, for a backend whose snapshots are files."""

    def remove_job(self, settings: Any, job_id: str) -> None:
        """Delete the local files of a job on this machine, besides its checkpoints."""
