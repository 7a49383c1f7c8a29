"""What is reported of tasks while an epoch runs."""

from __future__ import annotations

import sys
import threading

import pytest

from penstock.spark import task_events
from penstock.spark.task_events import TaskStarted, watched
from tests.builders.waiting import wait_until

FIRST, SECOND = TaskStarted(0, 0, 10), TaskStarted(1, 2, 20)


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(task_events, "_FIRST_LOOK_S", 0.001)
    monkeypatch.setattr(task_events, "_POLL_S", 0.001)


@pytest.mark.usefixtures("often")
def test_each_task_is_reported_once_and_as_soon_as_it_is_known():
    known, reported, both = [FIRST], [], threading.Event()

    def on_started(task):
        reported.append(task)
        known.append(SECOND)
        if len(reported) == 2:
            both.set()

    with watched(lambda: known, on_started):
        assert both.wait(60)

    assert reported == [FIRST, SECOND]


def test_an_epoch_that_is_over_soon_is_not_looked_at():
    with watched(lambda: pytest.fail("it was looked at"), print):
        pass


@pytest.mark.usefixtures("often")
def test_nothing_is_reported_after_the_end():
    looking, reported = threading.Event(), []
    main = threading.current_thread().ident

    def main_waits_for_the_end():
        frame = sys._current_frames()[main]
        while frame is not None and frame.f_code.co_name != "join":
            frame = frame.f_back
        return frame is not None

    def look():
        looking.set()
        wait_until(main_waits_for_the_end)
        return [FIRST]

    with watched(look, reported.append):
        assert looking.wait(60)
    assert reported == []


@pytest.mark.usefixtures("often")
def test_a_spark_that_does_not_answer_is_not_a_reason_to_fail():
    asked = threading.Event()

    def look():
        asked.set()
        raise OSError("gone")

    with watched(look, print):
        assert asked.wait(60)
