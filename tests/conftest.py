"""What all tests share: jobs of tests are noted in a directory of their own, not in the user's home."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def penstock_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["PENSTOCK_HOME"] = str(tmp_path_factory.mktemp("penstock-home"))
