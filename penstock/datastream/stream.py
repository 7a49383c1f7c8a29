"""DataStream: a stream of elements, and its operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, overload

from penstock.common.typeinfo import PickledBytesTypeInfo, TupleTypeInfo, TypeInformation, Types
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.collect_buffer import CloseableIterator
from penstock.connectors.base.sink import Sink
from penstock.datastream import _typed
from penstock.datastream._aggregations import TupleProjection
from penstock.datastream._checks import check_function
from penstock.datastream._collect import collect
from penstock.datastream._settings import OperatorSettings
from penstock.datastream.basic_functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    SinkFunction,
)
from penstock.datastream.data_stream_sink import DataStreamSink
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.process_functions import KeyedProcessFunction, ProcessFunction
from penstock.errors import (
    ArgumentError,
    ArgumentTypeError,
    InvalidProgramError,
)
from penstock.errors.argument_checks import check_instance, check_int, check_object, check_text
from penstock.graph.operator_specs import (
    FilterSpec,
    FlatMapSpec,
    MapSpec,
    OperatorSpec,
    ProcessSpec,
    TimestampsAndWatermarksSpec,
)
from penstock.graph.partitioning import (
    Broadcast,
    Custom,
    Forward,
    Global,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.graph.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)

if TYPE_CHECKING:
    from penstock.common.execution_config import ExecutionConfig
    from penstock.datastream.cached_stream import CachedDataStream
    from penstock.datastream.co_group import CoGroupedStreams
    from penstock.datastream.connected_streams import (
        BroadcastConnectedStream,
        BroadcastStream,
        ConnectedStreams,
    )
    from penstock.datastream.joined_streams import JoinedStreams
    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.datastream.partition_windowed_stream import PartitionWindowedStream
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.datastream.window import WindowAssigner
    from penstock.datastream.windowed_stream import AllWindowedStream

_KEYED_ONLY = {
    "window", "count_window", "reduce", "sum", "min", "max", "min_by", "max_by", "interval_join",
}  # fmt: skip


class NotKeyedError(InvalidProgramError, AttributeError):
    """An operation of keyed streams was called on a non-keyed stream."""


class DataStream(OperatorSettings):
    """A stream of elements. Each method adds a transformation to the program and returns the resulting stream.

    Nothing runs before `execute` or `execute_and_collect`.

    >>> from penstock.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> numbers = env.from_collection([1, 2, 3], Types.INT())
    >>> doubled = numbers.map(lambda number: 2 * number, Types.INT()).name("double")
    >>> doubled.get_name(), doubled.get_type() == Types.INT()
    ('double', True)
    """

    def __init__(
        self, environment: StreamExecutionEnvironment, transformation: Transformation
    ) -> None:
        super().__init__(environment, transformation)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _KEYED_ONLY:
                raise NotKeyedError(
                    f"{name}() needs a keyed stream",
                    hint=f"write stream.key_by(...).{name}(...)"
                    + (", or window_all(...) for all elements" if "window" in name else ""),
                )
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    # Properties of the stream

    def get_type(self) -> TypeInformation:
        """Return the type of the elements; pickled objects if none is declared."""
        declared = self._transformation.output_type
        return Types.PICKLED_BYTE_ARRAY() if declared is None else declared

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that this stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """Return the settings of the environment."""
        return self._environment.get_config()

    # One element at a time

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Call a function for each element and emit its result."""
        check_function(func, MapFunction, "map", ("value",))
        kind = _typed.check_type(output_type)
        return self.transform("Map", MapSpec(func), kind)

    def flat_map(
        self,
        func: Callable[[Any], Any] | FlatMapFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Call a function for each element and emit all elements that it yields or returns."""
        check_function(func, FlatMapFunction, "flat_map", ("value",))
        kind = _typed.check_type(output_type)
        return self.transform("FlatMap", FlatMapSpec(func), kind)

    def filter(self, func: Callable[[Any], Any] | FilterFunction) -> DataStream:
        """Keep the elements for which a function returns true."""
        check_function(func, FilterFunction, "filter", ("value",))
        return self.transform("Filter", FilterSpec(func), self.declared_type)

    def project(self, *field_indexes: int) -> DataStream:
        """Select fields of tuples, in the given order."""
        if not field_indexes:
            raise ArgumentError("project() needs at least one field index")
        for index in field_indexes:
            check_int(index, "a field index", minimum=0)
        kind = self.declared_type
        if _declared(kind) and not isinstance(kind, TupleTypeInfo):
            raise InvalidProgramError(
                "only streams of tuples can be projected",
                detail=f"the elements are of type {kind}",
                hint="use map() to select fields",
            )
        output_type = None
        if isinstance(kind, TupleTypeInfo):
            fields = kind.get_field_types()
            if max(field_indexes) >= len(fields):
                raise ArgumentError(
                    f"field index {max(field_indexes)} is out of range for a tuple of {len(fields)} fields"
                )
            output_type = Types.TUPLE([fields[index] for index in field_indexes])
        return self.transform("Projection", MapSpec(TupleProjection(field_indexes)), output_type)

    def process(
        self, func: ProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Process each element with a ProcessFunction: timestamps, side outputs, any number of results."""
        given: Any = func
        if isinstance(given, KeyedProcessFunction):
            raise ArgumentTypeError(
                "a KeyedProcessFunction needs a keyed stream",
                hint="call key_by(...) before process(...), or derive from ProcessFunction",
            )
        check_object(
            func,
            ProcessFunction,
            ("process_element",),
            hint="derive a class from ProcessFunction and pass an object of it; use map() or flat_map() "
            "for plain functions",
        )
        kind = _typed.check_type(output_type)
        return self.transform("PROCESS", ProcessSpec(func), kind)

    # Keys, time, unions, side outputs

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Partition the stream by key: elements with equal keys are processed in the same subtask."""
        from penstock.datastream.keyed_stream import KeyedStream

        check_key_selector(key_selector)
        return KeyedStream(self, key_selector, _typed.check_type(key_type, "key_type"))

    def union(self, *streams: DataStream) -> DataStream:
        """Merge streams of the same type."""
        if not streams:
            return self
        inputs = [self._transformation]
        kind = self.declared_type
        for stream in streams:
            check_instance(stream, DataStream, "a stream of a union")
            if stream.get_execution_environment() is not self._environment:
                raise InvalidProgramError("the streams of a union belong to different environments")
            other = stream.declared_type
            if _declared(kind) and _declared(other) and kind != other:
                raise InvalidProgramError(
                    "streams of different types cannot be merged by union()",
                    detail=f"{kind} and {other}",
                    hint="map() them to one type first",
                )
            kind = kind if _declared(kind) else other
            inputs.append(stream.transformation)
        return DataStream(
            self._environment,
            UnionTransformation("Union", inputs=tuple(inputs), output_type=kind),
        )

    def join(self, other_stream: DataStream) -> JoinedStreams:
        """Join with another stream by key and window: each pair of elements with equal keys.

        Continue with `.where(key).equal_to(key).window(assigner).apply(function)`.
        """
        from penstock.datastream.joined_streams import JoinedStreams

        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams:
        """Group with another stream by key and window: all elements of both with equal keys at once.

        Continue with `.where(key).equal_to(key).window(assigner).apply(function)`.
        """
        from penstock.datastream.co_group import CoGroupedStreams

        return CoGroupedStreams(self, other_stream)

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(
        self, ds: DataStream | BroadcastStream
    ) -> ConnectedStreams | BroadcastConnectedStream:
        """Connect another stream, or a broadcast stream, with this one, to process both with one function."""
        from penstock.datastream.connected_streams import (
            BroadcastConnectedStream,
            BroadcastStream,
            ConnectedStreams,
        )

        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        check_instance(ds, DataStream, "ds", hint="pass a stream, or stream.broadcast(descriptor)")
        return ConnectedStreams(self, ds)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Assign timestamps to elements, and emit watermarks."""
        check_instance(
            watermark_strategy,
            WatermarkStrategy,
            "watermark_strategy",
            hint="start with WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))",
        )
        return self.transform(
            "Timestamps/Watermarks",
            TimestampsAndWatermarksSpec(watermark_strategy),
            self.declared_type,
        )

    def on_error(self, output_tag: OutputTag) -> Self:
        """Send records for which the operator's function raises to a side output, as a DeadLetter, and continue.

        Available for map, flat_map, filter and process. Results that the function returned for such a record before it raised
        are not emitted; its changes of state are kept. Errors in timers, `open` and `close`, and results that do not match
        the declared type, still fail the job. On the stream of a source, it applies to malformed input of the source.

        >>> from penstock.datastream import OutputTag, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> dead = OutputTag("dead letters")
        >>> numbers = env.from_collection(["1", "x"]).map(int).on_error(dead)
        >>> broken = numbers.get_side_output(dead)
        """
        check_instance(
            output_tag, OutputTag, "output_tag", hint='create one with OutputTag("dead letters")'
        )
        if _declared(output_tag.type_info):
            raise ArgumentError(
                f"the tag '{output_tag.tag_id}' of dead letters declares another type",
                detail=f"it declares {output_tag.type_info}, but its elements are DeadLetters",
                hint=f'write OutputTag("{output_tag.tag_id}")',
            )
        operator = self._physical("on_error()")
        spec = operator.spec.with_error_tag(output_tag.tag_id)
        if spec is None:
            raise InvalidProgramError(
                f"on_error() is not available for '{operator.name}'",
                hint="call it on the result of from_source(), map(), flat_map(), filter() or process()",
            )
        operator.spec = spec
        return self

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Return the side output of the operator with this tag."""
        check_instance(
            output_tag,
            OutputTag,
            "output_tag",
            hint='create one with OutputTag("late", Types.STRING())',
        )
        operator = self._physical("a side output")
        self._environment.register_side_output(operator, output_tag)
        return DataStream(
            self._environment,
            SideOutputTransformation(
                f"Side output {output_tag.tag_id}",
                inputs=(operator,),
                output_type=output_tag.type_info,
                tag_id=output_tag.tag_id,
            ),
        )

    # Non-keyed windows

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """Assign all elements to windows; the operator runs in one subtask."""
        from penstock.datastream.windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream:
        """Assign all elements to windows of `size` elements, one for every `slide` elements."""
        from penstock.datastream.windowed_stream import AllWindowedStream, count_assigner

        return AllWindowedStream(self, count_assigner(size, slide))

    def full_window_partition(self) -> PartitionWindowedStream:
        """Treat all elements of each subtask as one window, which fires when the input ends."""
        from penstock.datastream.partition_windowed_stream import PartitionWindowedStream

        return PartitionWindowedStream(self)

    # Partitioning for the next operator

    def shuffle(self) -> DataStream:
        """Send each element to a random subtask of the next operator."""
        return self._partition("Shuffle", Shuffle())

    def rebalance(self) -> DataStream:
        """Send elements round robin to all subtasks of the next operator."""
        return self._partition("Rebalance", Rebalance())

    def rescale(self) -> DataStream:
        """Send elements round robin to a subset of the subtasks of the next operator, without an all-to-all exchange."""
        return self._partition("Rescale", Rescale())

    def forward(self) -> DataStream:
        """Send elements to the subtask with the same index; both sides have the same parallelism."""
        return self._partition("Forward", Forward())

    def global_(self) -> DataStream:
        """Send all elements to the first subtask of the next operator."""
        return self._partition("Global", Global())

    def broadcast(
        self, broadcast_state_descriptor: Any = None, *other_broadcast_state_descriptors: Any
    ) -> Any:
        """Send each element to every subtask of the next operator.

        With state descriptors this is a BroadcastStream: `other.connect(stream.broadcast(rules)).process(...)`.
        """
        from penstock.datastream.connected_streams import BroadcastStream

        stream = self._partition("Broadcast", Broadcast())
        if broadcast_state_descriptor is None and not other_broadcast_state_descriptors:
            return stream
        return BroadcastStream(
            stream, (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        )

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> DataStream:
        """Choose the subtask with a function: `partitioner(key, number of subtasks)` returns its index."""
        check_function(partitioner, Partitioner, "partition", ("key", "num_partitions"))
        check_key_selector(key_selector)
        return self._partition("Custom", Custom(partitioner, key_selector))

    # Sinks

    def add_sink(self, sink_func: SinkFunction | Sink | Callable[[Any], Any]) -> DataStreamSink:
        """Write the stream to a sink, with PyFlink's old API; a plain function is called for each element."""
        from penstock.datastream.connectors.base import FunctionSink

        sink: Any = sink_func.sink if isinstance(sink_func, SinkFunction) else sink_func
        if not isinstance(sink, Sink | type) and callable(getattr(sink, "invoke", sink)):
            sink = FunctionSink(sink)
        return _add_sink(self, "Unnamed", sink)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the stream to a sink."""
        transformer = getattr(sink, "get_transformer", lambda: None)()
        stream = self if transformer is None else transformer.apply(self)
        return _add_sink(stream, "Writer", sink)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print each element to standard output, in Flink's format."""
        from penstock.datastream.connectors.print import PrintSink

        if sink_identifier is not None:
            check_text(sink_identifier, "sink_identifier")
        sink = PrintSink(sink_identifier, type_info=self.declared_type)
        return _add_sink(self, "Print to Std. Out", sink)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Run the program and return the elements of this stream.

        Without a limit this is an iterator, for use in a `with` statement: closing it cancels the job. With a limit it is
        a list of at most this many elements.
        """
        return collect(self, job_execution_name, limit)

    def cache(self) -> CachedDataStream:
        """Cache the elements of this stream: the first job that uses it stores them, later jobs read them."""
        from penstock.datastream.cached_stream import CachedDataStream

        return CachedDataStream(self._environment, self._transformation)

    # Adding transformations

    @property
    def declared_type(self) -> Any:
        """The declared type of the elements, or None."""
        return self._transformation.output_type

    def transform(
        self,
        name: str,
        spec: OperatorSpec,
        output_type: TypeInformation | None,
        *,
        key_selectors: tuple[Any, ...] = (),
        description: str | None = None,
        non_parallel: bool = False,
    ) -> DataStream:
        """Add an operator of any kind: used by all other methods, and by other packages.

        `key_selectors` are those of the stream unless others are given; a `non_parallel` operator runs in one subtask.
        """
        operator = OperatorTransformation(
            name,
            inputs=(self._transformation,),
            output_type=output_type,
            spec=spec,
            key_selectors=key_selectors or self._key_selectors(),
            description=description,
            parallelism=1 if non_parallel else None,
            parallelism_fixed=non_parallel,
        )
        self._environment.add_operator(operator)
        return DataStream(self._environment, operator)

    def _key_selectors(self) -> tuple[Any, ...]:
        return ()

    def _partition(self, name: str, partitioning: Partitioning) -> DataStream:
        return DataStream(
            self._environment,
            PartitionTransformation(
                name,
                inputs=(self._transformation,),
                output_type=self._transformation.output_type,
                partitioning=partitioning,
            ),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transformation.name!r})"


def _add_sink(stream: DataStream, name: str, sink: Any) -> DataStreamSink:
    check_instance(sink, Sink, "a sink", hint="build one, such as FileSink or KafkaSink")
    environment = stream.get_execution_environment()
    declared = stream.declared_type if _declared(stream.declared_type) else None
    return DataStreamSink.create(environment, name, sink.for_type(declared), stream.transformation)


def _declared(kind: object) -> bool:
    return kind is not None and not isinstance(kind, PickledBytesTypeInfo)


def check_key_selector(key_selector: object) -> None:
    """Reject a value that is not a key selector."""
    if isinstance(key_selector, str | int) and not isinstance(key_selector, bool):
        raise ArgumentTypeError(
            f"a KeySelector or a callable is required, got {key_selector!r}",
            hint=f"write key_by(lambda value: value[{key_selector!r}])",
        )
    check_function(key_selector, KeySelector, "get_key", ("value",))
