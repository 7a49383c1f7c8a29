"""User functions without time: map, filter, reduce, key selectors, partitioners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from penstock.common.user_types import Accumulator, Key, Record
from penstock.datastream._not_implemented import not_implemented
from penstock.datastream.runtime_context import RuntimeContext


class Function(ABC):  # noqa: B024 - its subclasses have the abstract methods
    """Base of all user functions: `open` before the first record, `close` after the last."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Initialize the function, for example its state."""

    def close(self) -> None:
        """Release resources."""


class MapFunction(Function):
    """Maps one element to one element.

    >>> class Double(MapFunction):
    ...     def map(self, value):
    ...         return 2 * value
    >>> Double().map(4)
    8
    """

    @abstractmethod
    def map(self, value: Record) -> Record:
        """Return the result for `value`."""


class CoMapFunction(Function):
    """Maps elements of two connected streams."""

    @abstractmethod
    def map1(self, value: Record) -> Record:
        """Map an element of the first stream; None is dropped."""

    @abstractmethod
    def map2(self, value: Record) -> Record:
        """Map an element of the second stream; None is dropped."""


class FlatMapFunction(Function):
    """Maps one element to any number of elements.

    >>> class Words(FlatMapFunction):
    ...     def flat_map(self, value):
    ...         yield from value.split()
    >>> list(Words().flat_map("to be"))
    ['to', 'be']
    """

    @abstractmethod
    def flat_map(self, value: Record) -> Iterable[Any] | None:
        """Yield elements, or return a list, or None for nothing."""


class CoFlatMapFunction(Function):
    """Flat-maps elements of two connected streams."""

    @abstractmethod
    def flat_map1(self, value: Record) -> Iterable[Any] | None:
        """Flat-map an element of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Record) -> Iterable[Any] | None:
        """Flat-map an element of the second stream."""


class FilterFunction(Function):
    """Keeps or drops elements.

    >>> class Even(FilterFunction):
    ...     def filter(self, value):
    ...         return value % 2 == 0
    >>> [value for value in range(5) if Even().filter(value)]
    [0, 2, 4]
    """

    @abstractmethod
    def filter(self, value: Record) -> bool:
        """Whether to keep `value`."""


class ReduceFunction(Function):
    """Combines two elements into one of the same type.

    >>> class Longer(ReduceFunction):
    ...     def reduce(self, value1, value2):
    ...         return max(value1, value2, key=len)
    >>> Longer().reduce("a", "bc")
    'bc'
    """

    @abstractmethod
    def reduce(self, value1: Record, value2: Record) -> Record:
        """Return the combination; `value1` is the result so far."""


class AggregateFunction(Function):
    """Aggregates elements into an accumulator of another type.

    >>> class Mean(AggregateFunction):
    ...     def create_accumulator(self):
    ...         return 0, 0
    ...
    ...     def add(self, value, accumulator):
    ...         return accumulator[0] + value, accumulator[1] + 1
    ...
    ...     def get_result(self, accumulator):
    ...         return accumulator[0] / accumulator[1]
    ...
    ...     def merge(self, acc_a, acc_b):
    ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
    >>> mean = Mean()
    >>> mean.get_result(mean.add(5, mean.add(4, mean.create_accumulator())))
    4.5
    """

    @abstractmethod
    def create_accumulator(self) -> Accumulator:
        """Return an empty accumulator."""

    @abstractmethod
    def add(self, value: Record, accumulator: Accumulator) -> Accumulator:
        """Return the accumulator with `value` added; it may be the same object."""

    @abstractmethod
    def get_result(self, accumulator: Accumulator) -> Record:
        """Return the result of an accumulator."""

    @abstractmethod
    def merge(self, acc_a: Accumulator, acc_b: Accumulator) -> Accumulator:
        """Merge two accumulators; required for merging windows."""


class KeySelector(Function):
    """Extracts the key of an element. It must be deterministic."""

    @abstractmethod
    def get_key(self, value: Record) -> Key:
        """Return the key."""


class NullByteKeySelector(KeySelector):
    """Returns the same key for every element."""

    def get_key(self, value: Record) -> int:
        """Return 0."""
        return 0


class Partitioner(Function):
    """Chooses the subtask of an element."""

    @abstractmethod
    def partition(self, key: Key, num_partitions: int) -> int:
        """Return a number from 0 to `num_partitions` - 1."""


class SourceFunction:
    """A source in PyFlink's old API: wraps a connector's Source for `add_source`."""

    get_java_function = not_implemented("there is no JVM object behind a Penstock source")

    def __init__(self, source_func: Any) -> None:
        self.source = source_func


class SinkFunction:
    """A sink in PyFlink's old API: wraps a connector's Sink, or a function of the element, for `add_sink`."""

    get_java_function = not_implemented("there is no JVM object behind a Penstock sink")

    def __init__(self, sink_func: Any) -> None:
        self.sink = sink_func
