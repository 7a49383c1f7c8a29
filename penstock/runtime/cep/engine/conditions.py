"""Conditions: the user's functions, combined by and and or, compiled to one callable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Condition:
    """Base class of all conditions. An iterative one also uses the events of the match so far."""

    @property
    def iterative(self) -> bool:
        """Whether the condition needs more than the event."""
        raise NotImplementedError

    def compiled(self) -> Callable[..., Any]:
        """Return a function of `(event)`, or of `(event, context)` if it is iterative."""
        raise NotImplementedError

    def functions(self) -> list[Any]:
        """Return the user's functions."""
        return []


@dataclass(frozen=True, slots=True)
class UserCondition(Condition):
    """One user function: a callable, or an object with a method `filter`."""

    __test__ = False  # pytest collects classes with this name

    function: Any
    takes_context: bool = False

    @property
    def iterative(self) -> bool:
        """Whether the function takes a context."""
        return self.takes_context

    def compiled(self) -> Callable[..., Any]:
        """Return the function."""
        method = getattr(self.function, "filter", None)
        call: Callable[..., Any] = method if callable(method) else self.function
        return call

    def functions(self) -> list[Any]:
        """Return the function."""
        return [self.function]

    def __str__(self) -> str:
        name = getattr(self.function, "__name__", None)
        return "?" if name == "<lambda>" else name or type(self.function).__name__


@dataclass(frozen=True, slots=True)
class IsInstance(Condition):
    """The event is of a class."""

    kind: type

    @property
    def iterative(self) -> bool:
        """Return False: it needs only the event."""
        return False

    def compiled(self) -> Callable[..., Any]:
        """Return the test."""
        kind = self.kind
        return lambda event: isinstance(event, kind)

    def __str__(self) -> str:
        return f"is {self.kind.__name__}"


@dataclass(frozen=True, slots=True)
class _Joined(Condition):
    parts: tuple[Condition, ...]

    @property
    def iterative(self) -> bool:
        """Whether any part is iterative."""
        return any(part.iterative for part in self.parts)

    def _calls(self) -> list[Callable[..., Any]]:
        """Return the parts, all of the same kind."""
        if not self.iterative:
            return [part.compiled() for part in self.parts]
        return [
            part.compiled() if part.iterative else _without_context(part.compiled())
            for part in self.parts
        ]

    def functions(self) -> list[Any]:
        """Return the functions of all parts."""
        return [function for part in self.parts for function in part.functions()]


def _without_context(call: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda event, _: call(event)


class AllOf(_Joined):
    """All parts must hold; evaluation stops at the first that does not."""

    def compiled(self) -> Callable[..., Any]:
        """Return one function for all parts."""
        calls = self._calls()
        if len(calls) == 2:
            first, second = calls
            if self.iterative:
                return lambda event, context: first(event, context) and second(event, context)
            return lambda event: first(event) and second(event)
        if self.iterative:
            return lambda event, context: all(call(event, context) for call in calls)
        return lambda event: all(call(event) for call in calls)

    def __str__(self) -> str:
        return " and ".join(
            f"({part})" if isinstance(part, AnyOf) else str(part) for part in self.parts
        )


class AnyOf(_Joined):
    """One of the parts must hold; evaluation stops at the first that does."""

    def compiled(self) -> Callable[..., Any]:
        """Return one function for all parts."""
        calls = self._calls()
        if self.iterative:
            return lambda event, context: any(call(event, context) for call in calls)
        return lambda event: any(call(event) for call in calls)

    def __str__(self) -> str:
        return " or ".join(str(part) for part in self.parts)
