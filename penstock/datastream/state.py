"""State interfaces of user functions, and their descriptors, under PyFlink's module path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from penstock.state_descriptors.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.state_descriptors.ttl import StateTtlConfig

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """Base of all keyed state, which belongs to the current key."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the state of the current key."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abstractmethod
    def value(self) -> T | None:
        """Return the value, or None."""

    @abstractmethod
    def update(self, value: T) -> None:
        """Set the value; None removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that values are added to."""

    @abstractmethod
    def get(self) -> OUT:
        """Return the result of the added values."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value."""


class MergingState(AppendingState[IN, OUT]):
    """State whose windows can be merged."""


class ReducingState(MergingState[T, T | None]):
    """The values of a key, reduced to one."""


class AggregatingState(MergingState[IN, OUT | None]):
    """The values of a key, aggregated into an accumulator; `get` returns its result."""


class ListState(MergingState[T, Iterable[T]]):
    """A list per key."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace all elements."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Append elements."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class _Entries(State, Generic[K, V]):
    """A read-only map."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value under `key`, or None."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether `key` has an entry."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return all entries."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return all keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return all values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there are no entries."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _ChangingEntries(_Entries[K, V]):
    """A map for reading and writing."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set one entry."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set several entries."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove one entry, if it exists."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_ChangingEntries[K, V]):
    """A map per key."""


class ReadOnlyBroadcastState(_Entries[K, V]):
    """Broadcast state on the non-broadcast side."""


class BroadcastState(_ChangingEntries[K, V], ReadOnlyBroadcastState[K, V]):
    """Broadcast state on the broadcast side."""


class OperatorStateStore(ABC):
    """Returns state that belongs to an operator rather than to a key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list of this subtask; on rescale, all elements are redistributed evenly."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list of this subtask; when restored, it contains the elements of all subtasks."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return the broadcast state of a descriptor."""


__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]
