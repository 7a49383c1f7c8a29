"""A module that is not importable yet."""

from __future__ import annotations

from tests.builders.task_modules import module  # noqa: F401  - a fixture
