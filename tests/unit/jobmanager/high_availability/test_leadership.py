"""Which contender is notified of its leadership, and when of its end."""

from __future__ import annotations

import threading

import pytest

from penstock.jobmanager.high_availability.leadership import LeadershipState
from tests.builders.contenders import Recorder
from tests.builders.waiting import wait_until


class Clock:
    """A clock that only a test moves; it counts how often it is read.

    A leadership looks again when the time that it counts on should be over, so tests count in hundredths of a second.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.now

    def wait_for_looks(self, number: int) -> None:
        before = self.looks
        wait_until(lambda: self.looks >= before + number)


def test_a_contender_is_notified_of_every_leadership_and_of_its_end() -> None:
    contender = Recorder()
    leadership = LeadershipState(contender)
    assert leadership.token is None
    leadership.grant(3)
    wait_until(lambda: contender.reported == [3])
    assert leadership.token == 3
    leadership.revoke()
    wait_until(lambda: contender.reported == [3, None])
    leadership.grant(5)
    wait_until(lambda: contender.reported == [3, None, 5])
    leadership.close()
    assert contender.reported == [3, None, 5, None]


def test_a_leadership_ends_by_itself_when_it_is_not_extended_in_time() -> None:
    contender, clock = Recorder(), Clock()
    leadership = LeadershipState(contender, clock=clock)
    leadership.grant(1, until=0.02)
    wait_until(contender.leads.is_set)
    leadership.extend(until=0.04)
    clock.now = 0.03
    clock.wait_for_looks(10)
    assert (contender.reported, leadership.token) == ([1], 1)
    clock.now = 0.04
    assert leadership.token is None
    wait_until(lambda: contender.reported == [1, None])
    leadership.extend(until=60.0)
    assert leadership.token is None, "it was too late"
    leadership.close()


def test_a_leadership_whose_time_is_over_is_not_extended_before_the_contender_was_notified() -> (
    None
):
    """The thread that tells it has not woken up: it waits for 1000 s of real time, of which none pass here."""
    contender, clock = Recorder(), Clock()
    leadership = LeadershipState(contender, clock=clock)
    leadership.grant(1, until=1000.0)
    wait_until(contender.leads.is_set)
    clock.now = 1000.0
    leadership.extend(until=2000.0)
    assert leadership.token is None
    leadership.close()


@pytest.mark.parametrize(("seconds", "end"), [(10.0, 110.0), (5000.0, 1000.0)])
def test_a_leadership_is_shortened_and_never_prolonged_when_a_connection_is_lost(
    seconds: float, end: float
) -> None:
    contender, clock = Recorder(), Clock()
    leadership = LeadershipState(contender, clock=clock)
    leadership.grant(1, until=1000.0)
    clock.now = 100.0
    leadership.shorten(seconds)
    clock.now = end - 1
    assert leadership.token == 1
    clock.now = end
    assert leadership.token is None
    leadership.close()


def test_a_token_that_replaces_another_is_granted_after_the_other_was_revoked() -> None:
    contender = Recorder()
    leadership = LeadershipState(contender)
    leadership.grant(1)
    wait_until(contender.leads.is_set)
    leadership.grant(2)
    wait_until(lambda: contender.reported == [1, None, 2])
    leadership.close()


def test_the_end_of_a_leadership_waits_for_a_contender_that_is_still_taking_it_up() -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Slow(Recorder):
        def on_granted(self, token: int) -> None:
            entered.set()
            go_on.wait(60)
            super().on_granted(token)

    contender = Slow()
    leadership = LeadershipState(contender)
    leadership.grant(1)
    assert entered.wait(60)
    leadership.revoke()
    assert leadership.token is None, "others see it at once"
    go_on.set()
    wait_until(lambda: contender.reported == [1, None])
    leadership.close()


def test_a_contender_that_fails_is_still_notified_of_the_end_of_its_leadership() -> None:
    class Failing(Recorder):
        def on_granted(self, token: int) -> None:
            super().on_granted(token)
            raise ValueError("no")

    contender = Failing()
    leadership = LeadershipState(contender)
    leadership.grant(1)
    wait_until(contender.leads.is_set)
    leadership.close()
    assert contender.reported == [1, None]
