"""Snapshots of a subtask: the keyed state of its chain, read from and written to checkpoint storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from penstock.errors import RecordError
from penstock.graph.deployment import JobSettings, SubtaskRestore, VertexDeployment
from penstock.graph.key_groups import key_group_range
from penstock.pickling.portable_pickles import NotPicklableError, dumps, is_picklable
from penstock.runtime.network.messages import BarrierMessage, TaskAck
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.state.backends import create_backend
from penstock.runtime.state.keyed import KeyedStateBackend, Prepared
from penstock.runtime.state.operator_state import StateClasses
from penstock.runtime.state.schema import StateSchema
from penstock.runtime.state.state_backend import StatePlace
from penstock.runtime.state.table import TableDelta


@dataclass(frozen=True, slots=True)
class PendingSnapshot:
    """The snapshot of a subtask at a barrier. It is written by any thread while the subtask continues."""

    ack: TaskAck  # without keyed state
    write: Callable[[], dict[str, Any]]
    barrier: BarrierMessage | None = None  # the forwarded barrier
    in_flight: bytes | None = None  # the in-flight records
    write_in_flight: Callable[[bytes], Any] | None = None

    def finish(self) -> TaskAck:
        """Write the snapshot; return the ACK."""
        ack = replace(self.ack, keyed=self.write())
        if self.in_flight is None or self.write_in_flight is None:
            return ack
        return replace(ack, in_flight=self.write_in_flight(self.in_flight))


@dataclass(frozen=True, slots=True)
class SnapshotName:
    """The task and time of a snapshot: unique to the attempt."""

    checkpoint_id: int
    operator: str
    subtask: int
    attempt: str
    key_groups: tuple[int, int]


class StateIO(Protocol):
    """Reads and writes keyed state on checkpoint storage."""

    def load(self, chain: object, owned: range | None = None) -> Iterator[dict[str, TableDelta]]:
        """Read the snapshots of a chain, oldest first; entries of key groups that are not `owned` may be omitted."""

    def prepare(
        self,
        chain: Any,
        name: SnapshotName,
        delta: dict[str, TableDelta],
        full: Callable[[], dict[str, TableDelta]],
    ) -> Prepared:
        """Pickle `delta` (or `full()`, if that is due or `chain` is None) and return a function that writes it."""

    def store_files(
        self, chain: Any, name: SnapshotName, directory: Path, settings: object
    ) -> object:
        """Upload the files of a database that are not on storage yet, and return the new chain."""

    def fetch_files(self, handle: object, directory: Path, settings: object) -> None:
        """Download the files of a database (`chain.database`) into a directory."""

    def store_in_flight(self, name: SnapshotName, payload: bytes) -> object:
        """Write the in-flight records; return their handle."""

    def load_in_flight(self, handle: object) -> bytes:
        """Read the in-flight records."""


# Writes a snapshot, perhaps in another thread; returns the chain of each operator that has state.
Upload = Callable[[], dict[str, Any]]


@dataclass(slots=True)
class _Line:
    """The snapshots of one operator: those taken, and those on storage.

    `planned`, `taken` and `due` belong to the thread of the subtask, `chain`, `tried` and `whole` to the writing thread,
    which is behind.
    """

    planned: Any = None  # None: the next snapshot must be a full one
    taken: int = 0
    due: bool = False  # the next snapshot is taken even if nothing has changed
    chain: Any = None
    tried: int = 0  # number of snapshots that were taken and written or failed
    whole: bool = True  # whether the last snapshot was written
    lost: bool = False  # set by the writing thread: a snapshot was not written


class KeyedSnapshots:
    """The keyed state of a chain: one backend per stateful operator, each with its chain of snapshots on storage."""

    def __init__(self, deployment: VertexDeployment, index: int) -> None:
        self._deployment = deployment
        self._index = index
        self._backends: dict[int, KeyedStateBackend] = {}
        self._lines: dict[int, _Line] = {}
        groups = key_group_range(index, deployment.parallelism, deployment.max_parallelism)
        self._key_groups = (groups.start, groups.stop)
        self.on_disk: list[KeyedStateBackend] = []

    def get(self, position: int) -> KeyedStateBackend | None:
        """Return the backend of an operator of the chain."""
        return self._backends.get(position)

    def stored_bytes(self, position: int) -> int | None:
        """Return the size of an operator's last snapshot on storage; None if there is none. For the subtask's thread."""
        chain = self._lines[position].chain
        return getattr(chain, "size", None)

    def restore(
        self,
        settings: JobSettings,
        clock: Callable[[], int],
        state_io: StateIO,
        restore: SubtaskRestore,
    ) -> None:
        """Create the backends and restore their state from the checkpoint."""
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
            line = self._lines[position] = _Line()
            chains = restore.keyed.get(info.operator_id, ())
            if chains:
                line.planned = line.chain = backend.restore(
                    state_io, chains, restore.owned, deployment.max_parallelism
                )
                line.due = line.chain is None
            elif restore.owned is not None and info.operator_id in restore.keyed:
                line.due = (
                    True  # its key groups are empty, which must be recorded in the checkpoint
                )

    def begin(self, state_io: StateIO, checkpoint: int, attempt: str) -> Upload:
        """Take the synchronous part of a snapshot, so that processing can continue; return a function that writes it.

        Uploads are called once each, in the order in which they were begun, by one thread at a time. If one fails, its
        checkpoint must be declined: its changes are part of the next one.
        """
        taken = {}
        for position, backend in self._backends.items():
            line = self._lines[position]
            if line.tried == line.taken:
                line.planned = line.chain  # the current one: deltas may have been merged
            if line.lost:
                line.lost, line.planned, line.due = False, None, True
            name = SnapshotName(
                checkpoint,
                f"{self._deployment.vertex}.{position}",
                self._index,
                attempt,
                self._key_groups,
            )
            try:
                prepared = backend.begin_snapshot(state_io, line.planned, name, force=line.due)
            except NotPicklableError as error:
                raise _not_storable(self._deployment.operators[position].name, error) from error
            if prepared is not None:
                line.planned, taken[position] = prepared
                line.taken += 1
                line.due = False
        return lambda: self._upload(taken)

    def _upload(self, taken: dict[int, Callable[[Any, bool], Any]]) -> dict[str, Any]:
        errors = []
        for position, write in taken.items():
            line = self._lines[position]
            try:
                line.chain = write(line.chain, line.whole)
            except Exception as error:  # noqa: BLE001 - the others are notified nevertheless
                errors.append(error)
                line.whole, line.lost = False, True
            else:
                line.whole = True
            line.tried += 1
        if errors:
            raise errors[0]
        return {
            self._deployment.operators[position].operator_id: line.chain
            for position, line in self._lines.items()
            if line.chain is not None
        }

    def schemas(self) -> dict[str, dict[str, StateSchema]]:
        """Return the schemas of all states: by operator id, then by table. Thread-safe."""
        operators = self._deployment.operators
        return {
            operators[position].operator_id: dict(backend.schemas)
            for position, backend in list(self._backends.items())
        }

    def in_flight_name(self, checkpoint: int, attempt: str) -> SnapshotName:
        """Return the snapshot name of the subtask's in-flight records."""
        where = f"{self._deployment.vertex}.in-flight"
        return SnapshotName(checkpoint, where, self._index, attempt, self._key_groups)

    def close(self) -> None:
        """Release all state."""
        for backend in self._backends.values():
            backend.close()


def pack_local(
    time: dict[str, Any], contexts: Sequence[OperatorContext], *, finished: bool
) -> bytes:
    """Return the subtask's state besides keyed state, pickled for the checkpoint; `restore_local` reads it."""
    states: dict[str, Any] = {}
    classes: dict[str, StateClasses] = {}
    for context in contexts:
        if context.keyed is not None:
            context.operator_state.put("timer watermark", context.timers.watermark)
        state = context.operator_state.snapshot()
        if state:
            states[context.operator_id] = state
        if found := context.operator_state.classes():
            classes[context.operator_id] = found
    local = {**time, "finished": finished, "operators": states}
    if classes:
        local["classes"] = classes
    try:
        return dumps(local)
    except NotPicklableError as error:
        for context in contexts:
            if not is_picklable(states.get(context.operator_id)):
                raise _not_storable(context.operator_name, error) from error
        raise


def _not_storable(operator: str, error: NotPicklableError) -> RecordError:
    return RecordError(
        f"could not write the state of operator '{operator}' to a checkpoint",
        detail=f"{error.detail or 'a value'} cannot be pickled: {error.message}",
        hint="keep plain data in state; create connections, locks and the like in open()",
    )
