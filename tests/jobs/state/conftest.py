"""Checkpoints that the tests read: each job runs once per backend."""

from __future__ import annotations

import contextlib
import io

import pytest

from penstock import state
from penstock.runtime.task import subtask_cache
from penstock.testing.mini_cluster import MiniCluster

from .jobs import checkpoint, environment, run_everything, run_windows


@contextlib.contextmanager
def cluster_of_its_own():
    with MiniCluster() as running:
        yield running
    for *_, subtask in subtask_cache._entries.values():
        subtask.close()
    subtask_cache._entries.clear()


@pytest.fixture
def cluster():
    with cluster_of_its_own() as running:
        yield running


@pytest.fixture(scope="module", params=["hashmap", "rocksdb"])
def backend(request):
    return request.param


@pytest.fixture(scope="module")
def ran(backend, tmp_path_factory):
    """Where the job with every kind of keyed state left its checkpoints."""
    directory = tmp_path_factory.mktemp("everything")
    with cluster_of_its_own():
        run_everything(environment(backend, directory))
    return directory


@pytest.fixture
def everything(ran):
    """The second of its checkpoints: ann had 1 and 3, bob had 2."""
    return state.read(checkpoint(ran, 2))


@pytest.fixture(scope="module")
def ran_windows(backend, tmp_path_factory):
    directory = tmp_path_factory.mktemp("windows")
    with cluster_of_its_own(), contextlib.redirect_stdout(io.StringIO()):
        run_windows(environment(backend, directory))
    return directory


@pytest.fixture
def windows(ran_windows):
    return state.read(checkpoint(ran_windows, 2))
