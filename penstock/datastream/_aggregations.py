"""The functions behind KeyedStream.sum, min, max, min_by and max_by.

They are reduce functions over one field of a tuple, list, dictionary, Row or named tuple, or over a plain value as a
whole. They never modify their arguments: the first one is the operator's state.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

from penstock.common.types import Row
from penstock.common.user_types import Record
from penstock.datastream.basic_functions import ReduceFunction
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.argument_checks import describe

Position = int | str


def check_position(position: Any, what: str) -> Position:
    """Reject a position that is neither an index nor a field name."""
    if isinstance(position, bool) or not isinstance(position, int | str):
        raise ArgumentTypeError(
            f"{what} must be an int or a str, got {describe(position)}",
            hint="pass the index or the name of a field, or nothing for field 0",
        )
    if isinstance(position, int) and position < 0:
        raise ArgumentError(f"{what} must not be negative, got {position}")
    if position == "":
        raise ArgumentError(f"{what} must not be empty")
    return position


def read_field(element: Record, position: Position) -> Any:
    """Return a field of an element; of a plain value, field 0 is the value itself.

    >>> read_field((1, "a"), 1), read_field({"n": 2}, "n"), read_field(3, 0)
    ('a', 2, 3)
    """
    if isinstance(element, tuple):
        if isinstance(position, int):
            return element[position]
        if hasattr(element, "_fields"):
            return getattr(element, position)
        raise ArgumentTypeError(
            f"a tuple has no field '{position}'",
            hint="pass an index, or use a Row with field names",
        )
    if isinstance(element, list | dict | Row):
        fields: Any = element
        return fields[position]
    if position != 0:
        raise ArgumentTypeError(
            f"field {position!r} of {describe(element)} does not exist",
            hint="a value that is not a tuple, list, dict or Row has only field 0, the value itself",
        )
    return element


def replace_field(element: Record, position: Position, value: Any) -> Any:
    """Return a copy of an element with one field replaced.

    >>> replace_field((1, "a"), 0, 5), replace_field(3, 0, 5)
    ((5, 'a'), 5)
    """
    if isinstance(element, tuple):
        fields = getattr(element, "_fields", None)
        if fields is not None:
            name = fields[position] if isinstance(position, int) else position
            return element._replace(**{name: value})  # type: ignore[attr-defined]
        index = int(position)
        return (*element[:index], value, *element[index + 1 :])
    if isinstance(element, list | dict):
        changed: Any = element.copy()
        changed[position] = value
        return changed
    if isinstance(element, Row):
        row = copy.copy(element)  # copies the list of values
        row[position] = value
        return row
    return value


class FieldReduce(ReduceFunction):
    """Base: reduces one field."""

    def __init__(self, position: Position) -> None:
        self.position = position

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.position!r})"


class SumReduce(FieldReduce):
    """Sums the field; the other fields are the first element's.

    >>> SumReduce(1).reduce(("a", 1), ("b", 2))
    ('a', 3)
    """

    def reduce(self, value1: Record, value2: Record) -> Record:
        """Add."""
        position = self.position
        total = read_field(value1, position) + read_field(value2, position)
        return replace_field(value1, position, total)


class ExtremeReduce(FieldReduce):
    """Keeps the minimum or maximum of the field (`min`, `max`) or the element that has it (`min_by`, `max_by`).

    Among equal elements the first one is kept.
    """

    better: Any  # whether the first argument is to be kept rather than the second
    whole_element = False

    def reduce(self, value1: Record, value2: Record) -> Record:
        """Compare."""
        candidate = read_field(value2, self.position)
        if not self.better(candidate, read_field(value1, self.position)):
            return value1
        return value2 if self.whole_element else replace_field(value1, self.position, candidate)


class MinReduce(ExtremeReduce):
    """Keeps the minimum of the field; the other fields are the first element's.

    >>> MinReduce(1).reduce(("a", 3), ("b", 2))
    ('a', 2)
    """

    better = staticmethod(operator.lt)


class MaxReduce(ExtremeReduce):
    """Keeps the maximum of the field; the other fields are the first element's."""

    better = staticmethod(operator.gt)


class MinByReduce(MinReduce):
    """Keeps the element with the minimum of the field.

    >>> MinByReduce(1).reduce(("a", 3), ("b", 2))
    ('b', 2)
    """

    whole_element = True


class MaxByReduce(MaxReduce):
    """Keeps the element with the maximum of the field."""

    whole_element = True


class TupleProjection:
    """Selects fields of a tuple, in order.

    >>> TupleProjection((2, 0))(("a", "b", "c"))
    ('c', 'a')
    """

    def __init__(self, indexes: tuple[int, ...]) -> None:
        self.indexes = indexes

    def __call__(self, value: Record) -> tuple[Any, ...]:
        """Return the selected fields."""
        return tuple(value[index] for index in self.indexes)


class KeyAndValue:
    """Turns an element into Row(f0=key, f1=element), the form in which a KeyedStream is collected."""

    def __init__(self, key_selector: Any) -> None:
        self.key_selector = key_selector

    def open(self, runtime_context: Any) -> None:
        """Open the key selector if it has an open method."""
        opener = getattr(self.key_selector, "open", None)
        if callable(opener):
            opener(runtime_context)

    def close(self) -> None:
        """Close the key selector if it has a close method."""
        closer = getattr(self.key_selector, "close", None)
        if callable(closer):
            closer()

    def map(self, value: Record) -> Row:
        """Return key and element."""
        selector = self.key_selector
        get_key = getattr(selector, "get_key", selector)
        return Row(f0=get_key(value), f1=value)
