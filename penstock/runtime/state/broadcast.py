"""Broadcast state: a dictionary that is the same in every subtask of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from penstock.common.user_types import Key, StateValue
from penstock.errors import UnsupportedOperationError


class _Entries:
    """The read methods of both sides."""

    __slots__ = ("_entries",)

    def __init__(self, entries: dict[Any, Any]) -> None:
        self._entries = entries

    def get(self, key: Key) -> StateValue:
        """Return the value under `key`, or None."""
        return self._entries.get(key)

    def contains(self, key: object) -> bool:
        """Whether there is an entry under `key`."""
        return key in self._entries

    def items(self) -> list[tuple[Any, Any]]:
        """Return all entries."""
        return list(self._entries.items())

    def keys(self) -> list[Any]:
        """Return all keys."""
        return list(self._entries)

    def values(self) -> list[Any]:
        """Return all values."""
        return list(self._entries.values())

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._entries

    __contains__ = contains
    __getitem__ = get

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())


class ReadOnlyHeapBroadcastState(_Entries):
    """The state as seen by the non-broadcast side. The values themselves must not be modified either."""

    __slots__ = ()

    def _refuse(self, *args: object) -> NoReturn:
        raise UnsupportedOperationError(
            "broadcast state is read-only on the non-broadcast side",
            detail="its subtasks see different elements, so their copies would diverge",
            hint="change it in process_broadcast_element",
        )

    put = put_all = remove = clear = __setitem__ = __delitem__ = _refuse


class HeapBroadcastState(_Entries):
    """The state as seen by the broadcast side."""

    __slots__ = ()

    def put(self, key: Key, value: StateValue) -> None:
        """Set one entry."""
        self._entries[key] = value

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Set several entries."""
        self._entries.update(dict_value)

    def remove(self, key: object) -> None:
        """Remove one entry if it exists."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()

    def read_only(self) -> ReadOnlyHeapBroadcastState:
        """Return the same state for the other side."""
        return ReadOnlyHeapBroadcastState(self._entries)

    __setitem__ = put
    __delitem__ = remove
