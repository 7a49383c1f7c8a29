"""The fixture of this folder."""

from __future__ import annotations

from .services import run  # noqa: F401  - a fixture
