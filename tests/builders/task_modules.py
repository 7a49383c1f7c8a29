"""A module that only tasks shall import."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A Python file that cannot be imported yet."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "modules" / "doubling_for_tasks.py"
    path.parent.mkdir()
    path.write_text("def double(value):\n    return 2 * value\n")
    yield path
    sys.modules.pop("doubling_for_tasks", None)
