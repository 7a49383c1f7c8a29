"""Functions of joined streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from penstock.common.user_types import Record
from penstock.datastream.basic_functions import Function


class JoinFunction(Function):
    """Combines a pair of elements into one.

    >>> class Pair(JoinFunction):
    ...     def join(self, first, second):
    ...         return first, second
    >>> Pair().join(1, "a")
    (1, 'a')
    """

    @abstractmethod
    def join(self, first: Record, second: Record) -> Record:
        """Return the result for a pair."""


class FlatJoinFunction(Function):
    """Combines a pair of elements into any number of elements."""

    @abstractmethod
    def join(self, first: Record, second: Record) -> Iterable[Any] | None:
        """Yield elements, or return a list, or None for nothing."""


class CoGroupFunction(Function):
    """Processes all elements of a key and window of both streams; one of the lists may be empty.

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
    """Processes the pairs of an interval join.

    `process_element` may be a generator, return a list or return None. `yield tag, value` with an OutputTag goes to a
    side output.
    """

    class Context(ABC):
        """The context of `process_element`."""

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
