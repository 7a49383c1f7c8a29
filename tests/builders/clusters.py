"""A MiniCluster of a test's own, after which nothing of its jobs is left in this process."""

from __future__ import annotations

from contextlib import contextmanager

from penstock.runtime.task.epochs import subtask_cache
from penstock.testing import MiniCluster


def close_subtasks():
    """Close the subtasks that jobs left in the cache: each may have a database open."""
    for entry in subtask_cache._entries.values():
        entry.subtask.close()
    subtask_cache._entries.clear()
    subtask_cache._close_parts(lambda *_: True)


@contextmanager
def own_cluster():
    with MiniCluster() as running:
        yield running
    close_subtasks()
