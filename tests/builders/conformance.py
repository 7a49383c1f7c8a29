"""Which rules of the conformance kit `make test` puts a connector through."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.builders.modes import MODES


def in_mode(mode: str, rules: Iterable[Any]) -> list[Any]:
    """Return all rules. Those that run jobs do so in each mode: in modes other than this one they are `full`."""
    others = tuple(f"({each})" for each in MODES if each != mode)
    return [
        pytest.param(rule, marks=pytest.mark.full) if str(rule).endswith(others) else rule
        for rule in rules
    ]
