"""Rounds of an election with a Lease, against an API server in memory."""

from __future__ import annotations

import copy
import datetime as dt
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes.client import ApiException, V1Lease, V1LeaseSpec

from penstock.errors import ConfigurationError
from penstock.jobmanager.high_availability import kubernetes_election
from penstock.jobmanager.high_availability.election import Candidate
from penstock.jobmanager.high_availability.kubernetes_election import KubernetesElection
from penstock.jobmanager.high_availability.leadership import LeadershipState
from penstock.jobmanager.high_availability.lease_core import LeaseCore
from tests.builders.contenders import Recorder
from tests.builders.waiting import wait_until

LEASE_S, DEADLINE_S, RETRY_S = 30.0, 20.0, 5.0


class Api:
    """Keeps one Lease, with the versions of the real thing; time passes only where a test says so."""

    def __init__(self) -> None:
        self.lease: V1Lease | None = None
        self.now = 1000.0
        self.request_s = 0.0  # how long a write takes
        self.before_write: Callable[[], object] = lambda: None
        self._version = 0

    def read_namespaced_lease(self, name: str, namespace: str, **_: Any) -> V1Lease:
        if self.lease is None:
            raise ApiException(status=404)
        return copy.deepcopy(self.lease)

    def create_namespaced_lease(self, namespace: str, lease: V1Lease, **_: Any) -> V1Lease:
        self._begin_write()
        if self.lease is not None:
            raise ApiException(status=409)
        lease.metadata.creation_timestamp = dt.datetime.fromtimestamp(self.now, dt.UTC)
        return self.put(lease)

    def replace_namespaced_lease(
        self, name: str, namespace: str, lease: V1Lease, **_: Any
    ) -> V1Lease:
        self._begin_write()
        if self.lease is None:
            raise ApiException(status=404)
        if lease.metadata.resource_version != self.lease.metadata.resource_version:
            raise ApiException(status=409)
        return self.put(lease)

    def put(self, lease: V1Lease) -> V1Lease:
        self._version += 1
        self.lease = copy.deepcopy(lease)
        self.lease.metadata.resource_version = str(self._version)
        return copy.deepcopy(self.lease)

    def change(self, **spec: Any) -> None:
        """Let another client change the lease."""
        assert self.lease is not None
        changed = copy.deepcopy(self.lease)
        changed.spec = V1LeaseSpec(**{**_fields(changed.spec), **spec})
        self.put(changed)

    def _begin_write(self) -> None:
        before, self.before_write = self.before_write, lambda: None
        before()
        self.now += self.request_s


def _fields(spec: V1LeaseSpec) -> dict[str, Any]:
    return {
        name: getattr(spec, name)
        for name in ("holder_identity", "lease_duration_seconds", "lease_transitions")
    }


class Process:
    """A candidate that takes part round by round."""

    def __init__(self, api: Any, name: str) -> None:
        self.candidate = Candidate(name, f"{name}:8081")
        self.contender = Recorder()
        self.leadership = LeadershipState(self.contender, clock=lambda: api.now)
        self.election = KubernetesElection(
            api, "default", "lease", lease_s=LEASE_S, deadline_s=DEADLINE_S, retry_s=RETRY_S
        )
        self._core = LeaseCore(name)

    def round(self) -> int | None:
        self.election._round(self._core, self.candidate, self.leadership)
        return self.leadership.token


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    api = Api()
    times = types.SimpleNamespace(monotonic=lambda: api.now)
    monkeypatch.setattr(kubernetes_election, "time", times)
    return api


@pytest.fixture
def process(api: Api) -> Iterator[Callable[[str], Process]]:
    made: list[Process] = []

    def make(name: str) -> Process:
        made.append(Process(api, name))
        return made[-1]

    yield make
    for each in made:
        each.leadership.close()


def test_the_first_to_come_makes_the_lease_and_leads(api, process) -> None:
    first, second = process("a"), process("b")
    token = first.round()
    assert token is not None
    assert second.round() is None
    assert first.round() == token
    assert api.lease.spec.holder_identity == "a"
    assert second.election.leader() == first.candidate


