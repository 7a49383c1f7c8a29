"""Rounds of an election with ZooKeeper, whose nodes are in memory."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooState
from kazoo.exceptions import ConnectionLoss

from penstock.jobmanager.high_availability import zookeeper_election
from penstock.jobmanager.high_availability.election import Candidate
from penstock.jobmanager.high_availability.leadership import LeadershipState
from penstock.jobmanager.high_availability.zookeeper_election import ZooKeeperElection
from tests.builders.contenders import Recorder
from tests.builders.waiting import wait_until

SESSION_S = 30.0


class Service:
    """The nodes below one path, and a clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.nodes: dict[str, tuple[bytes, int, int]] = {}  # data, transaction, session
        self.watches: list[tuple[str, Callable[[object], None]]] = []
        self.look_s = 0.0  # how long it takes to list the nodes
        self.loses_answers = False
        self._transactions = 100

    def make(self, prefix: str, data: bytes, session: int) -> str:
        self._transactions += 1
        name = f"{prefix}{self._transactions:010d}"
        self.nodes[name] = (data, self._transactions, session)
        return name

    def delete(self, name: str) -> None:
        del self.nodes[name]
        reported = [watch for node, watch in self.watches if node == name]
        self.watches = [each for each in self.watches if each[0] != name]
        for watch in reported:
            watch(None)


class Client:
    """A session, in place of kazoo's client."""

    handler = types.SimpleNamespace(timeout_exception=TimeoutError)

    def __init__(self, service: Service, session: int) -> None:
        self._service = service
        self.client_id = (session, b"")
        self.connected = True

    def ensure_path(self, path: str) -> None:
        pass

    def create(self, path: str, data: bytes, *, ephemeral: bool, sequence: bool) -> str:
        assert ephemeral
        assert sequence
        made = self._service.make(path, data, self.client_id[0])
        if self._service.loses_answers:
            raise ConnectionLoss
        return made

    def get_children(self, path: str) -> list[str]:
        self._service.now += self._service.look_s
        return [name.rpartition("/")[2] for name in reversed(self._service.nodes)]

    def get(self, name: str) -> tuple[bytes, None]:
        return self._service.nodes[name][0], None

    def exists(self, name: str, watch: Any = None) -> Any:
        if watch is not None:
            self._service.watches.append((name, watch))
        if name not in self._service.nodes:
            return None
        _, transaction, session = self._service.nodes[name]
        return types.SimpleNamespace(czxid=transaction, ephemeralOwner=session)

    def start_async(self) -> threading.Event:
        started = threading.Event()
        started.set()
        return started


class Process:
    """A candidate that takes part round by round."""

    def __init__(self, service: Service, name: str, *, tolerates: bool) -> None:
        self.candidate = Candidate(name, f"{name}:8081")
        self.contender = Recorder()
        self.leadership = LeadershipState(self.contender, clock=lambda: service.now)
        self.election = ZooKeeperElection(
            "nowhere:1", "/p/leader", session_s=SESSION_S, tolerates_suspension=tolerates
        )
        self.election._leadership = self.leadership
        self.tell(KazooState.CONNECTED)

    def tell(self, state: str) -> None:
        """Let the client's connection be in a state."""
        self.election._on_state(state)

    def round(self) -> int | None:
        self.election._work.clear()
        self.election._elect(self.candidate, self.leadership)
        return self.leadership.token

    @property
    def has_work(self) -> bool:
        return self.election._work.is_set()

    @property
    def node(self) -> str:
        assert self.election._node is not None
        return self.election._node


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    service, sessions = Service(), iter(range(1, 100))
    times = types.SimpleNamespace(monotonic=lambda: service.now)
    monkeypatch.setattr(zookeeper_election, "time", times)
    monkeypatch.setattr(zookeeper_election, "_connect", lambda *_: Client(service, next(sessions)))
    return service


@pytest.fixture
def process(service: Service) -> Iterator[Callable[..., Process]]:
    made: list[Process] = []

    def make(name: str, *, tolerates: bool = False) -> Process:
        made.append(Process(service, name, tolerates=tolerates))
        return made[-1]

    yield make
    for each in made:
        each.leadership.close()


