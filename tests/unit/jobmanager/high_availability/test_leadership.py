"""Who is told that it leads, and when it is told that it does not."""

from __future__ import annotations

import threading
import time

from penstock.jobmanager.high_availability.leadership import Leadership
from tests.builders.contenders import Recorder, wait_until


def test_a_contender_is_told_of_every_leadership_and_of_its_end() -> None:
    contender = Recorder()
    leadership = Leadership(contender)
    assert leadership.token is None
    leadership.grant(3)
    wait_until(lambda: contender.told == [3])
    assert leadership.token == 3
    leadership.revoke()
    wait_until(lambda: contender.told == [3, None])
    leadership.grant(5)
    wait_until(lambda: contender.told == [3, None, 5])
    leadership.close()
    assert contender.told == [3, None, 5, None]


def test_a_leadership_ends_by_itself_when_it_is_not_extended_in_time() -> None:
    contender = Recorder()
    leadership = Leadership(contender)
    began = time.monotonic()
    leadership.grant(1, began + 0.1)
    wait_until(contender.leads.is_set)
    leadership.extend(began + 0.3)
    wait_until(lambda: contender.told == [1, None])
    assert time.monotonic() - began >= 0.3
    assert leadership.token is None
    leadership.extend(time.monotonic() + 60)
    assert leadership.token is None, "it was too late"
    leadership.close()


def test_a_token_that_replaces_another_is_granted_after_the_other_was_revoked() -> None:
    contender = Recorder()
    leadership = Leadership(contender)
    leadership.grant(1)
    wait_until(contender.leads.is_set)
    leadership.grant(2)
    wait_until(lambda: contender.told == [1, None, 2])
    leadership.close()


def test_the_end_of_a_leadership_waits_for_a_contender_that_is_still_taking_it_up() -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Slow(Recorder):
        def on_granted(self, token: int) -> None:
            entered.set()
            go_on.wait(10)
            super().on_granted(token)

    contender = Slow()
    leadership = Leadership(contender)
    leadership.grant(1)
    assert entered.wait(10)
    leadership.revoke()
    assert leadership.token is None, "others see it at once"
    go_on.set()
    wait_until(lambda: contender.told == [1, None])
    leadership.close()


def test_a_contender_that_fails_is_told_all_the_same_that_it_leads_no_more() -> None:
    class Failing(Recorder):
        def on_granted(self, token: int) -> None:
            super().on_granted(token)
            raise ValueError("no")

    contender = Failing()
    leadership = Leadership(contender)
    leadership.grant(1)
    wait_until(contender.leads.is_set)
    leadership.close()
    assert contender.told == [1, None]
