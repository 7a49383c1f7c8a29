"""The tests that are known to fail now and then, from `tests/quarantine.toml`.

A quarantined test still runs. If it fails, the run goes on and reports it as an expected failure. Nothing is retried. Every run prints
the list, so that it is not forgotten.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "quarantine.toml"


@dataclass(frozen=True)
class Quarantined:
    """A test that may fail, who will fix it, and since when it is here."""

    test: str
    owner: str
    since: date
    reason: str

    def __str__(self) -> str:
        return f"{self.test} ({self.owner}, since {self.since}): {self.reason}"


def read(text: str) -> list[Quarantined]:
    """Return the entries of a quarantine list; each must be complete."""
    entries = [Quarantined(**entry) for entry in tomllib.loads(text).get("test", [])]
    for entry in entries:
        if not (entry.owner and entry.reason and type(entry.since) is date):
            raise ValueError(f"incomplete quarantine entry, it needs owner, since, reason: {entry}")
    return entries


def report() -> list[str]:
    """Return the lines that every test run ends with."""
    entries = read(PATH.read_text())
    return [f"quarantine: {len(entries)} tests", *(f"  {entry}" for entry in entries)]


def mark(items: Sequence[pytest.Item]) -> None:
    """Let quarantined tests fail without failing the run."""
    reasons = {entry.test: str(entry) for entry in read(PATH.read_text())}
    for item in items:
        if reason := reasons.get(item.nodeid):
            item.add_marker(pytest.mark.xfail(strict=False, reason=f"quarantined: {reason}"))
