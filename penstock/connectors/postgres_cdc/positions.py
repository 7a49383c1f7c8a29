"""Positions in PostgreSQL's log, and whether a table's snapshot already contains a change.

The log is in commit order. A change's position is the one of its transaction's commit record and its number within the
transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import total_ordering

from penstock.errors import RecordError

_HALF = 2**31
_WHOLE = 2**32


def parse_lsn(text: str) -> int:
    """Parse a log sequence number.

    >>> parse_lsn("1/A0"), format_lsn(4294967456)
    (4294967456, '1/A0')
    """
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def format_lsn(lsn: int) -> str:
    """Format a log sequence number like PostgreSQL."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which transactions a snapshot sees: `xmin:xmax:running,...`, as pg_current_snapshot() writes it.

    >>> seen = Visibility.parse("100:105:100,103")
    >>> [xid for xid in range(98, 107) if seen.sees(xid)]
    [98, 99, 101, 102, 104]
    """

    xmax: int
    running: frozenset[int]  # transactions before xmax that had not ended, modulo 2**32

    @classmethod
    def parse(cls, text: str) -> Visibility:
        """Parse a result of pg_current_snapshot()."""
        _, xmax, running = text.split(":")
        return cls(
            int(xmax) % _WHOLE, frozenset(int(xid) % _WHOLE for xid in running.split(",") if xid)
        )

    def sees(self, xid: int) -> bool:
        """Whether a committed transaction, by its 32-bit id, had ended when the snapshot was taken.

        Ids wrap around; those in the log are never more than half the range away.
        """
        return (self.xmax - xid - 1) % _WHOLE < _HALF and xid not in self.running


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of a chunk that were read with one snapshot: those after the segment before, up to a key (None: the chunk's end).

    `lsn` was the end of the log after the snapshot was taken: every transaction that it sees is before that.
    """

    snapshot: str
    lsn: int
    upto: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The snapshots with which the rows of a table were read, in the order of their keys.

    Each of `parts` is its last key (None: no end) and the snapshot.
    """

    schema: str
    table: str
    key: tuple[str, ...]  # columns
    kinds: tuple[str, ...]  # how their values are compared
    parts: tuple[tuple[tuple[str, ...] | None, str], ...]


@total_ordering
@dataclass(frozen=True, slots=True)
class StreamPosition:
    """How far the log was read: all transactions committed before `lsn`, and `event` changes of the one committed at `lsn`.

    Until `caught_up`, the end of the log when the last snapshot was taken, `snapshots` say which changes were already in a
    snapshot.
    """

    lsn: int
    event: int = 0
    caught_up: int = 0
    snapshots: tuple[TableSnapshot, ...] = field(default=(), repr=False)

    def at(self, lsn: int, event: int = 0) -> StreamPosition:
        """Return a later position, without the snapshots once they are no longer needed."""
        if lsn < self.caught_up:
            return StreamPosition(lsn, event, self.caught_up, self.snapshots)
        return StreamPosition(lsn, event)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamPosition) and self.order == other.order

    def __hash__(self) -> int:
        return hash(self.order)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, StreamPosition):
            return NotImplemented
        return self.order < other.order

    @property
    def order(self) -> tuple[int, int]:
        """The sort key of positions."""
        return (self.lsn, self.event)

    def __str__(self) -> str:
        return (
            f"{format_lsn(self.lsn)}, change {self.event}" if self.event else format_lsn(self.lsn)
        )


def as_stream_position(position: object) -> StreamPosition:
    """Return a position of a checkpoint; raise if it has another type."""
    if not isinstance(position, StreamPosition):
        raise RecordError(f"not a position in PostgreSQL's log: {position!r}")
    return position
