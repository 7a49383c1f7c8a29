"""A cache of subtasks in this process between two epochs.

An entry is used only if it is exactly the snapshot named by the last checkpoint, and it is removed while it runs, so a failed
attempt leaves nothing behind.

Spark moves a slot to another process about every second epoch, so many entries are stale when their slot comes back. Then the
state is useless, but resources of its operators (a sink's connection, between two epochs) are passed to the subtask that
replaces it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.graph.deployment import VertexDeployment
    from penstock.runtime.task.shared.subtask import Subtask

_KEEP_OTHER_JOBS_S = 60.0
# In a large cluster a slot rarely comes back to a process: the cache would keep many idle connections.
_KEEP_PARTS_CHECKPOINTS = 6

_Place = tuple[str, int, int]  # job, vertex, index of the subtask


@dataclass(frozen=True, slots=True)
class _Entry:
    """A subtask after its barrier."""

    subtask: Subtask
    checkpoint_id: int
    snapshot: str
    attempt_number: int
    since: float


@dataclass(frozen=True, slots=True)
class _Parts:
    """The resources of a subtask whose state is stale: usable by the same code in the same attempt of the job."""

    kept: dict[int, Any]
    deployment: VertexDeployment
    checkpoint_id: int
    attempt_number: int
    since: float


_entries: dict[_Place, _Entry] = {}
_parts: dict[_Place, _Parts] = {}


def take(job_id: str, vertex: int, index: int, snapshot: str | None) -> Subtask | None:
    """Return the cached subtask if it has the requested snapshot; it is removed from the cache in any case."""
    place = (job_id, vertex, index)
    entry = _entries.pop(place, None)
    if entry is None:
        return None
    if snapshot is not None and entry.snapshot == snapshot:
        return entry.subtask
    _retire(place, entry)
    return None


def take_parts(
    job_id: str, deployment: VertexDeployment, index: int, attempt_number: int
) -> Mapping[int, Any]:
    """Return the resources of a stale subtask for the one that replaces it, by position in the chain."""
    found = _parts.pop((job_id, deployment.vertex, index), None)
    if found is None:
        return {}
    if found.attempt_number == attempt_number and _same_code(found.deployment, deployment):
        return found.kept
    _close(found)
    return {}


def put(
    job_id: str, subtask: Subtask, checkpoint_id: int, snapshot: str, attempt_number: int = 0
) -> None:
    """Cache a subtask after its barrier. A finished one is closed instead, with the resources of all stale ones of its job."""
    if subtask.finished:
        _close_parts(lambda place, _: place[0] == job_id)
        subtask.close()
        return
    place = (job_id, subtask.deployment.vertex, subtask.index)
    _entries[place] = _Entry(subtask, checkpoint_id, snapshot, attempt_number, time.monotonic())


def forget_older(job_id: str, checkpoint_id: int) -> None:
    """Drop entries that cannot be the latest snapshot: older epochs of this job, and jobs not seen for a while."""
    before = time.monotonic() - _KEEP_OTHER_JOBS_S

    def is_stale(place: _Place, entry: _Entry | _Parts, checkpoint_ids: int) -> bool:
        return (
            entry.checkpoint_id < checkpoint_id - checkpoint_ids
            if place[0] == job_id
            else entry.since < before
        )

    for place, entry in list(_entries.items()):
        if is_stale(place, entry, 1):
            del _entries[place]
            _retire(place, entry)
    _close_parts(lambda place, parts: is_stale(place, parts, _KEEP_PARTS_CHECKPOINTS))


def _retire(place: _Place, entry: _Entry) -> None:
    """Close a subtask whose work does not count, except for reusable resources."""
    kept = entry.subtask.retire()
    if kept:
        deployment = entry.subtask.deployment
        _parts[place] = _Parts(
            kept, deployment, entry.checkpoint_id, entry.attempt_number, entry.since
        )


def _same_code(one: VertexDeployment, other: VertexDeployment) -> bool:
    return (one.code, one.operators, one.parallelism) == (
        other.code,
        other.operators,
        other.parallelism,
    )


def _close_parts(is_stale: Callable[[_Place, _Parts], bool]) -> None:
    for place, parts in list(_parts.items()):
        if is_stale(place, parts):
            del _parts[place]
            _close(parts)


def _close(parts: _Parts) -> None:
    for part in parts.kept.values():
        with contextlib.suppress(Exception):  # an error must not fail another attempt
            part.close()
