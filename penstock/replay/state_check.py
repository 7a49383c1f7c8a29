"""State of a replay: read from checkpoints, never written, compared with the original run's checkpoint."""

from __future__ import annotations

import contextlib
import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.checkpoint.handles import StateChain, StateHandle
from penstock.checkpoint.manifest import Manifest
from penstock.errors import CheckpointError
from penstock.graph.deployment import SubtaskRestore, VertexDeployment
from penstock.graph.task_id import TaskId
from penstock.pickling.portable_pickles import dumps
from penstock.replay.errors import ReplayError
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.state.backends import BACKENDS, read_chain
from penstock.runtime.state.hashmap.backend import HashMapKeyedStateBackend

Tables = dict[str, dict[Any, Any]]

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class TableComparison:
    """One table of one subtask at the end of the interval: its number of entries, and the differences from the checkpoint."""

    operator: str
    subtask: int
    table: str
    entries: int
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StateComparison:
    """All state at the end of the interval, compared with the checkpoint of the original run."""

    tables: tuple[TableComparison, ...]

    @property
    def matches(self) -> bool:
        """Whether there are no differences."""
        return not self.differing

    @property
    def differing(self) -> list[TableComparison]:
        """The tables with differences."""
        return [table for table in self.tables if table.differences]


class ReplayStateIO:
    """Reads state as the job did, and keeps snapshots in memory if they are needed.

    `full` returns, by operator and subtask, whether the original run wrote a full snapshot.
    """

    def __init__(
        self,
        inner: Any,
        vertices: tuple[VertexDeployment, ...],
        full: Callable[[str, int], bool] | None = None,
    ) -> None:
        self._inner = inner
        self._vertices = vertices
        self._full = full
        # With checkpoint ids: the interval may contain barriers of checkpoints that were aborted.
        self.deltas: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
        self.full_tables: dict[tuple[str, int], Tables] = {}

    def load(self, *arguments: Any, **options: Any) -> Iterator[dict[str, Any]]:
        """Read the snapshots of a chain."""
        with _explaining():
            yield from self._inner.load(*arguments, **options)

    def fetch_files(self, handle: Any, directory: Path, settings: object) -> None:
        """Read the files of a database."""
        with _explaining():
            self._inner.fetch_files(handle, directory, settings)

    def load_in_flight(self, handle: Any) -> bytes:
        """Read in-flight records of an unaligned checkpoint."""
        with _explaining():
            payload: bytes = self._inner.load_in_flight(handle)
            return payload

    def store_in_flight(self, name: Any, payload: bytes) -> StateHandle:
        """Raise: a replay takes no unaligned checkpoints."""
        raise NotImplementedError

    def prepare(
        self,
        chain: StateChain | None,
        name: Any,
        delta: dict[str, Any],
        full: Callable[[], dict[str, Any]],
    ) -> tuple[StateChain, Callable[[Any, bool], StateChain]]:
        """Keep a snapshot in memory."""
        place = (name.operator, name.subtask)
        if self._full is not None:
            if self._full(*place):
                self.full_tables[place] = _tables(pickle.loads(dumps(full())))
            else:
                before = self.deltas.get(place, [])
                earlier = [
                    each for each in before if each[0] < name.checkpoint_id
                ]  # later ones are from a run that is now repeated
                self.deltas[place] = [*earlier, (name.checkpoint_id, dumps(delta))]
        same = chain if chain is not None else StateChain()
        return same, lambda _chain, _follows: same

    def store_files(
        self, chain: StateChain | None, name: Any, directory: Path, settings: Any
    ) -> StateChain:
        """Read a database into memory."""
        if self._full is not None:
            backend = _empty_backend()
            groups = self._vertices[int(name.operator.partition(".")[0])].max_parallelism
            for deltas in BACKENDS[settings.name].read_files(directory, groups):
                backend.apply(deltas)
            self.full_tables[name.operator, name.subtask] = _tables_of(backend)
        handle = StateHandle(
            "full", 0, 0, name.key_groups, data=b"", snapshot=f"replay-{name.attempt}"
        )
        return StateChain((handle,))


@contextlib.contextmanager
def _explaining() -> Iterator[None]:
    """Report unreadable state as a ReplayError, not as a failure of the interval."""
    try:
        yield
    except CheckpointError as error:
        raise ReplayError(
            "the state that the interval starts from cannot be read",
            detail="\n".join(filter(None, [error.message, error.detail])),
            hint="a running job deletes older checkpoints, and savepoints may have been deleted: increase "
            "execution.checkpointing.num-retained, or copy the job's directory before you replay",
        ) from error


def wrote_full(
    vertices: tuple[VertexDeployment, ...], base: Manifest | None, after: Manifest
) -> Callable[[str, int], bool]:
    """Return a function that returns whether the original run wrote a full snapshot, which starts a new chain."""

    def check(place: str, subtask: int) -> bool:
        vertex, position = map(int, place.split("."))
        operator = vertices[vertex].operators[position].operator_id
        chain = _chain(after, operator, subtask)
        return len(chain) <= 1 or chain.handles[0] != next(
            iter(_chain(base, operator, subtask)), None
        )

    return check


