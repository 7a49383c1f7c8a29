"""Adapts users' functions to the operator. They run in tasks, so they do not depend on the DataStream API."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cep.pattern import Pattern
from penstock.common.user_types import Record
from penstock.errors import ArgumentTypeError
from penstock.runtime.cep.engine import Match

if TYPE_CHECKING:
    from penstock.datastream.output_tag import OutputTag


@dataclass(frozen=True, slots=True)
class PatternOf:
    """The user's function, with building and validation of the pattern."""

    function: Any

    def __call__(self, description: Any) -> tuple[Any, Any]:
        """Return the id of a pattern, and its plan or None."""
        pattern_id, pattern = _method(self.function, "pattern_of")(description)
        if pattern is None:
            return pattern_id, None
        if not isinstance(pattern, Pattern):
            raise ArgumentTypeError(
                f"pattern '{pattern_id}' must be a Pattern, got {type(pattern).__name__}"
            )
        return pattern_id, pattern.build()


class NoKey:
    """The key selector of a stream that is not keyed: all events have one key."""

    def get_key(self, value: Record) -> int:
        """Return the constant key."""
        return 0

    def __call__(self, value: Record) -> int:
        """Return the constant key."""
        return 0


@dataclass(frozen=True, slots=True)
class Selector:
    """Adapts a select function to a process function."""

    function: Any
    method: str
    flat: bool

    def _call(self) -> Callable[[Match], Any]:
        return _method(self.function, self.method)

    def process_match(self, match: Match, ctx: Any) -> Iterable[Any] | None:
        """Call the select function."""
        result = self._call()(match)
        return result if self.flat else (result,)

    def open(self, runtime_context: Any) -> None:
        """Open the user's functions."""
        for function in self._functions():
            opener = getattr(function, "open", None)
            if callable(opener):
                opener(runtime_context)

    def close(self) -> None:
        """Close the user's functions."""
        for function in self._functions():
            closer = getattr(function, "close", None)
            if callable(closer):
                closer()

    def _functions(self) -> list[Any]:
        return [self.function]


@dataclass(frozen=True, slots=True)
class TimeoutSelector(Selector):
    """A select function with a timeout function for partial matches."""

    tag: OutputTag
    timeout: Any

    def process_timed_out_match(self, match: Match, ctx: Any) -> Iterable[Any] | None:
        """Call the timeout function for a partial match, for the side output."""
        result = _method(self.timeout, "timeout")(match, ctx.timestamp())
        results = (result or ()) if self.flat else (result,)
        return [(self.tag, each) for each in results]

    def _functions(self) -> list[Any]:
        return [self.function, self.timeout]


def _method(function: Any, name: str) -> Callable[..., Any]:
    method: Callable[..., Any] | None = getattr(function, name, None)
    return method if callable(method) else function
