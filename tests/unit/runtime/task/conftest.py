"""Clocks that stand still unless a test moves them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.time import clock
from tests.builders.task_clocks import replace_monotonic


class WallClock:
    """The wall clock of the process. Milliseconds are whole ones."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds


@pytest.fixture
def wall_clock() -> Iterator[WallClock]:
    made = WallClock()
    before = clock.set_reader(lambda: made.now_ms / 1000)
    yield made
    clock.set_reader(before)


class Stopwatch:
    """What a slot and its subtasks measure time with. A reading may take some time itself."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.reading_s = 0.0

    def monotonic(self) -> float:
        self.now_s += self.reading_s
        return self.now_s


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    made = Stopwatch()
    replace_monotonic(monkeypatch, made.monotonic)
    return made
