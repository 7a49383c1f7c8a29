"""State tables: the entries of one named state, as used by operators and state objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.common.user_types import Key, StateValue

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
    """The entries that a table wrote and removed since its last snapshot; for a full snapshot, all entries.

    `schema` is set for tables of declared states.
    """

    namespaced: bool
    written: dict[Any, Any]
    removed: list[Any]
    schema: StateSchema | None = None


class StateTable(Protocol):
    """The entries of one named state. Keys are the user's key, or (key, namespace) pairs if `namespaced`."""

    namespaced: bool

    def get(self, key: Key, default: object = None) -> StateValue:
        """Return the entry under `key`, or `default`."""

    def put(self, key: Key, value: StateValue) -> None:
        """Write an entry."""

    def get_many(self, keys: Sequence[Any], default: object = None) -> list[Any]:
        """Return the entries under many keys, read in one call if the backend supports it."""

    def put_many(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Write many entries."""

    def remove(self, key: object) -> None:
        """Remove an entry if it exists."""

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. The table must not change in the meantime."""

    def keys(self) -> Iterator[Any]:
        """Iterate over the keys of all entries: pairs if namespaced."""

    def __len__(self) -> int: ...

    def full(self) -> TableDelta:
        """Return all entries, at a barrier."""

    def apply(self, delta: TableDelta) -> None:
        """Apply a delta during restore."""

    def sweeper(self, size: int, pruned: Pruned) -> Sweep | None:
        """Return a function that checks `size` entries at a time for expiration; None if the backend does so itself."""


# Returns the live part of an entry at a time: itself if nothing has expired, None if everything has.
Pruned = Callable[[Any, int], Any]
# Called at every access, with the current entry, which is skipped, and the time.
Sweep = Callable[[Any, int], None]
