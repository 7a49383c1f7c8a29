"""Jobs of this process are published for one test."""

from __future__ import annotations

from tests.builders.publishing import publisher  # noqa: F401  - a fixture
