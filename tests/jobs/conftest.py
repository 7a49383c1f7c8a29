"""What whole jobs run with."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[1, 3], ids=["one subtask", "three subtasks"])
def parallelism(request):
    return request.param


@pytest.fixture(params=["hashmap", "rocksdb"])
def backend(request):
    """The name of a state backend."""
    return request.param
