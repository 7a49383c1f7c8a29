"""The interface of a state backend: what a folder beside this module has to offer (see `backends.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock.common.configuration import Configuration
from penstock.graph.state_backend import StateBackendSettings
from penstock.runtime.state.keyed import Deltas, KeyedStateBackend, ReadChain


@dataclass(frozen=True, slots=True)
class StatePlace:
    """Whose keyed state it is. `operator` is for messages, `place` names the operator among those of the job."""

    job_id: str
    operator: str
    place: str
    subtask: int
    max_parallelism: int


class StateBackend(Protocol):
    """A way to keep keyed state."""

    def settings(self, configuration: Configuration) -> StateBackendSettings:
        """Return what the backend is told by the configuration of a job."""

    def create(
        self, settings: Any, clock: Callable[[], int], place: StatePlace, read_chain: ReadChain
    ) -> KeyedStateBackend:
        """Return an empty backend for one operator in one subtask."""

    def create_temporary(
        self, clock: Callable[[], int], operator: str, max_parallelism: int
    ) -> KeyedStateBackend:
        """Return an empty backend that belongs to no job, for tests."""

    def reads(self, chain: Any) -> bool:
        """Whether a chain of snapshots is one that this backend has written, or reads as its own."""

    def read(
        self, state_io: Any, chain: Any, max_parallelism: int, owned: range | None
    ) -> Iterator[Deltas]:
        """Read the tables of a chain, oldest first; with `owned`, entries of other key groups may be left out."""

    def read_files(self, directory: Path, max_parallelism: int) -> Iterator[Deltas]:
        """Read the tables of a database in a directory, for a backend that writes snapshots as files."""

    def remove_job(self, settings: Any, job_id: str) -> None:
        """Delete what a job left on this machine besides its checkpoints."""
