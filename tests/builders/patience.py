"""How long a test may take before it fails instead of hanging."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

# Far more than any of these tests needs, also where many other processes have the processors.
SECONDS = 900


def be_patient(items: Sequence[pytest.Item], directory: Path) -> None:
    """Give time to the tests of a directory that have no limit of their own: they start processes."""
    for item in items:
        if item.path.parent == directory and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))
