"""Checkpoints that the tests read: each job runs once per backend."""

from __future__ import annotations

import contextlib
import io

import pytest

from penstock import state
from tests.builders.clusters import own_cluster
from tests.builders.environments import stateful_environment
from tests.jobs.state.jobs import checkpoint, run_everything, run_windows


@pytest.fixture(scope="module", params=["hashmap", "rocksdb"])
def backend(request):
    return request.param


@pytest.fixture(scope="module")
def ran(backend, tmp_path_factory):
    """Where the job with every kind of keyed state left its checkpoints."""
    directory = tmp_path_factory.mktemp("everything")
    with own_cluster():
        run_everything(stateful_environment(backend, directory))
    return directory


@pytest.fixture
def everything(ran):
    """The second of its checkpoints: ann had 1 and 3, bob had 2."""
    return state.read(checkpoint(ran, 2))


@pytest.fixture(scope="module")
def ran_windows(backend, tmp_path_factory):
    directory = tmp_path_factory.mktemp("windows")
    with own_cluster(), contextlib.redirect_stdout(io.StringIO()):
        run_windows(stateful_environment(backend, directory))
    return directory


@pytest.fixture
def windows(ran_windows):
    return state.read(checkpoint(ran_windows, 2))
