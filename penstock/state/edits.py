"""Edits of one table of keyed state by a SavepointWriter: steps that entries stream through."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Protocol

from penstock.common.type_information import TypeInformation, shorten
from penstock.common.user_types import Key
from penstock.errors import ArgumentError, PenstockError
from penstock.runtime.state.schema import StateSchema
from penstock.windowing import Window

Entry = tuple[Any, Any]  # the key, or (key, window) in a table of windows; and the value


class _Drop:
    def __repr__(self) -> str:
        return "DROP"


DROP: Final = _Drop()  # returned by a function to remove an entry


class EditStep(Protocol):
    """One change of a table."""

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after the change; `owns` returns whether a key belongs to it."""


@dataclass(frozen=True, slots=True)
class PutEntries:
    """Writes entries, replacing existing ones."""

    written: dict[Any, Any]
    namespaced: bool

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after the change; `owns` returns whether a key belongs to it."""
        kept = (entry for entry in entries if entry[0] not in self.written)
        put = (
            entry
            for entry in self.written.items()
            if owns(entry[0][0] if self.namespaced else entry[0])
        )
        return chain(kept, put)


@dataclass(frozen=True, slots=True)
class ClearEntries:
    """Removes all entries."""

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after the change; `owns` returns whether a key belongs to it."""
        return iter(())


@dataclass(frozen=True, slots=True)
class TransformEntries:
    """Calls a function with each key and value (and window); its result is the new value, DROP removes the entry."""

    function: Callable[..., Any]
    kind: str
    ttl: bool
    namespaced: bool
    what: str
    declared: TypeInformation | None = None  # the declared type of the state's values

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after the change; `owns` returns whether a key belongs to it."""
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

    def _check_type(self, before: object, after: object, key: Key) -> None:
        """Reject a value of another type than the state's; state does not enforce it, so existing values may differ."""
        if self.declared is None or (reason := mismatch(after, self.declared)) is None:
            return
        if mismatch(before, self.declared) is None:
            raise ArgumentError(
                f"the function that changes {self.what} returned a value of another type for key {shorten(key)}",
                detail=reason,
                hint="the job would fail to read it, or misread it: to change the type, drop_state(...) and put it again",
            )


@dataclass(frozen=True, slots=True)
class SwitchTtl:
    """Converts entries because the TTL of their state was enabled (starting now) or disabled."""

    kind: str
    ttl: bool
    now: int

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after the change; `owns` returns whether a key belongs to it."""
        return ((entry, self.switched(stored)) for entry, stored in entries)

    def switched(self, stored: object) -> Any:
        """Return one converted value."""
        if self.ttl:
            return with_times(stored, self.kind, self.now)
        return without_times(stored, self.kind)


@dataclass(slots=True)
class TableEdit:
    """The edits of a table: its steps, in order."""

    namespaced: bool
    schema: StateSchema | None
    steps: list[EditStep] = field(default_factory=list)

    def declare(self, schema: StateSchema | None) -> None:
        """Continue with another schema: enabling or disabling the TTL converts existing entries."""
        before = self.schema
        if before is not None and schema is not None and before.ttl != schema.ttl:
            self.steps.append(SwitchTtl(schema.kind, schema.ttl, now_ms()))
        self.schema = schema

    def apply(self, entries: Iterator[Entry], owns: Callable[[Any], bool]) -> Iterator[Entry]:
        """Return the entries of one subtask after all steps; `owns` returns whether a key belongs to it."""
        for step in self.steps:
            entries = step.apply(entries, owns)
        return entries


def now_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return int(time.time() * 1000)


def with_times(value: Any, kind: str, timestamp: int) -> Any:
    """Return a value in the form of state with a TTL."""
    if kind == "list":
        return [(item, timestamp) for item in value]
    if kind == "map":
        return {key: (item, timestamp) for key, item in value.items()}
    return value, timestamp


def without_times(stored: Any, kind: str) -> Any:
    """Undo `with_times`."""
    if kind == "list":
        return [item for item, _ in stored]
    if kind == "map":
        return {key: item for key, (item, _) in stored.items()}
    return stored[0]


def newest(stored: Any, kind: str) -> int:
    """Return the time of the last access to a value of state with a TTL."""
    if kind in {"list", "map"}:
        pairs = stored.values() if kind == "map" else stored
        return max((timestamp for _, timestamp in pairs), default=0)
    timestamp: int = stored[1]
    return timestamp


def check_kind(value: Any, kind: str, what: str) -> None:
    """Reject a value that does not fit a kind of state."""
    wanted: type | None = {"list": list, "map": dict}.get(kind)
    if wanted is not None and not isinstance(value, wanted):
        raise ArgumentError(
            f"{what} is {kind} state, but {shorten(value)} is not a {wanted.__name__}",
            hint=f"return the whole {wanted.__name__} of the key",
        )


def mismatch(value: Any, declared: TypeInformation) -> str | None:
    """Return why a value does not have a type, or None if it does."""
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
        f"{shorten(value)} is not a window",
        hint="use TimeWindow(start, end), or the pair (start, end)",
    )
