"""A slot in use: readers of the same job are terminated, those of other jobs are waited for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.connectors.postgres_cdc import slots as slots_module
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.slots import Slot, free_slot
from penstock.errors import InvalidProgramError

OPTIONS = CdcOptions("h", 1, "d", "u", "p", slot="orders", connect_timeout_s=30.0)


class Server:
    """A slot and those who hold it one after another: (process, name). Who is sent away is gone at the next look but one."""

    def __init__(self, monkeypatch, *holders):
        self.holders = list(holders)
        self.ended: list[int] = []
        self.now = 1000.0
        self.looks = 0
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep)
        monkeypatch.setattr(slots_module, "time", clock)
        monkeypatch.setattr(slots_module, "find_slot", self._look)

    def _sleep(self, seconds):
        self.now += seconds

    def _look(self, connection, name):
        self.looks += 1
        if self.holders and self.holders[0][0] in self.ended and self.looks % 3 == 0:
            self.holders.pop(0)
        holder, name = self.holders[0] if self.holders else (None, None)
        return Slot("pgoutput", "d", 0, "reserved", holder, name)

    def execute(self, statement, parameters=()):
        if "pg_terminate_backend" in statement:
            self.ended += parameters
        return SimpleNamespace(fetchone=lambda: (60_000,))


def test_unused_slot_is_free(monkeypatch):
    server = Server(monkeypatch)
    free_slot(server, OPTIONS, "me", lambda: False)
    assert server.ended == []


def test_readers_of_the_same_job_are_sent_away_once_each(monkeypatch):
    server = Server(monkeypatch, (7, "me"), (8, "me"))
    free_slot(server, OPTIONS, "me", lambda: False)
    assert server.ended == [7, 8]


def test_a_reader_of_another_job_is_waited_for_and_named_and_not_sent_away(monkeypatch):
    server = Server(monkeypatch, (7, "another job"))
    begun = server.now
    with pytest.raises(InvalidProgramError, match="is in use") as caught:
        free_slot(server, OPTIONS, "me", lambda: False)
    assert "'another job'" in caught.value.detail
    assert server.ended == []
    # The server would have noticed by then that a reader is gone.
    assert server.now - begun > 60 + 30


def test_stopped_waiting_ends(monkeypatch):
    server = Server(monkeypatch, (7, "another job"))
    free_slot(server, OPTIONS, "me", lambda: True)
    assert server.looks == 0
