"""A client of several JobManagers finds the one that leads, also when that changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.cli import reach
from penstock.errors import JobRequestError
from penstock.rest import processes
from penstock.rest.client import rest_client as clients
from penstock.rest.client.rest_client import RestClient, ServerUnreachableError
from penstock.rest.messages import Response
from penstock.rest.routing.routes import Route, Services
from penstock.rest.server.rest_server import RestServer

TOKEN = "shared"


class Process:
    """A JobManager that says who it is, or who leads."""

    def __init__(self) -> None:
        self.leader: str | None = ""
        self.services = Services(elsewhere=lambda: self.leader)
        routes = [
            Route("GET", "/who", lambda *_: Response({"at": self.address}), "who"),
            Route("POST", "/who", lambda _, asked: Response({"got": dict(asked.body)}), "who"),
            Route("GET", "/jobs/overview", lambda *_: Response({"jobs": [JOB]}), "jobs"),
        ]
        self.server = RestServer(self.services, TOKEN, routes=routes)
        self.server.start()
        self.address = self.server.client_address


JOB = {"jid": "ab" * 16, "name": "clicks", "state": "RUNNING"}


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Process, Process]]:
    """The leader, and a standby that knows it."""
    monkeypatch.setattr(clients, "_PAUSE_S", 0.01)
    leader, standby = Process(), Process()
    leader.leader, standby.leader = None, leader.address
    yield leader, standby
    leader.server.close()
    standby.server.close()


def test_a_standby_sends_a_client_to_the_leader_with_its_token_and_its_body(pair) -> None:
    leader, standby = pair
    client = RestClient(standby.address, TOKEN)
    assert client.get("/who") == {"at": leader.address}
    again = RestClient(standby.address, TOKEN)
    assert again.request("POST", "/who", {"a": 1}) == {"got": {"a": 1}}
    assert again.address == leader.address


def test_a_client_whose_leader_is_gone_finds_the_next_one(pair) -> None:
    leader, standby = pair
    client = RestClient(standby.address, TOKEN)
    client.get("/who")
    leader.server.close()
    standby.leader = None
    assert client.get("/who") == {"at": standby.address}
    both = RestClient(f"{leader.address},{standby.address}", TOKEN)
    assert both.request("POST", "/who", {}) == {"got": {}}


def test_a_client_waits_while_there_is_no_leader(pair) -> None:
    _, standby = pair
    answers = iter(["", "", None])
    standby.services.elsewhere = lambda: next(answers)
    assert RestClient(standby.address).get("/who") == {"at": standby.address}


def test_a_client_does_not_wait_for_ever(pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "LEADER_TIMEOUT_S", 0.05)
    leader, standby = pair
    standby.leader = ""
    with pytest.raises(JobRequestError, match="no JobManager is the leader at the moment"):
        RestClient(standby.address).get("/who")
    standby.leader, leader.leader = leader.address, standby.address  # each names the other
    with pytest.raises(JobRequestError):
        RestClient(standby.address).get("/who")
    leader.server.close()
    with pytest.raises(ServerUnreachableError):
        RestClient(leader.address).get("/who")


def test_a_leader_and_its_standbys_are_one_place_in_the_list_of_jobs(
    pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        processes.ProcessRecord(number, "", "here", process.address, TOKEN)
        for number, process in enumerate(pair)
    ]
    for order in (records, records[::-1]):
        monkeypatch.setattr(processes, "read_all", lambda order=order: order)
        assert [job.id for job in reach.find_jobs()] == [JOB["jid"]]
