"""Messages of PostgreSQL's log, as its output plugin writes them, and those of the protocol around them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

ITEMS = 1  # the relation of `relation`


def begin(lsn: int, xid: int = 5) -> bytes:
    """A transaction begins whose commit is at a position."""
    return b"B" + struct.pack(">QqI", lsn, 0, xid)


def commit(lsn: int, end: int) -> bytes:
    return b"C" + struct.pack(">BQQq", 0, lsn, end, 0)


def relation(oid: int = ITEMS, name: str = "items") -> bytes:
    """A table with the columns id and v, both integers; id is the key."""
    columns = b"".join(
        bytes([key]) + column + b"\0" + struct.pack(">Ii", 23, -1)
        for column, key in ((b"id", 1), (b"v", 0))
    )
    return (
        b"R" + struct.pack(">I", oid) + b"public\0" + name.encode() + b"\0d" + b"\0\x02" + columns
    )


def _row(values: Sequence[int]) -> bytes:
    texts = [str(value).encode() for value in values]
    return struct.pack(">H", len(texts)) + b"".join(
        b"t" + struct.pack(">I", len(text)) + text for text in texts
    )


def insert(*values: int, oid: int = ITEMS) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + _row(values)


def truncate(*oids: int) -> bytes:
    return b"T" + struct.pack(">IB", len(oids), 0) + struct.pack(f">{len(oids)}I", *oids)


def wal_data(lsn: int, message: bytes) -> bytes:
    """A message with the part of the log that ends at a position."""
    return b"w" + struct.pack(">QQq", lsn, lsn, 0) + message


def keepalive(lsn: int, *, reply: bool = False) -> bytes:
    return b"k" + struct.pack(">QqB", lsn, 0, int(reply))
