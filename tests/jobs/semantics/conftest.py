"""Every program here runs in this process."""

from __future__ import annotations

import pytest

from penstock.runtime.task import subtask_cache
from penstock.testing.mini_cluster import MiniCluster

from .scripted import _empty_log  # noqa: F401  - an automatic fixture


@pytest.fixture(autouse=True)
def cluster():
    with MiniCluster() as running:
        yield running
    subtask_cache._entries.clear()
