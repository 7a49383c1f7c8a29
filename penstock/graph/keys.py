"""Keys that Python cannot hash by itself: lists and bytearrays, also inside tuples and rows.

Keys are compared by content, as Flink compares the arrays and lists that it serializes. So a list becomes a ListKey, which is
still a list to the user, and a bytearray becomes bytes. Dictionaries and sets have no reliable order and are rejected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.common.types import Row
from penstock.common.user_types import Key
from penstock.errors import ArgumentTypeError


class ListKey(list[Any]):
    """A list as a key: equal to every list with the same items, and hashable. It must not be changed.

    >>> {ListKey(["a", 1]): "found"}[ListKey(["a", 1])], ListKey([1]) == [1]
    ('found', True)
    """

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return ListKey, (list(self),)


def as_key(key: Key) -> object:
    """Return a hashable, immutable form of a key; raises TypeError if there is none."""
    kind = type(key)
    if kind is list:
        return ListKey(map(as_key, key))
    if kind is bytearray:
        return bytes(key)
    if kind is tuple:
        return tuple(map(as_key, key))
    if kind is Row:
        row = Row(*map(as_key, key))
        names = key.get_field_names()
        if names is not None:
            row.set_field_names(names)
        row.set_row_kind(key.get_row_kind())
        return row
    hash(key)
    return key


def for_user(key: Key) -> object:
    """Return a key for user code: a list is copied, because the key used for state access must not change."""
    return list(key) if type(key) is ListKey else key


def as_keys(keys: Iterable[Any]) -> list[Any]:
    """Return hashable keys; reject the first value that cannot be a key."""
    found = []
    for key in keys:
        try:
            found.append(as_key(key))
        except TypeError as error:
            raise not_a_key(key, error) from None
    return found


def not_a_key(key: object, error: TypeError) -> ArgumentTypeError:
    """Return the error for a value that cannot be a key."""
    return ArgumentTypeError(
        f"keys of type {type(key).__qualname__} are not supported",
        detail=f"the key is {key!r}: {error}",
        hint="let the key selector return a number, text, a date, a Row, or a tuple or list of these; of a dictionary, "
        "tuple(sorted(value.items()))",
    )


__all__ = ["ListKey", "as_key", "as_keys", "for_user", "not_a_key"]