def compare(
    state_io: ReplayStateIO,
    vertices: tuple[VertexDeployment, ...],
    restore: Mapping[TaskId, SubtaskRestore],
    acks: list[TaskAck],
    sinks: frozenset[str],
    after: Manifest,
) -> StateComparison:
    """Compare the state at the end of the replay with a manifest."""
    found: list[TableComparison] = []
    by_id = {vertex.id: vertex for vertex in vertices}
    for ack in sorted(acks, key=lambda each: (by_id[each.task.vertex].vertex, each.task.subtask)):
        vertex, subtask = by_id[ack.task.vertex], ack.task.subtask
        point = restore.get(ack.task, SubtaskRestore())
        for position in sorted(vertex.keyed):
            info = vertex.operators[position]
            ours = _after_replay(state_io, vertex, position, subtask, point)
            chain = _chain(after, info.operator_id, subtask)
            theirs = _read(state_io, (chain,) if chain else (), None, vertex.max_parallelism)
            found += _compare_tables(info.name, subtask, ours, theirs)
        snapshot = after.vertices[vertex.id].subtasks[subtask]
        found += _compare_local(vertex, ack, snapshot.local, sinks)
    return StateComparison(tuple(found))


def _after_replay(
    state_io: ReplayStateIO,
    vertex: VertexDeployment,
    position: int,
    subtask: int,
    point: SubtaskRestore,
) -> Tables:
    place = (f"{vertex.vertex}.{position}", subtask)
    if place in state_io.full_tables:
        return state_io.full_tables[place]
    chains = point.keyed.get(vertex.operators[position].operator_id, ())
    backend = _empty_backend()
    backend.restore(state_io, chains, point.owned, vertex.max_parallelism)
    for _, delta in state_io.deltas.get(place, ()):
        backend.apply(pickle.loads(delta))
    return _tables_of(backend)


def _compare_local(
    vertex: VertexDeployment, ack: TaskAck, expected: bytes | None, sinks: frozenset[str]
) -> list[TableComparison]:
    """Compare operator state, except that of sinks, which did not run."""
    names = {info.operator_id: info.name for info in vertex.operators}
    ours = pickle.loads(ack.local)
    theirs = pickle.loads(expected) if expected is not None else {}
    found = [
        _compare_table(
            vertex.name,
            ack.task.subtask,
            "time",
            {name: ours.get(name) for name in ("valve", "floor", "finished")},
            {name: theirs.get(name) for name in ("valve", "floor", "finished")},
        )
    ]
    for operator_id, name in names.items():
        if operator_id in sinks:
            continue
        mine = ours.get("operators", {}).get(operator_id, {})
        other = theirs.get("operators", {}).get(operator_id, {})
        if mine or other:
            found.append(_compare_table(name, ack.task.subtask, "operator state", mine, other))
    return found


def _compare_tables(
    operator: str, subtask: int, ours: Tables, theirs: Tables
) -> list[TableComparison]:
    return [
        _compare_table(operator, subtask, name, ours.get(name, {}), theirs.get(name, {}))
        for name in sorted({*ours, *theirs})
    ]


def _compare_table(
    operator: str, subtask: int, name: str, ours: dict[Any, Any], theirs: dict[Any, Any]
) -> TableComparison:
    differences = []
    for key in [*ours, *(key for key in theirs if key not in ours)]:
        if key not in theirs:
            differences.append(f"{key!r}: {ours[key]!r}, missing in the checkpoint")
        elif key not in ours:
            differences.append(f"{key!r}: missing, in the checkpoint {theirs[key]!r}")
        elif not equal(ours[key], theirs[key]):
            differences.append(f"{key!r}: {ours[key]!r}, in the checkpoint {theirs[key]!r}")
    if len(differences) > _SHOWN:
        more = len(differences) - _SHOWN
        differences = [*differences[:_SHOWN], f"and {more} more"]
    return TableComparison(operator, subtask, name, len(ours), tuple(differences))


def equal(one: object, other: object) -> bool:
    """Whether two values are equal, or consist of equal parts: a class may not define equality.

    >>> equal([1, {"a": 2.0}], [1, {"a": 2}]), equal(range(3), [0, 1, 2])
    (True, False)
    """
    try:
        return _equal(one, other, set())
    except RecursionError:
        return dumps(one) == dumps(other)


def _equal(one: Any, other: Any, seen: set[tuple[int, int]]) -> bool:
    if one is other or (id(one), id(other)) in seen:
        return True
    try:
        if bool(one == other):
            return True
    except Exception:  # noqa: BLE001, S110 - the user's __eq__ may do anything; an array has no truth value
        pass
    # A class of the script is loaded again with each function that uses it.
    kind, its = type(one), type(other)
    if (kind.__module__, kind.__qualname__) != (its.__module__, its.__qualname__):
        return False
    seen.add((id(one), id(other)))
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(
            _equal(mine, its, seen) for mine, its in zip(one, other, strict=True)
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _equal(value, other[key], seen) for key, value in one.items()
        )
    mine, its = _state_of(one), _state_of(other)
    if mine is None or its is None:
        return dumps(one) == dumps(other)
    return _equal(mine, its, seen)


def _state_of(value: Any) -> Any:
    try:
        return value.__getstate__()
    except Exception:  # noqa: BLE001 - then its pickle is compared
        return None


def _chain(manifest: Manifest | None, operator: str, subtask: int) -> StateChain:
    snapshot = manifest.operators.get(operator) if manifest is not None else None
    if snapshot is None or subtask >= snapshot.parallelism:
        return StateChain()
    return snapshot.subtasks[subtask]


def _empty_backend() -> HashMapKeyedStateBackend:
    return HashMapKeyedStateBackend(lambda: 0, read_chain=read_chain)


def _read(state_io: Any, chains: tuple[Any, ...], owned: range | None, groups: int) -> Tables:
    backend = _empty_backend()
    backend.restore(state_io, chains, owned, groups)
    return _tables_of(backend)


def _tables(deltas: dict[str, Any]) -> Tables:
    backend = _empty_backend()
    backend.apply(deltas)
    return _tables_of(backend)


def _tables_of(backend: HashMapKeyedStateBackend) -> Tables:
    tables = backend._tables  # noqa: SLF001 - not needed while a job runs
    return {name: found for name, table in tables.items() if (found := dict(table.items()))}
