"""What all tests with processes of their own share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.patience import be_patient


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    be_patient(items, Path(__file__).parent)
