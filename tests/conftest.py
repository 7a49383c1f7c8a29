"""What all tests share: where they keep files, and what Hypothesis may depend on."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.builders.clusters import own_cluster

# The same examples every time, however busy the machine is. `--hypothesis-profile=explore` looks for new ones.
settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")

_MEMORY = Path("/dev/shm")
_NEEDED_BYTES = 4 << 30  # twice what the tests have at a time

# No test takes the power away, so files need not get to a disk: with RocksDB, waiting for it was two thirds of the time.
if (
    "TMPDIR" not in os.environ
    and os.access(_MEMORY, os.W_OK)
    and shutil.disk_usage(_MEMORY).free > _NEEDED_BYTES
):
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


@pytest.fixture(scope="session", autouse=True)
def penstock_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Jobs of tests are noted in a directory of their own, not in the user's home."""
    os.environ["PENSTOCK_HOME"] = str(tmp_path_factory.mktemp("penstock-home"))


@pytest.fixture
def cluster():
    """Programs of this test run in this process."""
    with own_cluster() as running:
        yield running
