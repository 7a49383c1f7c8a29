"""The contents of a window: its elements, one reduced value, or one accumulator."""

from __future__ import annotations

from typing import Any, Protocol

from penstock.errors import InvalidProgramError
from penstock.graph.operator_specs import WindowSpec
from penstock.runtime.user_code import method_of


class WindowContents(Protocol):
    """How elements become contents, and contents become results or the input of the window function."""

    def first(self, value: object) -> Any:
        """Return the contents of a window with one element."""

    def add(self, contents: Any, value: Any) -> Any:
        """Return the contents with one more element; the old ones may have changed."""

    def merge(self, contents: Any, other: Any) -> Any:
        """Return the contents of two merged windows."""

    def result(self, contents: Any) -> Any:
        """Return the reduced or aggregated value."""

    def elements(self, contents: Any) -> list[Any]:
        """Return the elements for the window function."""


class ElementContents:
    """All elements, in the order of arrival."""

    def first(self, value: object) -> list[Any]:
        """Return a list of one."""
        return [value]

    def add(self, contents: list[Any], value: Any) -> list[Any]:
        """Append in place."""
        contents.append(value)
        return contents

    def merge(self, contents: list[Any], other: list[Any]) -> list[Any]:
        """Return one list."""
        return [*contents, *other]

    def result(self, contents: list[Any]) -> list[Any]:
        """Return a copy, because the window may still be used."""
        return list(contents)

    elements = result


class ReducedContents:
    """One value, folded with a ReduceFunction."""

    def __init__(self, function: Any) -> None:
        self.add = method_of(function, "reduce")
        self.merge = self.add

    def first(self, value: object) -> Any:
        """Return the element."""
        return value

    def result(self, contents: Any) -> Any:
        """Return the value."""
        return contents

    def elements(self, contents: Any) -> list[Any]:
        """Return the value as the only element."""
        return [contents]


class AggregatedContents:
    """One accumulator of an AggregateFunction."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def first(self, value: Any) -> Any:
        """Add to a new accumulator."""
        return self.function.add(value, self.function.create_accumulator())

    def add(self, contents: Any, value: Any) -> Any:
        """Add to the accumulator."""
        return self.function.add(value, contents)

    def merge(self, contents: Any, other: Any) -> Any:
        """Merge two accumulators."""
        return self.function.merge(contents, other)

    def result(self, contents: Any) -> Any:
        """Return the accumulator's result."""
        return self.function.get_result(contents)

    def elements(self, contents: Any) -> list[Any]:
        """Return the result as the only element."""
        return [self.function.get_result(contents)]


def create_contents(spec: WindowSpec) -> WindowContents:
    """Return the contents that a window operator keeps."""
    if spec.reduce_function is not None and spec.aggregate_function is not None:
        raise InvalidProgramError("a window cannot both reduce and aggregate its elements")
    if spec.reduce_function is not None:
        return ReducedContents(spec.reduce_function)
    if spec.aggregate_function is not None:
        return AggregatedContents(spec.aggregate_function)
    if spec.window_function is None:
        raise InvalidProgramError(
            "the window has no function for its elements",
            hint="call reduce(...), aggregate(...), apply(...) or process(...) on it",
        )
    return ElementContents()
