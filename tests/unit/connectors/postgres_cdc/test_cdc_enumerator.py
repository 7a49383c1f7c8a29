"""The enumerator of change data capture, over a server that is a list of keys: chunks, their snapshots, then the log."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.connectors.base.source import SplitProgress
from penstock.connectors.postgres_cdc import enumerator as enumerator_module
from penstock.connectors.postgres_cdc.catalog import CdcTable, KeyColumn, ServerUnavailableError
from penstock.connectors.postgres_cdc.enumerator import LOG, CdcEnumerator, CdcState
from penstock.connectors.postgres_cdc.options import CdcOptions, StartupOptions
from penstock.connectors.postgres_cdc.positions import Segment
from penstock.connectors.postgres_cdc.slots import Slot
from penstock.errors import RestoreRefusedError


def table(name):
    key = (KeyColumn("id", "integer", "int4", native=True),)
    return CdcTable("public", name, "f", ("id", "v"), (23, 23), key)


class Server:
    """Tables by their names, with the keys that are there."""

    def __init__(self, monkeypatch, **tables):
        self.keys = tables
        self.slot = Slot("pgoutput", "d", 50, "reserved", None, None)
        self.away = False
        self.connections = 0
        self.now = 1000.0
        monkeypatch.setattr(enumerator_module, "connect", self._connect)
        monkeypatch.setattr(enumerator_module, "find_slot", lambda *_: self.slot)
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(enumerator_module, "time", clock)

    def _connect(self, options, name):
        if self.away:
            raise ServerUnavailableError("no server answers")
        self.connections += 1
        return self

    def execute(self, query, parameters):
        """Answer the question for the key so many rows after another one."""
        *after, offset = parameters
        name = query.partition('"public"."')[2].partition('"')[0]
        keys = [each for each in sorted(self.keys[name]) if not after or each > int(after[0])]
        row = (str(keys[offset]),) if offset < len(keys) else None
        return SimpleNamespace(fetchone=lambda: row)

    def close(self):
        pass


def begin(server, startup=None, chunk_size=3, **state):
    """Return the enumerator of a job whose slot was made at position 60."""
    options = CdcOptions(
        "h",
        1,
        "d",
        "u",
        "p",
        chunk_size=chunk_size,
        connect_timeout_s=60.0,
        startup=startup or StartupOptions.initial(),
    )
    tables = tuple(table(name) for name in server.keys)
    return CdcEnumerator(options, CdcState("me", tables, start_lsn=60, **state))


def find_all(enumerator, server):
    """Return all chunks; the clock stands still, so each look finds all chunks of the moment."""
    found = []
    while enumerator._more_chunks:
        found += enumerator.discover()
    return found


def bounds(splits):
    return [(each.payload.lower, each.payload.upper) for each in splits]


def finish(enumerator, splits, lsn=100):
    """Let chunks be read, each with a snapshot of its own."""
    done = [
        SplitProgress(each, (Segment(f"{number}:{number}:", lsn + number, None),))
        for number, each in enumerate(splits, 10)
    ]
    enumerator.observe_finished(done)


def test_chunks_cover_all_keys_without_a_gap(monkeypatch):
    server = Server(monkeypatch, items=range(1, 9))
    found = find_all(begin(server), server)
    assert bounds(found) == [(None, ("3",)), (("3",), ("6",)), (("6",), None)]
    assert [each.split_id for each in found] == [
        "public.items:0",
        "public.items:1",
        "public.items:2",
    ]


def test_each_table_has_chunks_of_its_own(monkeypatch):
    server = Server(monkeypatch, items=range(1, 5), others=range(1, 3))
    found = find_all(begin(server), server)
    assert [each.split_id for each in found] == [
        "public.items:0",
        "public.items:1",
        "public.others:0",
    ]


def test_chunks_are_not_found_twice_over_a_restart(monkeypatch):
    server = Server(monkeypatch, items=range(1, 9))
    first = begin(server)
    clock = iter(range(1000))
    monkeypatch.setattr(
        enumerator_module, "time", SimpleNamespace(monotonic=lambda: float(next(clock)))
    )
    found = list(first.discover())  # one look takes longer than a look may
    assert len(found) == 1
    again = CdcEnumerator(first._options, first.snapshot())
    found += find_all(again, server)
    assert bounds(found) == [(None, ("3",)), (("3",), ("6",)), (("6",), None)]


def test_the_log_follows_when_all_chunks_were_read(monkeypatch):
    server = Server(monkeypatch, items=range(1, 9))
    enumerator = begin(server)
    splits = find_all(enumerator, server)
    finish(enumerator, splits[:-1])
    assert list(enumerator.discover()) == []
    finish(enumerator, splits)
    (log,) = enumerator.discover()
    assert log.split_id == LOG
    assert list(enumerator.discover()) == []


def log_of(enumerator, server, read=finish):
    splits = find_all(enumerator, server)
    read(enumerator, splits)
    (log,) = enumerator.discover()
    return log


def test_the_log_begins_where_the_slot_was_made(monkeypatch):
    server = Server(monkeypatch, items=range(1, 9))
    assert log_of(begin(server), server).start.lsn == 60


def test_the_log_has_caught_up_at_the_last_of_the_snapshots(monkeypatch):
    server = Server(monkeypatch, items=range(1, 9))
    assert log_of(begin(server), server).start.caught_up == 112


def test_the_log_knows_with_which_snapshot_each_key_was_read(monkeypatch):
    server = Server(monkeypatch, items=range(1, 9), others=[])
    first, second = log_of(begin(server), server).start.snapshots
    assert first.parts == ((("3",), "10:10:"), (("6",), "11:11:"), (None, "12:12:"))
    assert (second.table, second.parts) == ("others", ((None, "13:13:"),))


def test_a_chunk_that_was_read_with_two_snapshots_is_parted_at_the_key_between(monkeypatch):
    def read(enumerator, splits):
        segments = (
            Segment("1:1:", 90, ("1",)),
            Segment("1:1:", 90, ("2",)),  # the same snapshot
            Segment("2:2:", 95, None),
        )
        enumerator.observe_finished([SplitProgress(splits[0], segments)])

    server = Server(monkeypatch, items=[1, 2])
    (snapshot,) = log_of(begin(server), server, read).start.snapshots
    assert snapshot.parts == ((("2",), "1:1:"), (None, "2:2:"))


def test_checkpoint_is_not_changed_by_later_reads(monkeypatch):
    server = Server(monkeypatch, items=range(1, 9))
    enumerator = begin(server)
    splits = find_all(enumerator, server)
    finish(enumerator, splits[:1])
    checkpoint = enumerator.snapshot()
    finish(enumerator, splits)
    assert set(checkpoint.ends) == {"public.items:0"}
    restored = CdcEnumerator(enumerator._options, checkpoint)
    assert list(restored.discover()) == []  # the others have to be read again


def test_a_job_is_not_restored_from_a_slot_that_has_moved_on(monkeypatch):
    server = Server(monkeypatch, items=range(1, 9))
    server.slot = Slot("pgoutput", "d", 61, "reserved", None, None)
    with pytest.raises(RestoreRefusedError, match="has advanced"):
        begin(server).discover()


def test_a_snapshot_without_the_log_ends_with_its_chunks_and_needs_no_slot(monkeypatch):
    server = Server(monkeypatch, items=range(1, 9))
    server.slot = None
    enumerator = begin(server, StartupOptions.snapshot())
    assert not enumerator.no_more_splits()
    finish(enumerator, find_all(enumerator, server))
    assert enumerator.no_more_splits()
    assert list(enumerator.discover()) == []


def test_a_server_that_is_away_is_waited_for_until_the_timeout(monkeypatch):
    server = Server(monkeypatch, items=range(1, 9))
    server.away = True
    enumerator = begin(server)
    assert list(enumerator.discover()) == []
    server.now += 59
    assert list(enumerator.discover()) == []
    server.now += 2
    with pytest.raises(ServerUnavailableError):
        enumerator.discover()


def test_a_server_that_comes_back_is_asked_over_a_new_connection(monkeypatch):
    server = Server(monkeypatch, items=range(1, 9))
    server.away = True
    enumerator = begin(server)
    for _ in range(3):
        enumerator.discover()
        server.now += 15
    server.away = False
    assert len(find_all(enumerator, server)) == 3
    assert server.connections == 1
