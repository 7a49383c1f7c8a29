"""Operator state: state of a subtask that does not belong to a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from penstock.common.user_types import StateValue
from penstock.errors import InvalidProgramError
from penstock.runtime.state import class_shapes
from penstock.runtime.state.broadcast import HeapBroadcastState
from penstock.runtime.state.class_shapes import ClassShape

# The last watermark of an operator that generates watermarks; it is sent downstream again after a restart.
EMITTED: Final = "emitted"
IDLE: Final = "idle"

# The prefix of user states determines how they are redistributed on rescale.
SPLIT: Final = "list/"
UNION: Final = "union/"
BROADCAST: Final = "broadcast/"

# The state of a sink's last writer, as list state: on rescale each state goes to one new subtask.
WRITERS: Final = SPLIT + "writers"

StateClasses = Mapping[str, tuple[ClassShape, ...]]  # by the name of the state, with its prefix

_KINDS: Final = {SPLIT: "list state", UNION: "union list state", BROADCAST: "broadcast state"}


class OperatorListState:
    """A list of one subtask, whose elements are redistributed on rescale."""

    __slots__ = ("_elements",)

    def __init__(self, elements: list[Any]) -> None:
        self._elements = elements

    def get(self) -> Iterator[Any]:
        """Iterate over the elements."""
        return iter(list(self._elements))

    def __iter__(self) -> Iterator[Any]:
        return self.get()

    def add(self, value: StateValue) -> None:
        """Append an element."""
        self._elements.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append elements."""
        self._elements.extend(list(values))

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements."""
        self._elements[:] = list(values)

    def clear(self) -> None:
        """Remove all elements."""
        self._elements.clear()


class OperatorStateBackend:
    """Named values of one operator in one subtask. They must be small: every checkpoint contains all of them.

    `get` and `put` are for operators, the rest is the operator state store of user functions.
    """

    def __init__(
        self,
        restored: dict[str, Any] | None = None,
        *,
        operator: str = "",
        classes: StateClasses | None = None,
    ) -> None:
        self.is_restored = restored is not None
        self._values: dict[str, Any] = dict(restored or {})
        self._operator = operator
        # The classes of objects in restored state; a state is compared with the program when it is asked for.
        self._classes = {name: found for name, found in (classes or {}).items() if self.get(name)}
        self._used: set[str] = set()

    def get(self, name: str, default: object = None) -> StateValue:
        """Return a value."""
        return self._values.get(name, default)

    def put(self, name: str, value: StateValue) -> None:
        """Set a value; it must pickle."""
        self._values[name] = value

    def snapshot(self) -> dict[str, Any]:
        """Return all values."""
        return dict(self._values)

    def classes(self) -> StateClasses:
        """Return the classes of objects in the user's state, for the next restore."""
        for name in self._used:
            value = self._values[name]
            parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
            found = class_shapes.shapes_in(parts).values()
            self._classes[name] = class_shapes.merged(self._classes.get(name, ()), found)
        return {name: found for name, found in self._classes.items() if found}

    def get_list_state(self, state_descriptor: object) -> OperatorListState:
        """Return list state: on rescale the elements of all subtasks are split evenly."""
        return OperatorListState(self._user_state(state_descriptor, "list", SPLIT, []))

    def get_union_list_state(self, state_descriptor: object) -> OperatorListState:
        """Return union list state: on restore every subtask gets the elements of all subtasks."""
        return OperatorListState(self._user_state(state_descriptor, "list", UNION, []))

    def get_broadcast_state(self, state_descriptor: object) -> HeapBroadcastState:
        """Return broadcast state: a dictionary that is the same in all subtasks."""
        return HeapBroadcastState(self._user_state(state_descriptor, "map", BROADCAST, {}))

    def _user_state(self, descriptor: Any, kind: str, prefix: str, empty: object) -> Any:
        if getattr(descriptor, "kind", None) != kind:
            raise InvalidProgramError(
                f"{_KINDS[prefix]} needs a {kind} state descriptor, got {type(descriptor).__name__}",
                hint=f"use a {kind.capitalize()}StateDescriptor",
            )
        if descriptor.ttl_config is not None:
            raise InvalidProgramError(
                f"state '{descriptor.name}' has a TTL",
                detail=f"{_KINDS[prefix]} does not support TTL",
                hint="use keyed state, or remove old elements in your function",
            )
        for other, name in _KINDS.items():
            if other != prefix and other + descriptor.name in self._values:
                raise InvalidProgramError(
                    f"state '{descriptor.name}' was registered as {name} and is now accessed as {_KINDS[prefix]}",
                    hint="give one of the two state descriptors another name",
                )
        name = prefix + descriptor.name
        if name not in self._used:
            class_shapes.check(self._operator, descriptor.name, self._classes.get(name, ()))
            self._used.add(name)
        return self._values.setdefault(name, empty)
