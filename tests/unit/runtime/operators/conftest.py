"""The fixture of this folder."""

from __future__ import annotations

from tests.unit.runtime.operators.async_services import run  # noqa: F401  - a fixture
