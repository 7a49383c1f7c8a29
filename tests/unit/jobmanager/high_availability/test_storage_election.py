"""An election on shared storage, in a directory of the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.heartbeat_lease import current_claim
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, CheckpointError, FencedError
from penstock.jobmanager.high_availability import storage_election
from penstock.jobmanager.high_availability.election import Candidate
from penstock.jobmanager.high_availability.leadership import LeadershipState
from penstock.jobmanager.high_availability.storage_election import StorageElection
from tests.builders.contenders import Recorder
from tests.builders.waiting import wait_until

SHORT_S = 0.4  # what depends on it only takes longer on a busy machine
LONG_S = 3600.0  # a lease that no test loses


@pytest.fixture
def storage(tmp_path: Path) -> CheckpointFileSystem:
    return CheckpointFileSystem(str(tmp_path))


@pytest.fixture
def elect(
    storage: CheckpointFileSystem,
) -> Iterator[Callable[..., tuple[StorageElection, Recorder]]]:
    made: list[StorageElection] = []

    def start(
        name: str, contender: Recorder | None = None, lease_s: float = SHORT_S, on: Any = None
    ) -> tuple[StorageElection, Recorder]:
        contender = contender or Recorder()
        election = StorageElection(on or storage, lease_s=lease_s)
        made.append(election)
        election.start(Candidate(name, f"{name}:8081"), contender)
        return election, contender

    yield start
    for each in made:
        each.close()


@pytest.fixture
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates look 20 times a second whether a long lease is free."""
    monkeypatch.setattr(storage_election, "_BEATS", LONG_S * 10)


@pytest.mark.usefixtures("_looks_often")
def test_the_leader_is_named_and_the_next_one_has_a_larger_token(elect, storage) -> None:
    first, one = elect("a", lease_s=LONG_S)
    wait_until(one.leads.is_set)
    second, two = elect("b", lease_s=LONG_S)
    assert second.leader() == Candidate("a", "a:8081")
    assert second.token is None
    first.close()
    wait_until(two.leads.is_set)
    assert second.leader() == Candidate("b", "b:8081")
    assert one.reported == [1, None]
    assert two.tokens[0] > 1
    # Former leaders are forgotten after the new one is notified.
    wait_until(lambda: storage.list("leader/") == [f"leader/{two.tokens[0]:08d}"])
    second.close()
    assert second.leader() is None


@pytest.mark.usefixtures("_looks_often")
def test_the_contender_has_let_go_of_everything_before_the_next_one_may_lead(
    elect, storage
) -> None:
    class Slow(Recorder):
        def on_revoked(self) -> None:
            self.claim = current_claim(storage)
            super().on_revoked()

    leader, contender = elect("a", Slow(), LONG_S)
    wait_until(contender.leads.is_set)
    leader.close()
    assert contender.claim == contender.tokens[0]
    assert current_claim(storage) is None


def test_a_leader_that_finds_a_newer_claim_leads_no_more(elect, storage) -> None:
    _, contender = elect("a")
    wait_until(contender.leads.is_set)
    storage.write_new("lease/00000099-other", b"{}")
    wait_until(lambda: contender.reported[:2] == [contender.tokens[0], None])


class Failing:
    """Storage that does not take renewals any more when a test says so."""

    def __init__(self, storage: CheckpointFileSystem) -> None:
        self._storage = storage
        self.away = False
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def write_atomic(self, name: str, data: bytes) -> None:
        if self.away:
            self.refused += 1
            raise CheckpointError("storage is away")
        self._storage.write_atomic(name, data)


def test_a_leader_that_cannot_renew_its_lease_leads_no_more(elect, storage) -> None:
    failing = Failing(storage)
    election, contender = elect("a", on=failing)
    wait_until(contender.leads.is_set)
    failing.away = True
    # On a busy machine it may lose its lease before that, but it does not lead again meanwhile.
    wait_until(lambda: failing.refused and contender.reported[-1] is None)
    failing.away = False
    wait_until(lambda: election.token is not None)
    assert contender.tokens == sorted(set(contender.tokens))


class Lease:
    """A lease on a clock of its own: each renewal takes a while, and the last one finds that it is lost."""

    number = 7

    def __init__(self, renewals: int, takes_s: float) -> None:
        self.renewed_at = 0.0
        self.now = 0.0
        self.renewals = 0
        self.released = False
        self._most = renewals
        self._takes_s = takes_s

    def renew(self) -> None:
        self.renewals += 1
        if self.renewals == self._most:
            raise FencedError("another one has it")
        self.now += self._takes_s
        self.renewed_at = self.now

    def release(self) -> None:
        self.released = True


@pytest.mark.parametrize(
    ("renewals", "takes_s"), [(1, 0.0), (5, 0.2)], ids=["at the first renewal", "after some time"]
)
def test_a_leader_goes_on_while_it_renews_its_lease_and_no_longer(storage, renewals, takes_s):
    """Its lease lasts 0.4 s here, of which it counts on 0.3 s from each renewal."""
    lease, contender = Lease(renewals, takes_s), Recorder()
    leadership = LeadershipState(contender, clock=lambda: lease.now)
    election, candidate = StorageElection(storage, lease_s=SHORT_S), Candidate("a", "a:8081")
    leading = threading.Thread(target=election._lead, args=(lease, candidate, leadership))
    leading.start()
    leading.join(60)
    found = leading.is_alive(), lease.renewals, lease.released, leadership.token
    election._stop.set()
    leadership.close()
    assert found == (False, renewals, True, None)


def test_a_leader_is_certain_for_less_time_than_others_wait(storage) -> None:
    election = StorageElection(storage, lease_s=8.0)
    lease: Any = Lease(1, 0.0)
    lease.renewed_at = 100.0
    assert 100 < election._certain_until(lease) < 108


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_lease_that_lasts_no_time_is_refused(storage, seconds) -> None:
    with pytest.raises(ArgumentError, match="invalid lease duration"):
        StorageElection(storage, lease_s=seconds)
