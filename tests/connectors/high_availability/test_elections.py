"""What every way to elect a leader promises, on the real thing: a directory, ZooKeeper, Leases of Kubernetes."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.jobmanager.high_availability.election import Candidate, LeaderElection
from tests.builders.contenders import Recorder
from tests.builders.waiting import wait_until
from tests.connectors.high_availability.conftest import Service
from tests.connectors.high_availability.looking_leader import Look

pytestmark = pytest.mark.filterwarnings("ignore:.*urllib3.*")


class Member:
    """A candidate in this process."""

    def __init__(self, service: Service, number: int, **more: str) -> None:
        self.election: LeaderElection = service.election(**more)
        self.contender = Recorder()
        self.candidate = Candidate.here(f"127.0.0.1:{8000 + number}")
        self.election.start(self.candidate, self.contender)

    def close(self) -> None:
        self.election.close()


@contextmanager
def members(service: Service, count: int, **more: str) -> Iterator[list[Member]]:
    found = [Member(service, number, **more) for number in range(count)]
    try:
        yield found
    finally:
        for member in found:
            member.close()


def leading(found: list[Member]) -> list[tuple[Member, int]]:
    """Return who leads at this moment, by its own clock, and with what token.

    No token comes twice, so those that have one the first time and still the second time had it all the while: there was a moment
    when all of them led.
    """
    before = [member.election.token for member in found]
    after = [member.election.token for member in found]
    return [
        (member, token)
        for member, token, still in zip(found, before, after, strict=True)
        if token is not None and token == still
    ]


def the_leader(found: list[Member]) -> tuple[Member, int]:
    """Return the only leader, once it was notified, and its token."""
    while True:
        now: list[tuple[Member, int]] = []

        def there_is_a_leader() -> bool:
            now[:] = leading(found)
            assert len(now) <= 1, "they lead at the same time"
            return bool(now)

        wait_until(there_is_a_leader)
        ((leader, token),) = now
        # It may have been too slow to renew its place meanwhile: then there is another leader, or it was elected again.
        wait_until(lambda: token in leader.contender.tokens or leading(found) != now)
        if token in leader.contender.tokens:
            return leader, token


@pytest.mark.ci
def test_one_of_three_leads_and_all_know_where_it_is(service: Service) -> None:
    with members(service, 3) as found:
        asking = service.election()  # asking for the leader is not taking part

        def all_know() -> bool:
            leader, _ = the_leader(found)
            known = [each.leader() for each in [asking, *(member.election for member in found)]]
            return known == [leader.candidate] * 4

        wait_until(all_know)
        asking.close()


def test_asking_for_the_leader_while_joining_becomes_leader(service: Service) -> None:
    election, contender = service.election(), Recorder()
    asking = [threading.Thread(target=election.leader, daemon=True) for _ in range(3)]
    for thread in asking:
        thread.start()
    election.start(Candidate.here("127.0.0.1:1"), contender)
    wait_until(contender.leads.is_set)
    for thread in asking:
        thread.join()
    election.close()


@pytest.mark.ci
def test_leaders_that_leave_are_followed_by_others_with_larger_tokens(service: Service) -> None:
    tokens = []
    with members(service, 4) as found:
        waiting = list(found)
        while waiting:
            leader, token = the_leader(waiting)
            tokens.append(token)
            leader.close()
            assert leader.contender.reported[-1] is None, (
                "it was notified before the next one leads"
            )
            waiting.remove(leader)
        asking = service.election()
        wait_until(lambda: asking.leader() is None)
        asking.close()
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 4


def test_paused_leader_does_not_lead_after_a_new_election(
    service: Service,
) -> None:
    options = {**service.options, **service.soon}
    command = [sys.executable, "-m", "tests.connectors.high_availability.looking_leader"]
    with subprocess.Popen(
        [*command, json.dumps(options)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            looks = (Look(*map(int, line.split())) for line in process.stdout)
            stopped = next(look.token for look in looks if look.token)
            os.kill(process.pid, signal.SIGSTOP)
            with members(service, 1, **service.soon) as found:
                _, token = the_leader(found)
                led_at = time.monotonic_ns()
                os.kill(process.pid, signal.SIGCONT)
                later = itertools.islice((look for look in looks if look.at >= led_at), 20)
                tokens = [look.token for look in later]
            assert len(tokens) == 20
            assert stopped not in tokens, "two of them led at the same time"
            assert token > stopped
        finally:
            process.kill()


@pytest.mark.ci
def test_disconnected_leader_steps_down_and_a_leader_is_elected_later(
    service: Service,
) -> None:
    with members(service, 2) as found:
        _, before = the_leader(found)
        service.go_away()
        try:
            wait_until(lambda: not any(member.contender.leads.is_set() for member in found))
            assert all(member.election.token is None for member in found)
        finally:
            service.come_back()
        _, after = the_leader(found)
        assert after >= before


def test_clusters_with_other_names_have_leaders_of_their_own(service: Service) -> None:
    with (
        members(service, 1) as here,
        members(service, 1, **{"high-availability.cluster-id": "elsewhere"}) as there,
    ):
        one, other = the_leader(here)[0], the_leader(there)[0]
        assert one.election.leader() == one.candidate
        assert other.election.leader() == other.candidate
