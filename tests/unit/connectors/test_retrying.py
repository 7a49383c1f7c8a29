"""Pauses between attempts, on a clock that only the test moves."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import types

import pytest

from penstock.connectors.base import retrying
from penstock.connectors.base.retrying import AttemptFailedError, Backoff, retry, retry_async


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


def test_a_pause_that_does_not_fit_may_be_left_out(now: list[float]) -> None:
    found = []
    for pause in Backoff(100, within_ms=1000, jitter=0, cuts_last_pause=False).pauses(now[0]):
        found.append(pause)
        now[0] += pause
    assert found == pytest.approx([0.1, 0.2, 0.4])


class Flaky:
    """Fails with these errors, then returns 42."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.pauses: list[float] = []
        self.noticed: list[str] = []

    def ask(self) -> int:
        if self.errors:
            raise self.errors.pop(0)
        return 42

    async def ask_async(self) -> int:
        return self.ask()

    def run(self, *pauses: float) -> int:
        return retry(
            self.ask,
            pauses,
            when=lambda error: isinstance(error, OSError | AttemptFailedError),
            before_pause=lambda error: self.noticed.append(str(error)),
            sleep=self.pauses.append,
        )


def test_there_is_one_more_attempt_than_there_are_pauses() -> None:
    busy = Flaky(OSError("first"), OSError("second"))
    assert busy.run(0.1, 0.2) == 42
    assert (busy.pauses, busy.noticed) == ([0.1, 0.2], ["first", "second"])
    away = Flaky(OSError("first"), OSError("second"))
    with pytest.raises(OSError, match="second"):
        away.run(0.1)
    assert (away.pauses, away.noticed) == ([0.1], ["first"])


def test_an_error_that_stays_is_raised_at_once() -> None:
    wrong = Flaky(ValueError("wrong"))
    with pytest.raises(ValueError, match="wrong"):
        wrong.run(0.1, 0.2)
    assert wrong.pauses == []


def test_a_pause_is_as_long_as_the_system_asks_at_least() -> None:
    busy = Flaky(AttemptFailedError("busy", 7.0), AttemptFailedError("busy"))
    assert busy.run(0.1, 0.2) == 42
    assert busy.pauses == [7.0, 0.2]


def test_async_functions_are_repeated_too() -> None:
    busy = Flaky(OSError("first"))
    found = retry_async(busy.ask_async, itertools.repeat(0.0), when=lambda _: True)
    assert asyncio.run(found) == 42


def test_the_library_is_imported_with_the_first_call() -> None:
    modules = "penstock.connectors.http.sink, penstock.connectors.jdbc.writers, penstock.formats.confluent.registry"
    code = f"import sys, {modules}; print('tenacity' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
