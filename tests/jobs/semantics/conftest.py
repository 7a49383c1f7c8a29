"""Every program here runs in this process."""

from __future__ import annotations

import pytest

from tests.builders.scripted import _empty_log  # noqa: F401  - an automatic fixture


@pytest.fixture(autouse=True)
def _in_this_process(cluster):
    pass
