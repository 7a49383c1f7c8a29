"""Functions over two joined streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from penstock.datastream.basic_functions import Function


class JoinFunction(Function):
    """Combines two elements that belong together to one.

    >>> class Pair(JoinFunction):
    ...     def join(self, first, second):
    ...         return first, second
    >>> Pair().join(1, "a")
    (1, 'a')
    """

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Return what becomes of the two."""


class FlatJoinFunction(Function):
    """Combines two elements that belong together to any number of elements."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Yield elements, or return a list, or None for nothing."""


class CoGroupFunction(Function):
    """Takes all elements of a key and window of both streams at once; one of the two may be empty.

    >>> class LeftOuter(CoGroupFunction):
    ...     def co_group(self, first, second):
    ...         for left in first:
    ...             for right in second or [None]:
    ...                 yield left, right
    >>> list(LeftOuter().co_group([1, 2], []))
    [(1, None), (2, None)]
    """

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """Yield elements, or return a list, or None for nothing."""


class ProcessJoinFunction(Function):
    """Takes the pairs of an interval join.

    `process_element` may be a generator, return a list or return None. `yield tag, value` with an OutputTag goes to a
    side output.
    """

    class Context(ABC):
        """Given to `process_element`."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Return the timestamp of the left element."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Return the timestamp of the right element."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the timestamp of the results: the greater of both."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: Context) -> Iterable[Any] | None:
        """Process one pair."""
