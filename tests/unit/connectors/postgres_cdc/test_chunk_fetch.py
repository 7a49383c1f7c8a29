"""The thread that fetches a chunk, over a table that is a list of keys: which rows, and the position after them."""

from __future__ import annotations

import re
from contextlib import nullcontext
from types import SimpleNamespace

import psycopg
import pytest

from penstock.connectors.postgres_cdc import chunk_fetch as chunk_fetch_module
from penstock.connectors.postgres_cdc.catalog import CdcTable, KeyColumn
from penstock.connectors.postgres_cdc.chunk_fetch import ChunkFetch
from penstock.connectors.postgres_cdc.chunks import SnapshotChunk
from penstock.connectors.postgres_cdc.options import CdcOptions
from penstock.connectors.postgres_cdc.positions import Segment
from tests.builders.waiting import wait_until

KEY = (KeyColumn("id", "integer", "int4", native=True),)
TABLE = CdcTable("public", "items", "f", ("id", "v"), (23, 25), KEY)
CONDITION = re.compile(r'\("id"\) (>=|<=|>|<) \(%s::integer\)')
HOLDS = {
    ">": lambda key, bound: key > bound,
    ">=": lambda key, bound: key >= bound,
    "<": lambda key, bound: key < bound,
    "<=": lambda key, bound: key <= bound,
}


class Result:
    """Rows as libpq gives them."""

    nfields = 3  # the key, then the columns

    def __init__(self, keys):
        self.keys, self.ntuples = keys, len(keys)

    def get_value(self, row, column):
        key = self.keys[row]
        return (f"v{key}" if column == 2 else str(key)).encode()


class Server:
    """A table with some keys, and the snapshot that it is read with."""

    def __init__(self, monkeypatch, keys, snapshot="1:1:"):
        self.keys, self.snapshot = keys, snapshot
        self._waiting: list[int] = []
        monkeypatch.setattr(chunk_fetch_module, "connect", lambda *_: nullcontext(self))
        monkeypatch.setattr(
            psycopg, "ClientCursor", lambda _: SimpleNamespace(execute=self._declare)
        )

    def _declare(self, query, parameters):
        conditions = list(zip(CONDITION.findall(query), parameters, strict=True))
        self._waiting = [
            key
            for key in sorted(self.keys)
            if all(HOLDS[sign](key, int(bound)) for sign, bound in conditions)
        ]

    def execute(self, statement):
        if statement.startswith("SELECT pg_current_snapshot"):
            return SimpleNamespace(fetchone=lambda: (self.snapshot, "0/64"))
        if statement.startswith("FETCH"):
            size = int(statement.split()[1])
            found, self._waiting = self._waiting[:size], self._waiting[size:]
            return SimpleNamespace(pgresult=Result(found))
        return None


def fetch(lower, upper, position=(), size=2):
    """Return what is fetched of a chunk, batch by batch."""
    options = CdcOptions("h", 1, "d", "u", "p", fetch_size=size)
    running = ChunkFetch(options, SnapshotChunk(TABLE, lower, upper, 0), position, lambda: None)
    found = []

    def at_the_end():
        item = running.mailbox.take()
        if item is not None:
            assert not isinstance(item, Exception), item
            found.append(item)
        return bool(found) and found[-1].position[-1].upto is None

    wait_until(at_the_end)
    return found


def keys(found):
    return [int(key) for each in found for key, _ in each.rows]


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (None, None, [1, 2, 3, 4, 5, 6]),
        (None, ("3",), [1, 2, 3]),
        (("3",), ("5",), [4, 5]),
        (("5",), None, [6]),
    ],
)
def test_a_chunk_has_the_keys_after_its_lower_bound_up_to_its_upper_one(
    monkeypatch, lower, upper, expected
):
    Server(monkeypatch, range(1, 7))
    assert keys(fetch(lower, upper)) == expected


def test_the_position_after_each_batch_is_its_last_key_and_none_at_the_end(monkeypatch):
    Server(monkeypatch, range(1, 6))
    found = fetch(None, None)
    assert [each.position for each in found] == [
        (Segment("1:1:", 100, ("2",)),),
        (Segment("1:1:", 100, ("4",)),),
        (Segment("1:1:", 100, None),),
    ]


def test_interrupted_chunk_resumes_after_its_last_key_and_keeps_its_snapshots(
    monkeypatch,
):
    Server(monkeypatch, range(1, 7), snapshot="2:2:")
    before = (Segment("1:1:", 90, ("2",)),)
    found = fetch(("1",), ("5",), before)
    assert keys(found) == [3, 4, 5]
    assert found[-1].position == (*before, Segment("2:2:", 100, None))


def test_an_empty_chunk_is_one_empty_batch_at_its_end(monkeypatch):
    Server(monkeypatch, [])
    (only,) = fetch(None, None)
    assert (only.rows, only.position) == ([], (Segment("1:1:", 100, None),))


def test_an_error_of_the_server_is_handed_over(monkeypatch):
    server = Server(monkeypatch, [1])
    error = psycopg.OperationalError("cut")

    def broken(*_):
        raise error

    monkeypatch.setattr(server, "execute", broken)
    options = CdcOptions("h", 1, "d", "u", "p")
    running = ChunkFetch(options, SnapshotChunk(TABLE, None, None, 0), (), lambda: None)
    assert running.mailbox.wait(60)
    assert running.mailbox.take() is error
