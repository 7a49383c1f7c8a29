"""KeyedStream: a stream partitioned by key, with state per key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Self

from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.collect_buffer import CloseableIterator
from penstock.datastream import _typed
from penstock.datastream._aggregations import (
    FieldReduce,
    KeyAndValue,
    MaxByReduce,
    MaxReduce,
    MinByReduce,
    MinReduce,
    Position,
    SumReduce,
    check_position,
)
from penstock.datastream._checks import check_function
from penstock.datastream._collect import collect
from penstock.datastream.basic_functions import KeySelector, ReduceFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.process_functions import KeyedProcessFunction, ProcessFunction
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.datastream.stream import DataStream
from penstock.errors import ArgumentTypeError, InvalidProgramError, UnsupportedOperationError
from penstock.errors.argument_checks import check_object
from penstock.graph.operator_specs import KeyedProcessSpec, KeyedReduceSpec, MapSpec
from penstock.graph.partitioning import Hash
from penstock.graph.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    Transformation,
)

if TYPE_CHECKING:
    from penstock.datastream.interval_join import IntervalJoin
    from penstock.datastream.window import WindowAssigner
    from penstock.datastream.windowed_stream import WindowedStream


class KeyedStream(DataStream):
    """A stream whose elements are partitioned by key. Functions on it may keep state per key.

    >>> from penstock.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> words = env.from_collection([("a", 1), ("b", 1), ("a", 1)])
    >>> counts = words.key_by(lambda word: word[0]).sum(1)
    >>> counts.get_name()
    'Sum'
    """

    def __init__(
        self,
        origin_stream: DataStream,
        key_selector: Callable[[Any], Any] | KeySelector,
        key_type: TypeInformation | None = None,
    ) -> None:
        source = origin_stream.transformation
        super().__init__(
            origin_stream.get_execution_environment(),
            PartitionTransformation(
                "Hash",
                inputs=(source,),
                output_type=source.output_type,
                partitioning=Hash(key_selector),
            ),
        )
        self._origin_stream = origin_stream
        self._key_selector = key_selector
        self._key_type = key_type

    def get_type(self) -> TypeInformation:
        """Return the type of a row of key and element."""
        key = Types.PICKLED_BYTE_ARRAY() if self._key_type is None else self._key_type
        return Types.ROW_NAMED(["f0", "f1"], [key, super().get_type()])

    @property
    def origin_stream(self) -> DataStream:
        """The stream before key_by()."""
        return self._origin_stream

    @property
    def key_selector(self) -> Callable[[Any], Any] | KeySelector:
        """The function that extracts the key of an element."""
        return self._key_selector

    @property
    def key_type(self) -> TypeInformation | None:
        """The declared type of the keys, or None."""
        return self._key_type

    def _key_selectors(self) -> tuple[Any, ...]:
        return (self._key_selector,)

    # Operations per key

    def process(  # type: ignore[override]
        self, func: KeyedProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Process each element with a KeyedProcessFunction: keyed state, timers, side outputs."""
        given: Any = func
        if isinstance(given, ProcessFunction):
            raise ArgumentTypeError(
                "a KeyedProcessFunction is required for a keyed stream",
                detail=f"{type(given).__name__} is a ProcessFunction",
                hint=f"derive {type(given).__name__} from KeyedProcessFunction",
            )
        check_object(
            func,
            KeyedProcessFunction,
            ("process_element",),
            hint="derive a class from KeyedProcessFunction and pass an object of it",
        )
        kind = _typed.check_type(output_type)
        return self.transform("KEYED PROCESS", KeyedProcessSpec(func), kind)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Combine the elements of each key, two by two.

        STREAMING emits every intermediate value, BATCH the last one of each key.
        """
        check_function(func, ReduceFunction, "reduce", ("value1", "value2"))
        return self.transform("Reduce", KeyedReduceSpec(func), self.declared_type)

    def sum(self, position_to_sum: Position = 0) -> DataStream:
        """Sum a field per key; the other fields are the first element's."""
        return self._aggregate("Sum", SumReduce, position_to_sum, "position_to_sum")

    def min(self, position_to_min: Position = 0) -> DataStream:
        """Keep the minimum of a field per key; the other fields are the first element's."""
        return self._aggregate("Min", MinReduce, position_to_min, "position_to_min")

    def max(self, position_to_max: Position = 0) -> DataStream:
        """Keep the maximum of a field per key; the other fields are the first element's."""
        return self._aggregate("Max", MaxReduce, position_to_max, "position_to_max")

    def min_by(self, position_to_min_by: Position = 0) -> DataStream:
        """Keep the element with the minimum of a field per key; the first one among equals."""
        return self._aggregate("MinBy", MinByReduce, position_to_min_by, "position_to_min_by")

    def max_by(self, position_to_max_by: Position = 0) -> DataStream:
        """Keep the element with the maximum of a field per key; the first one among equals."""
        return self._aggregate("MaxBy", MaxByReduce, position_to_max_by, "position_to_max_by")

    def _aggregate(
        self, name: str, function: type[FieldReduce], position: Position, what: str
    ) -> DataStream:
        reduce = function(check_position(position, what))
        return self.transform(name, KeyedReduceSpec(reduce), self.declared_type)

    # Windows

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Assign the elements of each key to windows."""
        from penstock.datastream.windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Assign the elements of each key to windows of `size` elements, one for every `slide` elements."""
        from penstock.datastream.windowed_stream import WindowedStream, count_assigner

        return WindowedStream(self, count_assigner(size, slide))

    # Joins

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin:
        """Join with another keyed stream: elements with equal keys whose timestamps are within an interval.

        Continue with `.between(lower, upper).process(function)`.
        """
        from penstock.datastream.interval_join import IntervalJoin

        return IntervalJoin(self, other_stream)

    # Operations on the elements, without their keys

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Partition the elements by another key."""
        return self._origin_stream.key_by(key_selector, key_type)

    def project(self, *field_indexes: int) -> DataStream:
        """Keep some fields of tuples, in the given order."""
        return self._values().project(*field_indexes)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Assign timestamps to elements, and emit watermarks."""
        return self._values().assign_timestamps_and_watermarks(watermark_strategy)

    def _values(self) -> DataStream:
        return DataStream(self._environment, self._transformation)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run the program and return Row(f0=key, f1=element) for each element of this stream."""
        # Before the exchange, in as many subtasks as the upstream operator, which keeps the elements in order.
        rows = self._origin_stream.transform(
            "Keyed rows", MapSpec(KeyAndValue(self._key_selector)), self.get_type()
        )
        parallelism = _parallelism_of(self._origin_stream.transformation)
        if parallelism is not None:
            rows.set_parallelism(parallelism)
        return collect(rows, job_execution_name, limit)

    # Operations that a keyed stream does not support

    def _no_partitioning(self, what: str) -> NoReturn:
        raise InvalidProgramError(
            f"{what}() cannot override the partitioning of a keyed stream",
            hint=f"call {what}() before key_by()",
        )

    def full_window_partition(self) -> NoReturn:
        """Raise: the partitions are the subtasks, which have many keys each."""
        raise UnsupportedOperationError(
            "full_window_partition() is not supported for a keyed stream",
            hint="call it before key_by(), or use window(GlobalWindows.create()) with a trigger",
        )

    def _no_setting(self, what: str) -> NoReturn:
        raise InvalidProgramError(
            f"{what} is not supported for a keyed stream",
            hint="set it on the operator before or after key_by()",
        )

    def shuffle(self) -> DataStream:
        """Raise: a keyed stream is partitioned by key."""
        self._no_partitioning("shuffle")

    def rebalance(self) -> DataStream:
        """Raise: a keyed stream is partitioned by key."""
        self._no_partitioning("rebalance")

    def rescale(self) -> DataStream:
        """Raise: a keyed stream is partitioned by key."""
        self._no_partitioning("rescale")

    def forward(self) -> DataStream:
        """Raise: a keyed stream is partitioned by key."""
        self._no_partitioning("forward")

    def global_(self) -> DataStream:
        """Raise: a keyed stream is partitioned by key."""
        self._no_partitioning("global_")

    def broadcast(self, *args: Any) -> DataStream:
        """Raise: a keyed stream is partitioned by key."""
        self._no_partitioning("broadcast")

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream:
        """Raise: a keyed stream is partitioned by key."""
        self._no_partitioning("partition_custom")

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Raise: key_by() emits nothing itself."""
        self._no_setting("a side output")

    def get_name(self) -> str:
        """Raise: key_by() is not an operator."""
        self._no_setting("a name")

    def name(self, name: str) -> Self:
        """Raise: key_by() is not an operator."""
        self._no_setting("a name")

    def uid(self, uid: str) -> Self:
        """Raise: key_by() is not an operator."""
        self._no_setting("a uid")

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Raise: key_by() is not an operator."""
        self._no_setting("a uid hash")

    def set_parallelism(self, parallelism: int) -> Self:
        """Raise: key_by() is not an operator."""
        self._no_setting("a parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Raise: key_by() is not an operator."""
        self._no_setting("a max parallelism")

    def force_non_parallel(self) -> Self:
        """Raise: key_by() is not an operator."""
        self._no_setting("a parallelism")

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Raise: key_by() is not an operator."""
        self._no_setting("a buffer timeout")

    def set_description(self, description: str) -> Self:
        """Raise: key_by() is not an operator."""
        self._no_setting("a description")

    def start_new_chain(self) -> Self:
        """Raise: key_by() is not an operator."""
        self._no_setting("chaining")

    def disable_chaining(self) -> Self:
        """Raise: key_by() is not an operator."""
        self._no_setting("chaining")

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Raise: key_by() is not an operator."""
        self._no_setting("a slot sharing group")


def _parallelism_of(step: Transformation) -> int | None:
    """Return the parallelism of a stream's operator; None if it is the environment's."""
    while not isinstance(step, OperatorTransformation):
        step = step.inputs[0]
    return step.parallelism
