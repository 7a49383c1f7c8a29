"""Who leads, and who stands by: what clients are told."""

from __future__ import annotations

import time

import pytest

from penstock.rest.announcing import announce
from penstock.rest.peers import KNOWN_S, Peers
from tests.builders.rest_fakes import TOKEN


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
    until = time.monotonic() + 20
    while ask("GET", "/penstock/leader")[1] != {"leader": None, "standbys": ["standby:8081"]}:
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("elsewhere", ["other:8081", ""])
def test_a_standby_tells_who_leads_and_sends_clients_away_from_all_else(ask, services, elsewhere):
    services.elsewhere = lambda: elsewhere
    assert ask("GET", "/penstock/leader") == (200, {"leader": elsewhere, "standbys": []})
    assert ask("GET", "/jobs")[0] == (307 if elsewhere else 503)


@pytest.mark.parametrize(
    ("query", "token", "status"),
    [("?address=a:1", None, 401), ("?address=a:1", TOKEN, 200), ("?address=a", TOKEN, 400), ("", TOKEN, 400)],
)  # fmt: skip
def test_only_who_has_the_token_says_where_pages_may_go(ask, services, query, token, status):
    assert ask("GET", f"/penstock/heartbeat{query}", token=token)[0] == status
    assert services.peers.addresses() == (["a:1"] if status == 200 else [])
