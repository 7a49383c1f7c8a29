"""ListView and MapView: lists and maps in the accumulators of aggregate functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class DataView(ABC):
    """A collection in an accumulator."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything."""


class ListView(DataView, Generic[T]):
    """A list in an accumulator.

    >>> view = ListView()
    >>> view.add_all([1, 2])
    >>> list(view.get())
    [1, 2]
    """

    def __init__(self) -> None:
        self._list: list[T] = []

    def get(self) -> Iterator[T]:
        """Return all elements."""
        return iter(self._list)

    def add(self, value: T) -> None:
        """Add an element."""
        self._list.append(value)

    def add_all(self, values: Iterable[T]) -> None:
        """Add elements."""
        self._list.extend(values)

    def clear(self) -> None:
        """Forget all elements."""
        self._list = []

    def __iter__(self) -> Iterator[T]:
        return iter(self._list)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListView) and list(other.get()) == self._list

    def __hash__(self) -> int:
        return hash(tuple(self._list))


class MapView(DataView, Generic[K, V]):
    """A map in an accumulator."""

    def __init__(self) -> None:
        self._dict: dict[K, V] = {}

    def get(self, key: K) -> V:
        """Return the value of a key; None if there is none."""
        return self._dict.get(key)  # type: ignore[return-value]

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""
        self._dict[key] = value

    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of many keys."""
        self._dict.update(dict_value)

    def remove(self, key: K) -> None:
        """Forget a key."""
        del self._dict[key]

    def contains(self, key: K) -> bool:
        """Whether a key is there."""
        return key in self._dict

    def items(self) -> Any:
        """Return all keys and values."""
        return self._dict.items()

    def keys(self) -> Any:
        """Return all keys."""
        return self._dict.keys()

    def values(self) -> Any:
        """Return all values."""
        return self._dict.values()

    def is_empty(self) -> bool:
        """Whether the view is empty."""
        return not self._dict

    def clear(self) -> None:
        """Forget all keys."""
        self._dict = {}

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapView) and dict(other.items()) == self._dict

    def __hash__(self) -> int:
        return hash(tuple(self._dict))


__all__ = ["DataView", "ListView", "MapView"]
