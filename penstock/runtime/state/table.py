"""State tables: the entries of one named state, with what this epoch touched kept apart.

`touched` is the object cache of the epoch: every entry written since the last barrier, with REMOVED for entries that went
away. At the barrier it is the delta of the checkpoint, and it is merged into the rest. So an epoch's snapshot follows
the entries touched, not the size of the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.runtime.state.schema import StateSchema


class _Sentinel:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


MISSING: Final[Any] = _Sentinel("MISSING")
REMOVED: Final[Any] = _Sentinel("REMOVED")


@dataclass(slots=True)
class TableDelta:
    """What a table wrote and removed since its last snapshot; for a full snapshot, everything it holds.

    `schema` says what state it is, for tables that belong to one.
    """

    namespaced: bool
    written: dict[Any, Any]
    removed: list[Any]
    schema: StateSchema | None = None


class HashMapTable:
    """Entries as Python objects. Keys are the user's key, or (key, namespace) pairs if `namespaced`."""

    __slots__ = ("data", "namespaced", "touched")

    sweeps_itself = False  # state that expires looks for expired entries at every access

    def __init__(self, namespaced: bool) -> None:
        self.namespaced = namespaced
        self.data: dict[Any, Any] = {}
        self.touched: dict[Any, Any] = {}

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the entry under `key`, or `default`."""
        value = self.touched.get(key, MISSING)
        if value is MISSING:
            return self.data.get(key, default)
        return default if value is REMOVED else value

    def put(self, key: Any, value: Any) -> None:
        """Write an entry."""
        self.touched[key] = value

    def remove(self, key: Any) -> None:
        """Remove an entry if it is there."""
        if key in self.data:
            self.touched[key] = REMOVED
        else:
            self.touched.pop(key, None)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change meanwhile."""
        touched = self.touched
        for key, value in self.data.items():
            if key not in touched:
                yield key, value
        for key, value in touched.items():
            if value is not REMOVED:
                yield key, value

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    def merge(self) -> TableDelta:
        """End the epoch: fold `touched` into the rest and return it."""
        touched, self.touched = self.touched, {}
        data = self.data
        removed = [key for key, value in touched.items() if value is REMOVED]
        for key in removed:
            del touched[key]
            del data[key]
        data.update(touched)
        return TableDelta(self.namespaced, touched, removed)

    def full(self) -> TableDelta:
        """Return everything, after `merge`."""
        return TableDelta(self.namespaced, self.data, [])

    def apply(self, delta: TableDelta) -> None:
        """Replay a delta while restoring."""
        for key in delta.removed:
            self.data.pop(key, None)
        self.data.update(delta.written)
