"""Window joins: all pairs of elements of two streams with the same key and window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product, starmap
from typing import Any

from penstock.common.typeinfo import TypeInformation
from penstock.datastream._checks import check_function
from penstock.datastream.co_group import Key, PairAdapter, Where, WindowedPair, _Pair, _Stage
from penstock.datastream.join_functions import FlatJoinFunction, JoinFunction
from penstock.datastream.stream import DataStream


class JoinedStreams(_Stage):
    """Two streams to be joined: continue with `where`."""

    _next = "where"

    def __init__(self, first: DataStream, second: DataStream) -> None:
        super().__init__(_Pair("join", first, second, JoinedWindow))

    def where(self, key_selector: Key, key_type: TypeInformation | None = None) -> Where:
        """Set the key of the first stream's elements."""
        return Where(self._pair, key_selector, key_type)


class JoinedWindow(WindowedPair):
    """A join with keys and windows."""

    def apply(
        self,
        function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Call a function with each pair; a plain function returns one element, like a JoinFunction."""
        check_function(function, JoinFunction, "join", ("first", "second"))
        adapter = FlatJoinAdapter if isinstance(function, FlatJoinFunction) else JoinAdapter
        return self._build("Join", adapter(function), output_type)


class JoinAdapter(PairAdapter):
    """Calls `join(first, second)` for each pair; it returns one element."""

    method = "join"

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        """Evaluate the window."""
        return starmap(self.call, product(*self.split(elements)))


class FlatJoinAdapter(PairAdapter):
    """Calls `join(first, second)` for each pair; it returns any number of elements."""

    method = "join"

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        """Evaluate the window."""
        for results in starmap(self.call, product(*self.split(elements))):
            if results is not None:
                yield from results
