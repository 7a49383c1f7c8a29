"""Programs as files."""

from __future__ import annotations

from tests.builders.scripts import write  # noqa: F401  - a fixture
