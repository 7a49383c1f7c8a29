"""Leader and standby: what clients get from each."""

from __future__ import annotations

import pytest

from penstock.rest.client.standby_announcement import announce
from penstock.rest.services.peers import KNOWN_S, Peers
from tests.builders.rest_fakes import TOKEN
from tests.builders.waiting import wait_until


def test_a_standby_is_forgotten_when_it_is_not_heard_of():
    now = [100.0]
    peers = Peers(lambda: now[0])
    peers.note("a:1")
    now[0] += KNOWN_S
    peers.note("b:1")
    assert peers.addresses() == ["a:1", "b:1"]
    now[0] += 1
    assert peers.addresses() == ["b:1"]


def test_only_so_many_standbys_are_known():
    peers = Peers()
    for n in range(100):
        peers.note(f"host:{n}")
    assert len(peers.addresses()) == 64
    assert peers.addresses()[-1] == "host:99"


def test_a_standby_makes_itself_known_to_the_leader(ask, services):
    host, port = ask.server.server_address[:2]
    announce(lambda: f"{host}:{port}", "standby:8081", TOKEN)
    known = {"leader": None, "standbys": ["standby:8081"]}
    wait_until(lambda: ask("GET", "/penstock/leader")[1] == known)


@pytest.mark.parametrize("elsewhere", ["other:8081", ""])
def test_a_standby_tells_who_leads_and_sends_clients_away_from_all_else(ask, services, elsewhere):
    services.elsewhere = lambda: elsewhere
    assert ask("GET", "/penstock/leader") == (200, {"leader": elsewhere, "standbys": []})
    assert ask("GET", "/jobs")[0] == (307 if elsewhere else 503)


@pytest.mark.parametrize("query", ["", "?get=a,b&agg=max"])
def test_a_client_is_sent_to_the_same_resource_of_the_leader(ask, services, query):
    services.elsewhere = lambda: "other:8081"
    status, content = ask("GET", f"/v1/jobs/x%2Fy/metrics{query}")
    assert (status, content) == (307, {"errors": ["the leader is the JobManager at other:8081"]})
    assert ask.headers["Location"] == f"http://other:8081/v1/jobs/x%2Fy/metrics{query}"


@pytest.mark.parametrize(
    ("query", "token", "status"),
    [("?address=a:1", None, 401), ("?address=a:1", TOKEN, 200), ("?address=a", TOKEN, 400), ("", TOKEN, 400)],
)  # fmt: skip
def test_only_who_has_the_token_says_where_pages_may_go(ask, services, query, token, status):
    assert ask("GET", f"/penstock/heartbeat{query}", token=token)[0] == status
    assert services.peers.addresses() == (["a:1"] if status == 200 else [])
