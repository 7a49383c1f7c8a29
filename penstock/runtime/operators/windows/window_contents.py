"""The contents of a window: its elements, one reduced value, or one accumulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from penstock.errors import InvalidProgramError
from penstock.graph.operator_specs import WindowSpec
from penstock.runtime.user_code import method_of

C = TypeVar("C")
#: Elements and results are the user's: this module passes them on.
Element = object


class UserAggregateFunction(Protocol):
    """An AggregateFunction, whose accumulators and results are the user's."""

    def create_accumulator(self) -> object:
        """Return a new accumulator."""

    def add(self, value: Element, accumulator: object) -> object:
        """Return the accumulator with one more element."""

    def merge(self, a: object, b: object) -> object:
        """Return the merged accumulator."""

    def get_result(self, accumulator: object) -> Element:
        """Return the result."""


class WindowContents(Protocol[C]):
    """How elements become contents, and contents become results or the input of the window function."""

    def first(self, value: Element) -> C:
        """Return the contents of a window with one element."""

    def add(self, contents: C, value: Element) -> C:
        """Return the contents with one more element; the old ones may have changed."""

    def merge(self, contents: C, other: C) -> C:
        """Return the contents of two merged windows."""

    def result(self, contents: C) -> Element:
        """Return the reduced or aggregated value."""

    def elements(self, contents: C) -> list[Element]:
        """Return the elements for the window function."""


class ElementContents:
    """All elements, in the order of arrival."""

    def first(self, value: Element) -> list[Element]:
        """Return a list of one."""
        return [value]

    def add(self, contents: list[Element], value: Element) -> list[Element]:
        """Append in place."""
        contents.append(value)
        return contents

    def merge(self, contents: list[Element], other: list[Element]) -> list[Element]:
        """Return one list."""
        return [*contents, *other]

    def result(self, contents: list[Element]) -> list[Element]:
        """Return a copy, because the window may still be used."""
        return list(contents)

    elements = result


class ReducedContents:
    """One value, folded with a ReduceFunction."""

    def __init__(self, function: object) -> None:
        self.add: Callable[[Element, Element], Element] = method_of(function, "reduce")
        self.merge = self.add

    def first(self, value: Element) -> object:
        """Return the element."""
        return value

    def result(self, contents: object) -> object:
        """Return the value."""
        return contents

    def elements(self, contents: object) -> list[Element]:
        """Return the value as the only element."""
        return [contents]


class AggregatedContents:
    """One accumulator of an AggregateFunction."""

    def __init__(self, function: UserAggregateFunction) -> None:
        self.function = function

    def first(self, value: Element) -> object:
        """Add to a new accumulator."""
        return self.function.add(value, self.function.create_accumulator())

    def add(self, contents: object, value: Element) -> object:
        """Add to the accumulator."""
        return self.function.add(value, contents)

    def merge(self, contents: object, other: object) -> object:
        """Merge two accumulators."""
        return self.function.merge(contents, other)

    def result(self, contents: object) -> object:
        """Return the accumulator's result."""
        return self.function.get_result(contents)

    def elements(self, contents: object) -> list[Element]:
        """Return the result as the only element."""
        return [self.function.get_result(contents)]


def create_contents(spec: WindowSpec) -> WindowContents[Any]:
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
