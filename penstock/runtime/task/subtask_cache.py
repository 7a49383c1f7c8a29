"""Subtasks that stay alive in this process from one epoch to the next.

Only a cache: an entry is used if it is exactly the snapshot that the last checkpoint names, and it is taken out while it
runs, so a failed attempt leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.runtime.task.subtask import Subtask

_KEEP_OTHER_JOBS_S = 60.0

_entries: dict[tuple[str, int, int], tuple[int, str, float, Subtask]] = {}


def take(job_id: str, vertex: int, index: int, snapshot: str | None) -> Subtask | None:
    """Return the cached subtask if it holds the wanted snapshot; it leaves the cache either way."""
    entry = _entries.pop((job_id, vertex, index), None)
    if entry is None:
        return None
    _, name, _, subtask = entry
    if snapshot is not None and name == snapshot:
        return subtask
    _discard(subtask)
    return None


def put(job_id: str, subtask: Subtask, epoch: int, snapshot: str) -> None:
    """Keep a subtask after its barrier; one that has finished is closed instead."""
    if subtask.finished:
        subtask.close()
        return
    _entries[job_id, subtask.deployment.vertex, subtask.index] = (
        epoch,
        snapshot,
        time.monotonic(),
        subtask,
    )


def forget_older(job_id: str, epoch: int) -> None:
    """Drop what can no longer be the latest snapshot: older epochs of this job, and jobs not seen for a while."""
    now = time.monotonic()
    for key, (cached_epoch, _, since, subtask) in list(_entries.items()):
        stale = cached_epoch < epoch - 1 if key[0] == job_id else now - since > _KEEP_OTHER_JOBS_S
        if stale:
            del _entries[key]
            _discard(subtask)


def _discard(subtask: Subtask) -> None:
    """Close a subtask whose work does not count: an error of its `close` must not fail another attempt."""
    with contextlib.suppress(Exception):
        subtask.close()
