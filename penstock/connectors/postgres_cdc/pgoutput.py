"""Decodes messages of the output plugin pgoutput, protocol version 1 (PostgreSQL manual, "Logical Replication Message Formats").

Values stay text; `None` is NULL, and `UNCHANGED` a large value that the change did not touch and the server did not send.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.errors import RecordError

POSTGRES_EPOCH_US: Final = 946_684_800_000_000  # 2000-01-01 in microseconds of Unix time


class Unchanged(enum.Enum):
    """The type of `UNCHANGED`: an enum, so that its identity survives pickling."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
Value: TypeAlias = str | bytes | Unchanged | None


@dataclass(frozen=True, slots=True)
class PgOutputBegin:
    """A transaction begins; `lsn` is that of its commit."""

    lsn: int
    commit_us: int  # Unix time
    xid: int


@dataclass(frozen=True, slots=True)
class PgOutputCommit:
    """A transaction ends; `end_lsn` is right after its commit record."""

    lsn: int
    end_lsn: int
    commit_us: int


@dataclass(frozen=True, slots=True)
class PgOutputColumn:
    """A column of a relation; `key` if it is part of the replica identity."""

    name: str
    type_oid: int
    type_modifier: int
    key: bool


@dataclass(frozen=True, slots=True)
class PgOutputRelation:
    """A table's definition from here on. `identity` is d (primary key), n (nothing), f (full) or i (an index)."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[PgOutputColumn, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class PgOutputType:
    """A type that is not built into PostgreSQL."""

    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class PgOutputInsert:
    """A new row."""

    relation: int
    new: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class PgOutputUpdate:
    """A changed row; `key` has the old values of the replica identity only, `old` all of them; both None if the key is the same."""

    relation: int
    key: tuple[Value, ...] | None
    old: tuple[Value, ...] | None
    new: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class PgOutputDelete:
    """A deleted row, by its replica identity or as a whole."""

    relation: int
    key: tuple[Value, ...] | None
    old: tuple[Value, ...] | None


@dataclass(frozen=True, slots=True)
class PgOutputTruncate:
    """Tables that were truncated together."""

    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PgOutputOrigin:
    """The transaction came from another server."""

    lsn: int
    name: str


@dataclass(frozen=True, slots=True)
class PgOutputLogicalMessage:
    """A message written by pg_logical_emit_message()."""

    lsn: int
    prefix: str
    content: bytes
    transactional: bool


Message: TypeAlias = (
    PgOutputBegin
    | PgOutputCommit
    | PgOutputRelation
    | PgOutputType
    | PgOutputInsert
    | PgOutputUpdate
    | PgOutputDelete
    | PgOutputTruncate
    | PgOutputOrigin
    | PgOutputLogicalMessage
)

_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_COLUMN = struct.Struct(">Ii")
_U32 = struct.Struct(">I")
_U16 = struct.Struct(">H")
_U64 = struct.Struct(">Q")
_TRUNCATE = struct.Struct(">IB")


def decode(data: bytes) -> Message:
    r"""Decode one message.

    >>> decode(b"B" + bytes(7) + b"\x10" + bytes(8) + bytes(3) + b"\x07").xid
    7
    """
    if not data:
        raise RecordError("empty pgoutput message")
    decoder = _DECODERS.get(data[0])
    if decoder is None:
        raise RecordError(
            f"unknown pgoutput message type {data[:1]!r}",
            detail=f"its first bytes are {bytes(data[:40])!r}",
        )
    try:
        message, end = decoder(data)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise _damaged(data, str(error)) from error
    if end != len(data):
        raise _damaged(data, f"it should end after {end} of {len(data)} bytes")
    return message


def _damaged(data: bytes, why: str) -> RecordError:
    return RecordError(
        f"cannot decode a pgoutput message of type {data[:1]!r}",
        detail=f"{why}; its first bytes are {bytes(data[:40])!r}",
    )


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _begin(data: bytes) -> tuple[PgOutputBegin, int]:
    lsn, micros, xid = _BEGIN.unpack_from(data, 1)
    return PgOutputBegin(lsn, micros + POSTGRES_EPOCH_US, xid), 21


def _commit(data: bytes) -> tuple[PgOutputCommit, int]:
    _, lsn, end_lsn, micros = _COMMIT.unpack_from(data, 1)
    return PgOutputCommit(lsn, end_lsn, micros + POSTGRES_EPOCH_US), 26


def _origin(data: bytes) -> tuple[PgOutputOrigin, int]:
    (lsn,) = _U64.unpack_from(data, 1)
    name, end = _string(data, 9)
    return PgOutputOrigin(lsn, name), end


def _relation(data: bytes) -> tuple[PgOutputRelation, int]:
    (oid,) = _U32.unpack_from(data, 1)
    schema, at = _string(data, 5)
    name, at = _string(data, at)
    identity = chr(data[at])
    (count,) = _U16.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _string(data, at + 1)
        type_oid, modifier = _COLUMN.unpack_from(data, at)
        at += 8
        columns.append(PgOutputColumn(column, type_oid, modifier, bool(flags & 1)))
    return PgOutputRelation(oid, schema or "pg_catalog", name, identity, tuple(columns)), at


def _type(data: bytes) -> tuple[PgOutputType, int]:
    (oid,) = _U32.unpack_from(data, 1)
    schema, at = _string(data, 5)
    name, at = _string(data, at)
    return PgOutputType(oid, schema or "pg_catalog", name), at


def _tuple(data: bytes, at: int) -> tuple[tuple[Value, ...], int]:
    (count,) = _U16.unpack_from(data, at)
    at += 2
    values: list[Value] = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 0x6E:  # n
            values.append(None)
        elif kind == 0x75:  # u
            values.append(UNCHANGED)
        elif kind in {0x74, 0x62}:  # t, b
            (length,) = _U32.unpack_from(data, at)
            at += 4
            end = at + length
            if end > len(data):
                raise ValueError(f"a value of {length} bytes extends past the end of the message")
            values.append(data[at:end].decode() if kind == 0x74 else bytes(data[at:end]))
            at = end
        else:
            raise ValueError(f"unknown value type {chr(kind)!r}")
    return tuple(values), at


def _insert(data: bytes) -> tuple[PgOutputInsert, int]:
    (relation,) = _U32.unpack_from(data, 1)
    _expect(data, 5, "N")
    new, end = _tuple(data, 6)
    return PgOutputInsert(relation, new), end


def _update(data: bytes) -> tuple[PgOutputUpdate, int]:
    (relation,) = _U32.unpack_from(data, 1)
    key, old, at = _old(data, 5)
    _expect(data, at, "N")
    new, end = _tuple(data, at + 1)
    return PgOutputUpdate(relation, key, old, new), end


def _delete(data: bytes) -> tuple[PgOutputDelete, int]:
    (relation,) = _U32.unpack_from(data, 1)
    key, old, end = _old(data, 5)
    if key is None and old is None:
        raise ValueError("it does not name the deleted row")
    return PgOutputDelete(relation, key, old), end


def _old(data: bytes, at: int) -> tuple[tuple[Value, ...] | None, tuple[Value, ...] | None, int]:
    """Decode the old key or the old row, if there is one."""
    if data[at] == 0x4B:  # K
        key, at = _tuple(data, at + 1)
        return key, None, at
    if data[at] == 0x4F:  # O
        old, at = _tuple(data, at + 1)
        return None, old, at
    return None, None, at


def _expect(data: bytes, at: int, kind: str) -> None:
    if data[at] != ord(kind):
        raise ValueError(f"byte {at} is {data[at : at + 1]!r} instead of {kind!r}")


def _truncate(data: bytes) -> tuple[PgOutputTruncate, int]:
    count, _ = _TRUNCATE.unpack_from(data, 1)
    end = 6 + 4 * count
    return PgOutputTruncate(struct.unpack_from(f">{count}I", data, 6)), end


def _message(data: bytes) -> tuple[PgOutputLogicalMessage, int]:
    flags = data[1]
    (lsn,) = _U64.unpack_from(data, 2)
    prefix, at = _string(data, 10)
    (length,) = _U32.unpack_from(data, at)
    end = at + 4 + length
    return PgOutputLogicalMessage(lsn, prefix, bytes(data[at + 4 : end]), bool(flags & 1)), end


_DECODERS: Final[dict[int, Callable[[bytes], tuple[Message, int]]]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _message,
}
