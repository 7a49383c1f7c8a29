"""Redistribution of operator state and watermarks on restore (pure functions).

Keyed state is redistributed by key groups elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from penstock.graph.deployment import SubtaskRestore
from penstock.pickling import program_classes
from penstock.runtime.records import MIN_WATERMARK
from penstock.runtime.state import class_shapes
from penstock.runtime.state.class_shapes import ClassShape
from penstock.runtime.state.operator_state import (
    BROADCAST,
    EMITTED,
    IDLE,
    SPLIT,
    UNION,
    WRITERS,
    StateClasses,
)

_WATERMARKS: Final = frozenset({"watermark", "timer watermark"})


def split_evenly(elements: Sequence[Any], parallelism: int, subtask: int) -> list[Any]:
    """Return a subtask's part of a list: contiguous, and of equal length up to one element.

    >>> [split_evenly("abcdefgh", 3, subtask) for subtask in range(3)]
    [['a', 'b', 'c'], ['d', 'e', 'f'], ['g', 'h']]
    """
    size, longer = divmod(len(elements), parallelism)
    start = subtask * size + min(subtask, longer)
    return list(elements[start : start + size + (subtask < longer)])


def redistribute(
    former: Sequence[Mapping[str, Any] | None], parallelism: int, subtask: int
) -> dict[str, Any] | None:
    """Return the restored state of a subtask of an operator; `former` has that of each former subtask.

    List state is split evenly, and so are the states of sink writers; union list state goes to all, and any copy of broadcast
    state is used. Watermarks are the lowest of all (except idle ones), so that no record becomes late by the rescale. Other
    values of an operator (idleness, the state of a timestamp assigner) belong to its old subtasks and are dropped. With an
    unchanged parallelism a subtask keeps its own; union list state goes to all nevertheless.
    """
    states = [state for state in former if state is not None]
    if not states:
        return None
    own = dict(former[subtask] or {}) if len(former) == parallelism else None
    result = {} if own is None else own
    for name in dict.fromkeys(name for state in states for name in state):
        found = [state[name] for state in states if name in state]
        if name.startswith(UNION):
            result[name] = [element for elements in found for element in elements]
        elif own is not None:
            continue
        elif name.startswith(SPLIT):
            elements = [element for elements in found for element in elements]
            result[name] = split_evenly(elements, parallelism, subtask)
        elif name.startswith(BROADCAST):
            result[name] = found[subtask % len(found)]
        elif name == EMITTED:
            # A subtask that was idle did not hold back the watermark, however old its own is.
            active = [s[name] for s in states if name in s and not s.get(IDLE, False)]
            result[name] = min(active) if active else max(found)
        elif name in _WATERMARKS:
            result[name] = min(found)
    return result


def restore_local(
    restore: SubtaskRestore, operators: Sequence[str], subtask: int, parallelism: int
) -> dict[str, Any]:
    """Return the subtask's state besides keyed state from its last snapshot, or its part of the former subtasks'.

    `operators` are the ids of the chain; the first one is that of the vertex.
    """
    if restore.local is not None:
        local: dict[str, Any] = program_classes.loads(restore.local)
        states = local["operators"].values()
        if restore.former and any(name.startswith(UNION) for state in states for name in state):
            local.update(_redistributed(_former(restore), operators, subtask, parallelism))
    elif restore.former:
        former = _former(restore)
        before = former.get(operators[0], [])
        local = {
            "floor": min(map(_time, before), default=MIN_WATERMARK),
            "finished": bool(before) and all(state["finished"] for state in before),
            **_redistributed(former, operators, subtask, parallelism),
        }
    else:
        return {}
    if restore.just_restored and "valve" in local:
        local["floor"] = _time(local)
        del local["valve"]
    return local


def count_writer_states(former: Sequence[bytes], operator: str) -> int:
    """Return the number of writer states of a sink in the subtasks of its vertex."""
    return sum(
        len(local["operators"].get(operator, {}).get(WRITERS, ())) for local in _load(former)
    )


def _load(pickles: Sequence[bytes]) -> list[dict[str, Any]]:
    return [program_classes.loads(each) for each in pickles]


def _former(restore: SubtaskRestore) -> dict[str, list[dict[str, Any]]]:
    return {vertex: _load(pickles) for vertex, pickles in restore.former.items()}


def _time(local: Mapping[str, Any]) -> int:
    watermark: int = max(local["valve"][0], local["floor"])
    return watermark


def _redistributed(
    former: Mapping[str, Sequence[Mapping[str, Any]]],
    operators: Sequence[str],
    subtask: int,
    parallelism: int,
) -> dict[str, Any]:
    """Return the state of each operator that had some, wherever it was chained, and the classes of its objects."""
    states: dict[str, dict[str, Any]] = {}
    classes: dict[str, StateClasses] = {}
    for operator in operators:
        for subtasks in former.values():
            parts = [local["operators"].get(operator) for local in subtasks]
            if any(part is not None for part in parts):
                states[operator] = redistribute(parts, parallelism, subtask) or {}
        found = merge_classes(
            local.get("classes", {}).get(operator, {})
            for subtasks in former.values()
            for local in subtasks
        )
        if found:
            classes[operator] = found
    return {"operators": states, "classes": classes} if classes else {"operators": states}


def merge_classes(parts: Iterable[StateClasses]) -> StateClasses:
    """Return the classes of objects in an operator's state, from those of its former subtasks."""
    merged: dict[str, tuple[ClassShape, ...]] = {}
    for part in parts:
        for name, shapes in part.items():
            merged[name] = class_shapes.merged(merged.get(name, ()), shapes)
    return merged
