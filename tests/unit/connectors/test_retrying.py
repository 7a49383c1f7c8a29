"""Pauses between attempts, on a clock that only the test moves."""

from __future__ import annotations

import types

import pytest

from penstock.connectors.base import retrying
from penstock.connectors.base.retrying import Backoff


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moment = [1000.0]
    monkeypatch.setattr(retrying, "time", types.SimpleNamespace(monotonic=lambda: moment[0]))
    return moment


def test_pauses_end_when_their_time_is_over_and_the_last_one_is_cut(now: list[float]) -> None:
    found = []
    for pause in Backoff(100, within_ms=1000, jitter=0).pauses():
        found.append(pause)
        now[0] += pause
    assert found == pytest.approx([0.1, 0.2, 0.4, 0.3])


def test_time_of_the_attempts_counts(now: list[float]) -> None:
    pauses = Backoff(100, within_ms=1000, jitter=0).pauses()
    assert next(pauses) == pytest.approx(0.1)
    now[0] += 1
    assert list(pauses) == []


@pytest.mark.usefixtures("now")
def test_chance_changes_a_pause_by_no_more_than_its_part() -> None:
    found = [next(Backoff(1000, jitter=0.2).pauses()) for _ in range(200)]
    assert 0.8 <= min(found) < max(found) <= 1.2
