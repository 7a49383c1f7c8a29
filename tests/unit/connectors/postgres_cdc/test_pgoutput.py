"""The decoder of pgoutput, from bytes of a real server and from bytes of all kinds."""

from __future__ import annotations

import contextlib
import itertools
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.postgres_cdc.pgoutput import (
    UNCHANGED,
    PgOutputBegin,
    PgOutputColumn,
    PgOutputCommit,
    PgOutputDelete,
    PgOutputInsert,
    PgOutputLogicalMessage,
    PgOutputOrigin,
    PgOutputRelation,
    PgOutputTruncate,
    PgOutputType,
    PgOutputUpdate,
    decode,
)
from penstock.errors import RecordError

# What PostgreSQL 15 sent: a table with a primary key, then with a full replica identity.
GOLDEN = [
    bytes.fromhex(line)
    for line in (Path(__file__).parents[3] / "data" / "pgoutput.hex").read_text().split()
]
COLUMNS = (("id", 23), ("v", 25), ("large", 25), ("m", 16407))


def relation(identity):
    columns = tuple(
        PgOutputColumn(name, oid, -1, identity == "f" or name == "id") for name, oid in COLUMNS
    )
    return PgOutputRelation(16411, "public", "golden", identity, columns)


def test_messages_of_a_real_server_are_decoded():
    messages = [decode(data) for data in GOLDEN]
    changes = [each for each in messages if not isinstance(each, PgOutputBegin | PgOutputCommit)]
    mood = PgOutputType(16407, "public", "mood")
    assert changes == [
        mood,
        relation("d"),
        PgOutputInsert(16411, ("1", "a", "x" * 3000, "happy")),
        PgOutputUpdate(16411, None, None, ("1", "b", UNCHANGED, "happy")),
        PgOutputUpdate(16411, ("1", None, None, None), None, ("2", "b", "s", "happy")),
        PgOutputDelete(16411, ("2", None, None, None), None),
        mood,
        relation("f"),
        PgOutputInsert(16411, ("3", "ä", None, None)),
        PgOutputUpdate(16411, None, ("3", "ä", None, None), ("3", "c", None, None)),
        PgOutputDelete(16411, None, ("3", "c", None, None)),
        mood,
        relation("f"),
        PgOutputTruncate((16411,)),
        changes[-1],
    ]
    assert isinstance(changes[-1], PgOutputLogicalMessage)
    assert (changes[-1].prefix, changes[-1].content) == ("note", b"hello")


def test_transactions_tell_where_they_are_committed_and_come_in_that_order():
    messages = [decode(data) for data in GOLDEN]
    begins = [each for each in messages if isinstance(each, PgOutputBegin)]
    commits = [each for each in messages if isinstance(each, PgOutputCommit)]
    assert [each.lsn for each in begins] == [each.lsn for each in commits]
    for before, after in itertools.pairwise(commits):
        assert before.lsn < before.end_lsn <= after.lsn
    assert [each.commit_us for each in begins] == sorted(each.commit_us for each in begins)
    assert begins[0].commit_us > 1_700_000_000_000_000


@pytest.mark.parametrize("data", GOLDEN, ids=range(len(GOLDEN)))
def test_a_message_that_is_cut_or_too_long_is_an_error_that_shows_its_bytes(data):
    for end in range(len(data) if len(data) < 500 else 100):
        with pytest.raises(RecordError):
            decode(data[:end])
    with pytest.raises(RecordError, match="cannot decode"):
        decode(data + b"\0")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error(data):
    with contextlib.suppress(RecordError):
        decode(data)


texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)
values = st.one_of(st.none(), st.just(UNCHANGED), texts, st.binary(max_size=20))
rows = st.lists(values, max_size=6).map(tuple)
numbers = st.integers(0, 2**32 - 1)
longs = st.integers(0, 2**64 - 1)


def encoded(value):
    if value is None:
        return b"n"
    if value is UNCHANGED:
        return b"u"
    data = value.encode() if isinstance(value, str) else value
    kind = b"t" if isinstance(value, str) else b"b"
    return kind + struct.pack(">I", len(data)) + data


def row(of):
    return struct.pack(">H", len(of)) + b"".join(map(encoded, of))


@given(numbers, rows, rows, st.sampled_from("KO-"))
def test_changes_are_read_as_they_were_written(oid, old, new, kind):
    head = struct.pack(">I", oid)
    before = b"" if kind == "-" else kind.encode() + row(old)
    key = old if kind == "K" else None
    whole = old if kind == "O" else None
    assert decode(b"I" + head + b"N" + row(new)) == PgOutputInsert(oid, new)
    assert decode(b"U" + head + before + b"N" + row(new)) == PgOutputUpdate(oid, key, whole, new)
    if kind != "-":
        assert decode(b"D" + head + before) == PgOutputDelete(oid, key, whole)


@given(
    numbers,
    texts,
    texts,
    st.sampled_from("dnfi"),
    st.lists(st.tuples(st.booleans(), texts, numbers, st.integers(-1, 2**31 - 1)), max_size=5),
)
def test_relations_are_read_as_they_were_written(oid, schema, name, identity, columns):
    data = b"R" + struct.pack(">I", oid) + schema.encode() + b"\0" + name.encode() + b"\0"
    data += identity.encode() + struct.pack(">H", len(columns))
    for key, column, type_oid, modifier in columns:
        data += bytes([key]) + column.encode() + b"\0" + struct.pack(">Ii", type_oid, modifier)
    expected = tuple(
        PgOutputColumn(column, oid, modifier, key) for key, column, oid, modifier in columns
    )
    assert decode(data) == PgOutputRelation(oid, schema or "pg_catalog", name, identity, expected)


@given(longs, texts, st.lists(numbers, max_size=5))
def test_origins_and_truncations_are_read_as_they_were_written(lsn, name, oids):
    assert decode(b"O" + struct.pack(">Q", lsn) + name.encode() + b"\0") == PgOutputOrigin(
        lsn, name
    )
    data = b"T" + struct.pack(f">IB{len(oids)}I", len(oids), 0, *oids)
    assert decode(data) == PgOutputTruncate(tuple(oids))
