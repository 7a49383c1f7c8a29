"""Writes the contents of a SavepointWriter as a savepoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.handles import StateChain, StateHandle
from penstock.checkpoint.manifest import (
    MIN_WATERMARK,
    Manifest,
    OperatorSnapshot,
    SubtaskSnapshot,
    VertexSnapshot,
)
from penstock.checkpoint.signing import Signer
from penstock.common.job_id import JobID
from penstock.common.user_types import Key
from penstock.graph.key_groups import key_group_of, key_group_range
from penstock.pickling.portable_pickles import dumps
from penstock.runtime.state.table import TableDelta
from penstock.savepoint.state_io import SnapshotStateIO
from penstock.savepoint.writer import write_savepoint
from penstock.state import unpickling
from penstock.state.edits import Entry, TableEdit, now_ms

if TYPE_CHECKING:
    from penstock.state.operator_edits import OperatorEdit
    from penstock.state.writer import SavepointWriter

_AT_ONCE: Final = 10_000
_EDITED: Final = "edited:"  # name prefix of chains that are created here and not read from storage


def store(writer: SavepointWriter, directory: str) -> str:
    """Write a savepoint into a new directory below `directory`; return its path."""
    base = writer.base
    # A finished job's state is useful, but not its finished flags.
    drained = base is not None and base.manifest.final
    manifest = _manifest(writer)
    # A checkpoint's commit requests contain output, too, which is not part of a savepoint.
    kept = manifest.commits if base is not None and base.kind == "savepoint" else {}
    return write_savepoint(
        manifest,
        _EditedStateIO(writer),
        directory,
        drained=drained,
        waiting={name: each for name, each in kept.items() if name in manifest.operators},
        signer=Signer.from_environment(),
    )


class _EditedStateIO:
    """Reads the chains of the manifest: edited ones entry by entry, the others unchanged."""

    def __init__(self, writer: SavepointWriter) -> None:
        self._writer = writer
        base = writer.base
        self._original = None if base is None else SnapshotStateIO(base.directory)

    def load(
        self, chain: StateChain, owned: range | None = None
    ) -> Iterator[dict[str, TableDelta]]:
        """Read the tables of a chain in pieces, table after table."""
        name = chain.handles[0].name or ""
        if not name.startswith(_EDITED):
            assert self._original is not None
            yield from self._original.load(chain, owned)
            return
        _, operator, subtask = name.split(":")
        edit = self._writer.operators[operator]
        yield from _edited_tables(edit, int(subtask))

    def fetch_files(self, handle: StateHandle, directory: Path, settings: object) -> None:
        """Download the files of a database into a directory."""
        assert self._original is not None
        self._original.fetch_files(handle, directory, settings)


def _edited_tables(edit: OperatorEdit, subtask: int) -> Iterator[dict[str, TableDelta]]:
    info = edit.info
    groups = key_group_range(subtask, info.parallelism, info.max_parallelism)
    tables = dict(edit.tables)
    for state in info.states:
        if state.is_keyed:
            tables.setdefault(state.table, TableEdit(state.scope is not None, state.schema))

    def owns(key: Key) -> bool:
        return key_group_of(key, info.max_parallelism) in groups

    for name, table in tables.items():
        entries = table.apply(_original_entries(edit, name, subtask, table.namespaced), owns)
        while some := dict(islice(entries, _AT_ONCE)):
            yield {name: TableDelta(table.namespaced, some, [], table.schema)}


def _original_entries(
    edit: OperatorEdit, table: str, subtask: int, namespaced: bool
) -> Iterator[Entry]:
    base, operator = edit.base, edit.info.id
    if base is None:
        return
    chain = base.manifest.operators[operator].subtasks[subtask]
    if not chain:
        return
    reader = base.reader(operator)
    ttl = next((state.ttl for state in edit.info.states if state.table == table), None)
    found = reader.entries(chain, table, base.databases, edit.info.label, ttl=ttl)
    for key, namespace, value in found:
        yield ((key, namespace) if namespaced else key), value


def _manifest(writer: SavepointWriter) -> Manifest:
    base = None if writer.base is None else writer.base.manifest
    if base is None:
        base = Manifest(str(JobID()), "bootstrap", 0, now_ms())
    # An operator that was dropped and added again keeps nothing.
    new = {name for name, edit in writer.operators.items() if edit.base is None}
    base = _without(base, writer.dropped | new)
    operators = dict(base.operators)
    vertices = dict(base.vertices)
    for name, edit in writer.operators.items():
        if edit.base is None:
            info = edit.info
            # The vertex of that id exists if other operators were chained to it. They keep it, with its parallelism.
            home = f"{name}-new" if name in vertices else name
            operators[name] = OperatorSnapshot(
                info.uid, info.name, home, info.max_parallelism, (StateChain(),)
            )
        if edit.tables:
            subtasks = tuple(_placeholder(edit, index) for index in range(edit.info.parallelism))
            operators[name] = replace(operators[name], subtasks=subtasks)
        if edit.locals is not None:
            home = operators[name].vertex
            vertices[home] = _with_locals(vertices.get(home), name, edit)
    return replace(base, created_ms=now_ms(), operators=operators, vertices=vertices)


def _placeholder(edit: OperatorEdit, subtask: int) -> StateChain:
    info = edit.info
    groups = key_group_range(subtask, info.parallelism, info.max_parallelism)
    name = f"{_EDITED}{info.id}:{subtask}"
    # In the format that the savepoint writer reads piece by piece.
    return StateChain(
        (StateHandle("full", 0, 0, (groups.start, groups.stop), name=name, format="parquet"),)
    )


def _without(manifest: Manifest, dropped: set[str]) -> Manifest:
    """Return a manifest without some operators."""
    if not dropped:
        return manifest
    operators = {name: op for name, op in manifest.operators.items() if name not in dropped}
    homes = {op.vertex for op in operators.values()}
    vertices = {
        name: VertexSnapshot(
            tuple(_without_locals(subtask, dropped) for subtask in vertex.subtasks)
        )
        for name, vertex in manifest.vertices.items()
        if name in homes
    }
    sources = {name: source for name, source in manifest.sources.items() if name not in dropped}
    return replace(manifest, operators=operators, vertices=vertices, sources=sources)


def _without_locals(subtask: SubtaskSnapshot, dropped: set[str]) -> SubtaskSnapshot:
    if subtask.local is None:
        return subtask
    local = _load(subtask.local)
    for part in ("operators", "classes"):
        if part in local:
            local[part] = {name: it for name, it in local[part].items() if name not in dropped}
    return replace(subtask, local=dumps(local))


def _with_locals(
    vertex: VertexSnapshot | None, operator: str, edit: OperatorEdit
) -> VertexSnapshot:
    subtasks = (SubtaskSnapshot(),) if vertex is None else vertex.subtasks
    changed = []
    for subtask, own in zip(subtasks, edit.held(), strict=True):
        local = dict(_NOTHING_YET) if subtask.local is None else _load(subtask.local)
        operators = {**local["operators"], operator: own}
        local["operators"] = {name: state for name, state in operators.items() if state}
        # The job that wrote the objects of a state recorded their classes; they are not those of other objects.
        classes = local.get("classes", {})
        if operator in classes:
            known = classes[operator].items()
            kept = {name: shapes for name, shapes in known if name not in edit.rewritten}
            local["classes"] = {**classes, operator: kept}
        changed.append(replace(subtask, local=dumps(local)))
    return VertexSnapshot(tuple(changed))


# The state of a new subtask besides keyed state.
_NOTHING_YET: Final[dict[str, Any]] = {
    "valve": (MIN_WATERMARK, False, []),
    "floor": MIN_WATERMARK,
    "finished": False,
    "operators": {},
}


def _load(local: bytes) -> dict[str, Any]:
    # Classes in state that is dropped or unchanged need not be importable.
    loaded: dict[str, Any] = unpickling.load(local, "the state of a subtask", shallow=True)
    return loaded
