"""Every program here runs in this process."""

from __future__ import annotations

import pytest

from penstock.runtime.task import subtask_cache
from penstock.testing.mini_cluster import MiniCluster


@pytest.fixture(autouse=True)
def cluster():
    with MiniCluster() as running:
        yield running
    subtask_cache._entries.clear()


@pytest.fixture(params=[1, 3], ids=["one subtask", "three subtasks"])
def parallelism(request):
    return request.param
