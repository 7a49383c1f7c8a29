"""What a subtask remembers: the keyed state of its chain, and how it is read from and written to checkpoint storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock.common.pickling import NotPicklableError, dumps, is_picklable
from penstock.errors import RecordError
from penstock.graph.deployment import JobSettings, SubtaskRestore, VertexDeployment
from penstock.graph.key_groups import key_group_range
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.state.backends import create_backend
from penstock.runtime.state.keyed import KeyedStateBackend
from penstock.runtime.state.state_backend import StatePlace
from penstock.runtime.state.table import TableDelta


@dataclass(frozen=True, slots=True)
class SnapshotName:
    """Who takes a snapshot, and when: unique to the attempt."""

    epoch: int
    operator: str
    subtask: int
    attempt: str
    key_groups: tuple[int, int]


class StateIO(Protocol):
    """How a subtask reads and writes its keyed state on checkpoint storage."""

    def load(self, chain: Any, owned: range | None = None) -> Iterator[dict[str, TableDelta]]:
        """Read the snapshots of a chain, oldest first; entries of key groups that are not `owned` may be left out."""

    def store(
        self,
        chain: Any,
        name: SnapshotName,
        delta: dict[str, TableDelta],
        full: Callable[[], dict[str, TableDelta]],
    ) -> Any:
        """Write `delta` (or, if that is due or `chain` is None, `full()`) and return the new chain."""

    def store_files(self, chain: Any, name: SnapshotName, directory: Path, settings: Any) -> Any:
        """Write the files of a database that storage does not have yet, and return the new chain."""

    def fetch_files(self, handle: Any, directory: Path, settings: Any) -> None:
        """Read the files of a database (`chain.database`) into a directory."""


_NO_CHAIN = object()  # the operator has had no state so far


class KeyedSnapshots:
    """The keyed state of a chain: one backend per operator that has some, each with its chain of snapshots on storage."""

    def __init__(self, deployment: VertexDeployment, index: int) -> None:
        self._deployment = deployment
        self._index = index
        self._backends: dict[int, KeyedStateBackend] = {}
        self._chains: dict[int, Any] = {}  # None: the next snapshot must be a full one
        groups = key_group_range(index, deployment.parallelism, deployment.max_parallelism)
        self._key_groups = (groups.start, groups.stop)
        self.on_disk: list[KeyedStateBackend] = []

    def get(self, position: int) -> KeyedStateBackend | None:
        """Return the backend of an operator of the chain."""
        return self._backends.get(position)

    def restore(
        self,
        settings: JobSettings,
        clock: Callable[[], int],
        state_io: StateIO,
        restore: SubtaskRestore,
    ) -> None:
        """Create the backends and fill them with what the checkpoint has for them."""
        deployment = self._deployment
        for position in deployment.keyed:
            info = deployment.operators[position]
            backend = self._backends[position] = create_backend(
                settings.state_backend,
                clock,
                StatePlace(
                    settings.job_id,
                    operator=info.name,
                    place=f"{deployment.vertex}.{position}",
                    subtask=self._index,
                    max_parallelism=deployment.max_parallelism,
                ),
            )
            if not backend.in_memory:
                self.on_disk.append(backend)
            chains = restore.keyed.get(info.operator_id, ())
            if chains:
                self._chains[position] = backend.restore(
                    state_io, chains, restore.owned, deployment.max_parallelism
                )
            elif restore.owned is not None and info.operator_id in restore.keyed:
                # Its key groups are empty, and the checkpoint must say so.
                self._chains[position] = None

    def write(self, state_io: StateIO, checkpoint: int, attempt: str) -> dict[str, Any]:
        """Write what has changed; return the chain of each operator that has state."""
        deployment = self._deployment
        for position, backend in self._backends.items():
            chain = self._chains.get(position, _NO_CHAIN)
            name = SnapshotName(
                checkpoint,
                f"{deployment.vertex}.{position}",
                self._index,
                attempt,
                self._key_groups,
            )
            try:
                written = backend.write_snapshot(
                    state_io, None if chain is _NO_CHAIN else chain, name, force=chain is None
                )
            except NotPicklableError as error:
                raise _not_storable(deployment.operators[position].name, error) from error
            if written is not None:
                self._chains[position] = written
        return {
            deployment.operators[position].operator_id: chain
            for position, chain in self._chains.items()
        }

    def close(self) -> None:
        """Let go of all state."""
        for backend in self._backends.values():
            backend.close()


def pack_local(
    time: dict[str, Any], contexts: Sequence[OperatorContext], *, finished: bool
) -> bytes:
    """Return what a subtask remembers besides keyed state, as the checkpoint holds it; `restore_local` reads it."""
    states: dict[str, Any] = {}
    for context in contexts:
        if context.timers is not None:
            context.operator_state.put("timer watermark", context.timers.watermark)
        state = context.operator_state.snapshot()
        if state:
            states[context.operator_id] = state
    try:
        return dumps({**time, "finished": finished, "operators": states})
    except NotPicklableError as error:
        for context in contexts:
            if not is_picklable(states.get(context.operator_id)):
                raise _not_storable(context.operator_name, error) from error
        raise


def _not_storable(operator: str, error: NotPicklableError) -> RecordError:
    return RecordError(
        f"the state of operator '{operator}' cannot be kept in a checkpoint",
        detail=f"{error.detail or 'a value'} cannot be pickled: {error.message}",
        hint="keep plain data in state; create connections, locks and the like in open()",
    )
