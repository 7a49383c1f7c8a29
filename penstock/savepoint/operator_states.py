"""Operator state of a checkpoint, read without the classes of the job."""

from __future__ import annotations

import io
import pickle
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from penstock.checkpoint.manifest import Manifest, SubtaskSnapshot, VertexSnapshot
from penstock.pickling.portable_pickles import dumps
from penstock.runtime.state.operator_state import BROADCAST, SPLIT, UNION
from penstock.savepoint.lenient_pickle import INNER, load_leniently
from penstock.savepoint.open_json import UnopenedPickle

# All other values of operators belong to their old subtasks.
_KEPT: Final = (SPLIT, UNION, BROADCAST)


def operator_states(manifest: Manifest) -> dict[str, list[str]]:
    """Return the names of non-empty operator states, by operator id: list, union list and broadcast state.

    The states of sink writers and asynchronous calls in flight are list state, too.
    """
    found: dict[str, dict[str, None]] = {}
    for vertex in manifest.vertices.values():
        for subtask in vertex.subtasks:
            if subtask.local is None:
                continue
            for operator, values in load_leniently(subtask.local)["operators"].items():
                names = [name for name, value in values.items() if _holds(name, value)]
                found.setdefault(operator, {}).update(dict.fromkeys(names))
    return {operator: list(names) for operator, names in found.items() if names}


def without_operator_states(manifest: Manifest, dropped: Collection[str]) -> Manifest:
    """Return a manifest without the operator state of some operators, whose classes may be missing.

    State of a savepoint is removed without unpickling it. A checkpoint's is one pickle for all operators of a subtask; if that
    cannot be unpickled here, it stays.
    """
    vertices = {
        name: VertexSnapshot(tuple(_without(subtask, dropped) for subtask in vertex.subtasks))
        for name, vertex in manifest.vertices.items()
    }
    return replace(manifest, vertices=vertices)


def _holds(name: str, value: object) -> bool:
    return name.startswith(_KEPT) and bool(value)


def _without(subtask: SubtaskSnapshot, dropped: Collection[str]) -> SubtaskSnapshot:
    if subtask.local is None:
        return subtask
    try:
        local = _Shallow(io.BytesIO(subtask.local)).load()
    except Exception:  # noqa: BLE001 - unpickling runs the user's code
        return subtask
    kept = {name: state for name, state in local["operators"].items() if name not in dropped}
    if len(kept) == len(local["operators"]):
        return subtask
    return replace(subtask, local=dumps({**local, "operators": kept}))


class _Shallow(pickle.Unpickler):
    """Keeps nested pickles as they are."""

    def find_class(self, module: str, name: str) -> object:
        return UnopenedPickle if (module, name) in INNER else super().find_class(module, name)