def test_a_leader_counts_on_leading_from_before_its_renewal_was_sent(api, process) -> None:
    leader = process("a")
    api.request_s = 3.0
    for begun in (1000.0, 1010.0):
        api.now = begun
        leader.round()
        assert api.now == begun + 3
    api.now = 1010.0 + DEADLINE_S - 0.1
    assert leader.leadership.token is not None
    api.now += 0.1
    assert leader.leadership.token is None


def test_the_first_word_of_a_leader_counts_from_before_it_was_sent_too(api, process) -> None:
    leader = process("a")
    api.request_s = 3.0
    leader.round()
    api.now = 1000.0 + DEADLINE_S
    assert leader.leadership.token is None


def test_a_lease_is_taken_when_it_was_not_renewed_for_its_whole_duration(api, process) -> None:
    first, second = process("a"), process("b")
    before = first.round()
    second.round()
    api.now += LEASE_S - 1
    assert second.round() is None
    assert first.leadership.token is None, "it is over here before others may take it"
    api.now += 1
    after = second.round()
    assert after is not None
    assert after > before
    assert api.lease.spec.lease_transitions == 2
    assert first.round() is None
    assert api.lease.spec.holder_identity == "b"


def test_a_renewal_in_between_is_waited_for_again(api, process) -> None:
    first, second = process("a"), process("b")
    first.round()
    second.round()
    api.now += DEADLINE_S - 1
    first.round()
    second.round()
    api.now += LEASE_S - 1
    assert second.round() is None


def test_of_two_that_take_a_lease_at_once_one_is_refused(api, process) -> None:
    first, second = process("a"), process("b")
    api.before_write = second.round
    assert first.round() is None
    assert second.leadership.token is not None
    assert api.lease.spec.holder_identity == "b"


def test_a_leader_that_is_refused_when_it_renews_leads_no_more(api, process) -> None:
    leader = process("a")
    leader.round()
    api.before_write = lambda: api.change(holder_identity="b", lease_transitions=2)
    assert leader.round() is None
    assert api.lease.spec.holder_identity == "b"


def test_a_leader_that_reads_that_another_one_has_the_lease_leads_no_more(api, process) -> None:
    leader = process("a")
    leader.round()
    api.change(holder_identity="b", lease_transitions=2)
    assert leader.round() is None
    assert api.lease.spec.holder_identity == "b"


def test_a_leader_that_gave_up_and_finds_its_lease_again_leads_with_another_token(
    api, process
) -> None:
    leader = process("a")
    before = leader.round()
    wait_until(lambda: leader.contender.reported == [before])
    api.now += DEADLINE_S
    assert leader.leadership.token is None
    after = leader.round()
    assert after is not None
    assert after > before
    wait_until(lambda: leader.contender.reported == [before, None, after])


def test_a_lease_that_was_deleted_and_made_again_gives_a_larger_token(api, process) -> None:
    leader = process("a")
    before = leader.round()
    for _ in range(3):  # a token counts the changes of hands, too
        api.change(lease_transitions=api.lease.spec.lease_transitions + 1)
    api.now += 1
    api.lease = None
    assert leader.round() > before


def test_who_ends_gives_up_only_its_own_lease(api, process) -> None:
    first = process("a")
    first.round()
    first.election._release(first.candidate)
    assert api.lease.spec.holder_identity is None
    assert first.election.leader() is None
    second = process("b")
    assert second.round() is not None, "a free lease is taken at once"
    first.election._release(first.candidate)
    assert api.lease.spec.holder_identity == "b"


@pytest.mark.parametrize("seconds", [(10, 10, 1), (10, 5, 5), (5, 10, 1)], ids=str)
def test_times_with_which_two_could_lead_at_once_are_refused(api, seconds) -> None:
    lease_s, deadline_s, retry_s = seconds
    with pytest.raises(ConfigurationError, match="retry-period must be shorter"):
        KubernetesElection(
            api, "default", "lease", lease_s=lease_s, deadline_s=deadline_s, retry_s=retry_s
        )