def test_candidates_lead_in_the_order_of_their_nodes_with_growing_tokens(service, process) -> None:
    first, second, third = process("a"), process("b"), process("c")
    tokens = [first.round(), second.round(), third.round()]
    assert tokens == [101, None, None]
    assert third.election.leader() == first.candidate
    service.delete(first.node)
    assert (second.has_work, third.has_work) == (True, False), "only the next one looks again"
    assert third.round() is None
    assert second.round() == 102


def test_a_candidate_in_the_middle_that_leaves_does_not_change_the_leader(service, process) -> None:
    first, second, third = process("a"), process("b"), process("c")
    for each in (first, second, third):
        each.round()
    service.delete(second.node)
    assert third.has_work
    assert third.round() is None
    assert first.round() == 101


def test_a_node_that_went_while_it_was_looked_at_is_looked_for_again(service, process) -> None:
    first, second = process("a"), process("b")
    first.round()
    second.round()
    node, nodes = first.node, second.election._nodes
    found = nodes()
    second.election._nodes = lambda: (service.nodes.pop(node, None), found)[1]
    assert second.round() is None
    assert second.has_work
    second.election._nodes = nodes
    assert second.round() == 102


def test_a_leader_counts_on_leading_for_a_part_of_a_session_from_before_its_look(
    service, process
) -> None:
    leader = process("a")
    service.look_s = 3.0
    leader.round()  # looks twice: for a node of this session, and for the lowest
    service.now = 1003.0 + SESSION_S * 2 / 3 - 0.1
    assert leader.leadership.token is not None
    service.now += 0.1
    assert leader.leadership.token is None


def test_a_session_that_is_lost_ends_the_leadership_and_its_node_is_not_used_again(
    service, process
) -> None:
    leader = process("a", tolerates=True)
    leader.round()
    service.delete(leader.node)
    leader.tell(KazooState.LOST)
    assert leader.leadership.token is None
    leader.election._client.client_id = (50, b"")
    leader.tell(KazooState.CONNECTED)
    assert leader.round() == 102


def test_a_session_that_ends_during_a_round_is_a_lost_connection(service, process) -> None:
    """The thread that elects catches ConnectionError and tries again; any other error would end it."""
    candidate = process("a")
    candidate.election._client.client_id = None
    with pytest.raises(ConnectionError, match="ZooKeeper session has expired"):
        candidate.round()


@pytest.mark.parametrize("tolerates", [False, True])
def test_a_connection_that_is_cut_ends_the_leadership_at_once_or_when_the_session_may_end(
    service, process, tolerates
) -> None:
    leader = process("a", tolerates=tolerates)
    leader.round()
    leader.tell(KazooState.SUSPENDED)
    assert (leader.leadership.token is not None) is tolerates
    service.now += SESSION_S / 3
    assert leader.leadership.token is None


def test_no_candidate_leads_by_an_answer_that_came_before_its_connection_was_cut(
    service, process
) -> None:
    leader = process("a")
    exists = leader.election._client.exists

    def cut_off(name: str, watch: Any = None) -> Any:
        found = exists(name, watch)
        leader.tell(KazooState.SUSPENDED)
        return found

    leader.election._client.exists = cut_off
    assert leader.round() is None


def test_a_node_that_was_deleted_is_made_again(service, process) -> None:
    leader = process("a")
    before = leader.round()
    wait_until(lambda: leader.contender.reported == [before])
    service.nodes.clear()
    assert leader.round() is None
    assert leader.has_work
    after = leader.round()
    assert after > before
    wait_until(lambda: leader.contender.reported == [before, None, after])


def test_a_node_whose_answer_was_lost_is_found_again(service, process) -> None:
    leader = process("a")
    service.loses_answers = True
    with pytest.raises(ConnectionLoss):
        leader.round()
    service.loses_answers = False
    assert leader.round() == 101
    assert len(service.nodes) == 1


def test_without_candidates_there_is_no_leader(process) -> None:
    assert process("a").election.leader() is None


def test_a_leader_that_finds_a_lower_node_leads_no_more(service, process) -> None:
    leader = process("a")
    assert leader.round() == 101
    service.nodes["/p/leader/candidate-0000000001"] = (b"{}", 1, 99)
    assert leader.round() is None
