"""What every way to elect a leader promises, on the real thing: a directory, ZooKeeper, Leases of Kubernetes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.jobmanager.high_availability.election import Candidate, LeaderElection
from tests.builders.contenders import Recorder, wait_until
from tests.connectors.high_availability.conftest import Service

pytestmark = pytest.mark.filterwarnings("ignore:.*urllib3.*")


class Member:
    """A candidate in this process."""

    def __init__(self, service: Service, number: int, **more: str) -> None:
        self.election: LeaderElection = service.election(**more)
        self.contender = Recorder()
        self.candidate = Candidate.here(f"127.0.0.1:{8000 + number}")
        self.election.start(self.candidate, self.contender)

    @property
    def leads(self) -> bool:
        return self.contender.leads.is_set()


@contextmanager
def members(service: Service, count: int, **more: str) -> Iterator[list[Member]]:
    found = [Member(service, number, **more) for number in range(count)]
    try:
        yield found
    finally:
        for member in found:
            member.election.close()


def the_leader(found: list[Member]) -> Member:
    wait_until(lambda: any(member.leads for member in found))
    leading = [member for member in found if member.leads]
    assert len(leading) == 1
    return leading[0]


def test_one_of_three_leads_and_all_know_where_it_is(service: Service) -> None:
    with members(service, 3) as found:
        leader = the_leader(found)
        assert leader.election.token == leader.contender.tokens[-1]
        for member in found:
            assert member.election.leader() == leader.candidate
            assert member is leader or member.election.token is None
        # Whoever only asks takes no part.
        asking = service.election()
        assert asking.leader() == leader.candidate
        asking.close()


def test_whoever_asks_who_leads_while_it_begins_to_take_part_gets_to_lead(service: Service) -> None:
    election, contender = service.election(), Recorder()
    asking = [threading.Thread(target=election.leader, daemon=True) for _ in range(3)]
    for thread in asking:
        thread.start()
    election.start(Candidate.here("127.0.0.1:1"), contender)
    wait_until(contender.leads.is_set)
    for thread in asking:
        thread.join(10)
    election.close()


def test_leaders_that_leave_are_followed_by_others_with_larger_tokens(service: Service) -> None:
    tokens = []
    with members(service, 4) as found:
        waiting = list(found)
        while waiting:
            leader = the_leader(waiting)
            tokens.append(leader.contender.tokens[-1])
            leader.election.close()
            assert leader.contender.told[-1] is None, "it was told before the next one leads"
            waiting.remove(leader)
        asking = service.election()
        wait_until(lambda: asking.leader() is None)
        asking.close()
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 4


def test_a_leader_that_is_cut_off_gives_up_and_somebody_leads_when_the_service_is_back(
    service: Service,
) -> None:
    with members(service, 2) as found:
        before = the_leader(found).contender.tokens[-1]
        service.go_away()
        try:
            wait_until(lambda: not any(member.leads for member in found))
            assert all(member.election.token is None for member in found)
        finally:
            service.come_back()
        after = the_leader(found)
        assert after.contender.tokens[-1] >= before


def test_clusters_with_other_names_have_leaders_of_their_own(service: Service) -> None:
    with (
        members(service, 1) as here,
        members(service, 1, **{"high-availability.cluster-id": "elsewhere"}) as there,
    ):
        assert the_leader(here).election.leader() != the_leader(there).election.leader()
