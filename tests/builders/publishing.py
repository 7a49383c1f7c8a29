"""The publisher of a process's jobs, for one test."""

from __future__ import annotations

import threading

import pytest

from penstock.rest import publish
from penstock.rest.publish import Publisher


class SettlingPublisher(Publisher):
    """A publisher that a test can wait for."""

    def settle(self):
        for thread in threading.enumerate():
            if thread.name == "penstock-publish":
                thread.join(60)


@pytest.fixture
def publisher(tmp_path, monkeypatch):
    """The publisher of this process, for one test."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    own = SettlingPublisher()
    monkeypatch.setattr(publish, "_publisher", own)
    yield own
    own.close(0)
    if own.endpoint is not None and own.endpoint.server is not None:
        own.endpoint.server.close()
