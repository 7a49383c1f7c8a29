"""What a SavepointWriter does to one table of keyed state: steps that entries stream through."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Protocol

from penstock.common.type_information import TypeInformation, shorten
from penstock.errors import ArgumentError, PenstockError
from penstock.runtime.state.schema import StateSchema
from penstock.windowing import Window

Entry = tuple[Any, Any]  # the key, or (key, window) in a table of windows; and the value


class _Drop:
    def __repr__(self) -> str:
        return "DROP"


DROP: Final = _Drop()  # what a function returns to remove an entry


class Step(Protocol):
    """One change of a table."""

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after the change; `owns` tells which keys are its own."""


@dataclass(frozen=True, slots=True)
class Put:
    """Writes entries, over those that are there."""

    written: dict[Any, Any]
    namespaced: bool

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after the change; `owns` tells which keys are its own."""
        kept = (entry for entry in entries if entry[0] not in self.written)
        put = (
            entry
            for entry in self.written.items()
            if owns(entry[0][0] if self.namespaced else entry[0])
        )
        return chain(kept, put)


@dataclass(frozen=True, slots=True)
class Clear:
    """Removes all entries."""

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after the change; `owns` tells which keys are its own."""
        return iter(())


@dataclass(frozen=True, slots=True)
class Change:
    """Calls a function with each key and value (and window); what it returns is the new value, DROP removes the entry."""

    function: Callable[..., Any]
    kind: str
    ttl: bool
    namespaced: bool
    what: str
    declared: TypeInformation | None = None  # what the state's values are said to be

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after the change; `owns` tells which keys are its own."""
        for entry, stored in entries:
            value = without_times(stored, self.kind) if self.ttl else stored
            arguments = (entry[0], value, entry[1]) if self.namespaced else (entry, value)
            try:
                changed = self.function(*arguments)
            except PenstockError:
                raise
            except Exception as error:
                raise ArgumentError(
                    f"the function that changes {self.what} failed",
                    detail=f"{type(error).__name__}: {error}, for key {shorten(arguments[0])}",
                ) from error
            if changed is DROP:
                continue
            if changed is None:
                raise ArgumentError(
                    f"the function that changes {self.what} returned None for key {shorten(arguments[0])}",
                    hint="return the new value, or penstock.state.DROP to remove the entry",
                )
            check_kind(changed, self.kind, self.what)
            self._check_type(value, changed, arguments[0])
            yield (
                entry,
                with_times(changed, self.kind, newest(stored, self.kind)) if self.ttl else changed,
            )

    def _check_type(self, before: Any, after: Any, key: Any) -> None:
        """Refuse a value of another type than the state's; state does not enforce it, so one that was there may be."""
        if self.declared is None or (reason := mismatch(after, self.declared)) is None:
            return
        if mismatch(before, self.declared) is None:
            raise ArgumentError(
                f"the function that changes {self.what} returned a value of another type for key {shorten(key)}",
                detail=reason,
                hint="the job would refuse to read it, or misread it: to change the type, drop_state(...) and put it anew",
            )


@dataclass(frozen=True, slots=True)
class SwitchTtl:
    """Rewrites entries because their state now expires (they are as old as this step), or does so no longer."""

    kind: str
    ttl: bool
    now: int

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after the change; `owns` tells which keys are its own."""
        return ((entry, self.switched(stored)) for entry, stored in entries)

    def switched(self, stored: Any) -> Any:
        """Return one value as it is to be."""
        if self.ttl:
            return with_times(stored, self.kind, self.now)
        return without_times(stored, self.kind)


@dataclass(slots=True)
class TableEdit:
    """What becomes of a table: its steps, in the order in which they were asked for."""

    namespaced: bool
    schema: StateSchema | None
    steps: list[Step] = field(default_factory=list)

    def declare(self, schema: StateSchema | None) -> None:
        """Go on with another schema: a time to live that is switched on or off concerns the entries there are."""
        before = self.schema
        if before is not None and schema is not None and before.ttl != schema.ttl:
            self.steps.append(SwitchTtl(schema.kind, schema.ttl, now_ms()))
        self.schema = schema

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after all steps; `owns` tells which keys are its own."""
        for step in self.steps:
            entries = step.apply(entries, owns)
        return entries


def now_ms() -> int:
    """Return the wall clock in epoch milliseconds."""
    return int(time.time() * 1000)


def with_times(value: Any, kind: str, timestamp: int) -> Any:
    """Return a value as state that expires holds it."""
    if kind == "list":
        return [(item, timestamp) for item in value]
    if kind == "map":
        return {key: (item, timestamp) for key, item in value.items()}
    return value, timestamp


def without_times(stored: Any, kind: str) -> Any:
    """Return what `with_times` got."""
    if kind == "list":
        return [item for item, _ in stored]
    if kind == "map":
        return {key: item for key, (item, _) in stored.items()}
    return stored[0]


def newest(stored: Any, kind: str) -> int:
    """Return the time of the last access to a value of state that expires."""
    if kind in {"list", "map"}:
        pairs = stored.values() if kind == "map" else stored
        return max((timestamp for _, timestamp in pairs), default=0)
    timestamp: int = stored[1]
    return timestamp


def check_kind(value: Any, kind: str, what: str) -> None:
    """Refuse what cannot be the value of a kind of state."""
    wanted: type | None = {"list": list, "map": dict}.get(kind)
    if wanted is not None and not isinstance(value, wanted):
        raise ArgumentError(
            f"{what} is {kind} state, and {shorten(value)} is no {wanted.__name__}",
            hint=f"return the whole {wanted.__name__} of the key",
        )


def mismatch(value: Any, declared: TypeInformation) -> str | None:
    """Say why a value is not one of a type, or return None: it is one."""
    try:
        declared.validate(value)
    except PenstockError as error:
        return str(error.message)
    return None


def as_window(value: Any) -> Any:
    """Return a window; a dictionary or a pair with start and end is a TimeWindow."""
    from penstock.windowing import TimeWindow

    if isinstance(value, Window):
        return value
    if isinstance(value, dict) and set(value) == {"start", "end"}:
        return TimeWindow(value["start"], value["end"])
    if isinstance(value, tuple) and len(value) == 2 and all(type(part) is int for part in value):
        return TimeWindow(*value)
    raise ArgumentError(
        f"{shorten(value)} is no window",
        hint="give TimeWindow(start, end), or the pair (start, end)",
    )
