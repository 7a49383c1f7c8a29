"""The server that the other tests rely on."""

from __future__ import annotations


def test_acknowledged_writes_survive_a_kill(redis_server, client):
    client.set("a", "1")
    redis_server.kill()
    redis_server.start()
    assert client.get("a") == "1"
