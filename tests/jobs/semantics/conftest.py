"""Every program here runs in this process, in both ways."""

from __future__ import annotations

import pytest

from penstock.testing import MiniCluster
from tests.builders.scripted import _empty_log  # noqa: F401  - an automatic fixture


@pytest.fixture(autouse=True, params=["epochs", "pipelined"])
def mode(request):
    """The way in which the programs run."""
    with MiniCluster(request.param):
        yield request.param
