"""PartitionWindowedStream: all elements of each subtask as one window, which fires when the input ends."""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import TypeInformation
from penstock.datastream import _typed
from penstock.datastream._adapter import FunctionAdapter
from penstock.datastream._aggregations import Position, check_position, read_field
from penstock.datastream._checks import check_function
from penstock.datastream.basic_functions import (
    AggregateFunction,
    Function,
    KeySelector,
    ReduceFunction,
)
from penstock.errors.argument_checks import check_instance, check_object
from penstock.graph.operator_specs import FullWindowPartitionSpec, OutputTimestamps

if TYPE_CHECKING:
    from penstock.datastream.stream import DataStream

Timed = tuple[Any, int | None]


class Order(enum.Enum):
    """How elements are sorted."""

    ASCENDING = 0
    DESCENDING = 1


class MapPartitionFunction(Function):
    """Processes all elements of a partition at once."""

    @abstractmethod
    def map_partition(self, values: Iterable[Any]) -> Iterable[Any] | None:
        """Yield elements, or return a list, or None for nothing."""


class PartitionWindowedStream:
    """The elements of each subtask as one window, which fires when the input ends.

    With an unbounded input it never fires. The elements, or the accumulator, are part of checkpoints.
    """

    def __init__(self, stream: DataStream) -> None:
        self._stream = stream

    def map_partition(
        self,
        func: MapPartitionFunction | Callable[[list[Any]], Iterable[Any] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Call a function with all elements; its results have no timestamps."""
        check_function(func, MapPartitionFunction, "map_partition", ("values",))
        kind = _typed.check_type(output_type)
        spec = FullWindowPartitionSpec(function=MapPartition(func))
        return self._stream.transform("MapPartition", spec, kind)

    def sort_partition(
        self,
        field: Position | Callable[[Any], Any] | KeySelector,
        order: Order = Order.ASCENDING,
    ) -> DataStream:
        """Sort the elements by an index, a field name or a key; the sort is stable, and timestamps are kept."""
        check_instance(order, Order, "order", hint="use Order.ASCENDING or Order.DESCENDING")
        if isinstance(field, int | str):
            check_position(field, "field")
        else:
            check_function(field, KeySelector, "get_key", ("value",))
        spec = FullWindowPartitionSpec(function=SortPartition(field, order))
        return self._stream.transform("SortPartition", spec, self._stream.declared_type)

    def reduce(self, reduce_function: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Combine all elements; emit one value for each non-empty partition."""
        check_function(reduce_function, ReduceFunction, "reduce", ("value1", "value2"))
        spec = FullWindowPartitionSpec(reduce_function=reduce_function)
        return self._stream.transform("PartitionReduce", spec, self._stream.declared_type)

    def aggregate(
        self, aggregate_function: AggregateFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Aggregate all elements into an accumulator; emit one result for each non-empty partition."""
        check_object(
            aggregate_function,
            AggregateFunction,
            ("create_accumulator", "add", "get_result", "merge"),
            hint="derive a class from AggregateFunction and pass an object of it; use reduce() for plain functions",
        )
        spec = FullWindowPartitionSpec(aggregate_function=aggregate_function)
        return self._stream.transform("PartitionAggregate", spec, _typed.check_type(output_type))


class MapPartition(FunctionAdapter):
    """Adapts a map partition function to the operator."""

    output_timestamps = OutputTimestamps.NONE

    def __call__(self, values: list[Any], timestamps: list[int | None]) -> Iterable[Timed]:
        """Return the results of the user function, without timestamps."""
        results = getattr(self.function, "map_partition", self.function)(values)
        return () if results is None else ((result, None) for result in results)


class SortPartition(FunctionAdapter):
    """Sorts the elements of a partition by a field or by the result of a key selector."""

    output_timestamps = OutputTimestamps.OF_INPUT

    def __init__(self, field: Any, order: Order) -> None:
        super().__init__(field)
        self.order = order

    def __call__(self, values: list[Any], timestamps: list[int | None]) -> Iterable[Timed]:
        """Return the elements in order, with their timestamps."""
        field = self.function
        if isinstance(field, int | str):
            keys = [read_field(value, field) for value in values]
        else:
            keys = list(map(getattr(field, "get_key", field), values))
        places = sorted(
            range(len(values)), key=keys.__getitem__, reverse=self.order is Order.DESCENDING
        )
        return ((values[at], timestamps[at]) for at in places)
