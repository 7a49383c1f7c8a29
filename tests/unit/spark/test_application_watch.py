"""An application without executors: what is said of it, and when another one is started."""

from __future__ import annotations

import threading

import pytest

from penstock.spark.application_watch import ApplicationState, ApplicationWatch, warn_if_slow
from tests.builders.waiting import wait_until

MASTER = "spark://host:7077"


@pytest.fixture
def watch() -> ApplicationWatch:
    return ApplicationWatch(MASTER, timeout_s=30.0)


def never() -> ApplicationState:
    raise AssertionError("the master was asked")


def test_a_master_is_not_asked_while_there_are_executors(watch: ApplicationWatch) -> None:
    assert watch.look(0.0, 2, never) == (False, None)


def test_an_application_that_its_master_does_not_know_is_lost_at_once(
    watch: ApplicationWatch,
) -> None:
    lost, text = watch.look(0.0, 0, lambda: ApplicationState.UNKNOWN)
    assert lost
    assert text is not None
    assert MASTER in text
    assert "spark.deploy.recoveryMode" in text


def test_a_master_that_does_not_answer_is_waited_for_and_one_line_says_so(
    watch: ApplicationWatch,
) -> None:
    looks = [watch.look(float(moment), 0, lambda: ApplicationState.SILENT) for moment in range(100)]
    assert not any(lost for lost, _ in looks)
    (said,) = [text for _, text in looks if text is not None]
    assert "restart it" in said


def test_executors_have_their_time_to_come_before_anything_is_said(
    watch: ApplicationWatch,
) -> None:
    texts = [
        (moment, text)
        for moment in range(100)
        if (text := watch.look(float(moment), 0, lambda: ApplicationState.KNOWN)[1]) is not None
    ]
    ((moment, text),) = texts
    assert moment == 30
    assert "no executors for 30 s" in text


def test_what_comes_back_is_said_and_the_next_loss_too(watch: ApplicationWatch) -> None:
    watch.look(0.0, 0, lambda: ApplicationState.SILENT)
    assert watch.look(1.0, 2, never) == (False, "Spark has executors again: 2")
    assert watch.look(2.0, 2, never) == (False, None)
    assert watch.look(3.0, 0, lambda: ApplicationState.SILENT)[1] is not None


def test_an_application_that_takes_long_to_start_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """YARN starts it when it has room, and Spark says nothing until then."""
    with warn_if_slow("yarn", timeout_s=0.0):
        wait_until(lambda: caplog.messages)
    assert "for its application to start on the cluster (yarn)" in caplog.text
    caplog.clear()
    with warn_if_slow("yarn", timeout_s=0.5) as started:
        assert started is None
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(30)
    assert caplog.messages == []
