"""ChangelogMode: the kinds of changes that a table's rows can be."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.common.types import RowKind


class ChangelogMode:
    """A set of row kinds.

    >>> ChangelogMode.upsert()
    [I,UA,D]
    >>> ChangelogMode.all().contains(RowKind.UPDATE_BEFORE)
    True
    """

    def __init__(self, kinds: Iterable[RowKind]) -> None:
        self.kinds = frozenset(kinds)

    @staticmethod
    def insert_only() -> ChangelogMode:
        """Return the mode of a table that only grows."""
        return ChangelogMode([RowKind.INSERT])

    @staticmethod
    def upsert() -> ChangelogMode:
        """Return the mode of a table with changes by key."""
        return ChangelogMode([RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE])

    @staticmethod
    def all() -> ChangelogMode:
        """Return the mode with all kinds of changes."""
        return ChangelogMode(RowKind)

    def contains(self, kind: RowKind) -> bool:
        """Whether rows of this kind can come."""
        return kind in self.kinds

    def contains_only(self, kind: RowKind) -> bool:
        """Whether no other kind can come."""
        return self.kinds == {kind}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChangelogMode) and other.kinds == self.kinds

    def __hash__(self) -> int:
        return hash(self.kinds)

    def __repr__(self) -> str:
        shown = ((RowKind.INSERT, "I"), (RowKind.UPDATE_BEFORE, "UB"), (RowKind.UPDATE_AFTER, "UA"))
        names = [name for kind, name in (*shown, (RowKind.DELETE, "D")) if kind in self.kinds]
        return f"[{','.join(names)}]"
