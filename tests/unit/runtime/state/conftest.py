"""Both backends go through the same tests."""

from __future__ import annotations

import pytest

from tests.unit.runtime.state.worlds import BACKENDS, World


@pytest.fixture(params=BACKENDS)
def backend(request):
    """The name of a backend."""
    return request.param


@pytest.fixture
def world(backend, tmp_path):
    made = World(backend, tmp_path)
    yield made
    made.backend.close()


@pytest.fixture
def rocks(tmp_path):
    made = World("rocksdb", tmp_path)
    yield made
    made.backend.close()
