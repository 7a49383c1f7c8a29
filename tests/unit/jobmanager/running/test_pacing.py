"""When the next epoch starts."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.graph.settings import GraphSettings
from penstock.jobmanager.job_creation import create_job
from penstock.jobmanager.job_master.mailbox import Mailbox
from penstock.jobmanager.running.epochs.reading_time import EpochReadingTime
from penstock.jobmanager.running.epochs.schedule import EpochSchedule
from tests.builders.counting_job import environment, totals


class Splits:
    """A source that has data, or has not."""

    no_more_splits = False

    def __init__(self, *, data: bool) -> None:
        self.data = data
        self.looks = 0

    def discover(self) -> None:
        self.looks += 1

    def has_data(self) -> bool:
        return self.data


class Runner:
    def __init__(self, source: Splits) -> None:
        self.checkpoints = SimpleNamespace(sources=[source])

    def next_wakeup(self) -> None:
        return None


class Notified(Mailbox):
    """Is asked with a signal, and answers what the test says."""

    def __init__(self, wake: threading.Event, answer: Any) -> None:
        super().__init__()
        self._wake = wake
        self._answer = answer

    def interrupted(self) -> bool:
        super().interrupted()
        return self._answer()


def pacing_of(wake: Any, interrupted: Any, **options: str) -> EpochSchedule:
    env = environment(1, **options)
    totals(env).print()
    job = create_job(env._transformations, GraphSettings(), env.get_configuration(), "")
    return EpochSchedule(job, Notified(wake, interrupted))


class Waits(threading.Event):
    """Counts the waits that return at once, because it was set."""

    returned_at_once = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.returned_at_once += self.is_set()
        return super().wait(0)


def test_a_signal_whose_request_was_served_already_does_not_keep_an_idle_job_busy() -> None:
    wake, source, asked = Waits(), Splits(data=False), iter([False] * 5 + [True])
    pacing = pacing_of(wake, lambda: next(asked))
    wake.set()  # by the caller, after the request had been taken
    assert pacing.wait_for_work(Runner(source), first=False) is False
    assert (source.looks, wake.returned_at_once) == (5, 0)


def test_a_signal_that_comes_while_the_job_looks_for_work_is_not_lost() -> None:
    wake, asked = Waits(), iter([False, True])

    class Late(Splits):
        def discover(self) -> None:
            wake.set()

    pacing = pacing_of(wake, lambda: next(asked))
    pacing.wait_for_work(Runner(Late(data=False)), first=False)
    assert wake.returned_at_once == 1  # the wait ended at once


@pytest.mark.parametrize(
    ("took_s", "data", "pause_s"),
    [
        pytest.param(0.1, False, 5.0, id="short"),
        pytest.param(0.1, True, 5.0, id="short-and-data-is-left"),
        pytest.param(6.0, False, 5.0, id="long-and-all-was-read"),
        pytest.param(6.0, True, 0.0, id="behind"),
    ],
)
def test_the_minimum_pause_does_not_put_a_job_further_behind(
    took_s: float, data: bool, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pacing = pacing_of(
        threading.Event(),
        lambda: False,
        execution__checkpointing__interval="1 s",
        execution__checkpointing__min_pause="5 s",
    )
    assert pacing.job.interval_s == 5
    pacing.ended(now - took_s, [Splits(data=data)])
    assert pacing._next_trigger == max(now - took_s + 5, now + pause_s)


def test_sources_read_less_while_epochs_take_very_long_and_one_line_says_so(caplog) -> None:
    interval = {"execution.checkpointing.interval": "1 s"}
    pacing = pacing_of(threading.Event(), lambda: False, **interval)
    source = Splits(data=True)
    pacing.ended(time.monotonic() - 500, [source], first=True)  # it has waited for executors
    assert pacing.reading_s == pacing.job.interval_s
    for _ in range(2):
        pacing.ended(time.monotonic() - 500, [source])
    assert pacing.reading_s < pacing.job.interval_s / 100
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    for _ in range(20):
        pacing.ended(time.monotonic(), [source])
    assert pacing.reading_s == pacing.job.interval_s


def test_an_epoch_of_a_few_seconds_is_not_a_reason_to_read_less() -> None:
    reading = EpochReadingTime()
    reading.took(9.0, interval_s=0.1)
    reading.took(110.0, interval_s=60.0)
    assert reading.seconds(60.0) == 60.0
