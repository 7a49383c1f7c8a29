"""Operations on two streams: connected streams, and a stream with a broadcast stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import TypeInformation
from penstock.datastream._typed import check_type
from penstock.datastream.basic_functions import CoFlatMapFunction, CoMapFunction, KeySelector
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.process_functions import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from penstock.datastream.stream import DataStream
from penstock.errors import ArgumentError, ArgumentTypeError, InvalidProgramError
from penstock.errors.argument_checks import check_instance, check_object
from penstock.graph.operator_specs import (
    BroadcastProcessSpec,
    CoFlatMapSpec,
    CoMapSpec,
    CoProcessSpec,
    KeyedBroadcastProcessSpec,
    KeyedCoProcessSpec,
    OperatorSpec,
)
from penstock.graph.transformations import OperatorTransformation
from penstock.state_descriptors.descriptors import MapStateDescriptor

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

_Selector = Callable[[Any], Any] | KeySelector


class ConnectedStreams:
    """Two streams, of any types, that are processed by one function. Created by `DataStream.connect`.

    The watermark is the minimum of both. If both streams are keyed, equal keys of both are processed in the same subtask and
    share state and timers.

    >>> from penstock.datastream import CoMapFunction, StreamExecutionEnvironment
    >>> class Label(CoMapFunction):
    ...     def map1(self, value):
    ...         return f"number {value}"
    ...
    ...     def map2(self, value):
    ...         return f"word {value}"
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> numbers, words = env.from_collection([1, 2]), env.from_collection(["a"])
    >>> numbers.connect(words).map(Label()).get_name()
    'Co-Map'
    """

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        check_instance(stream1, DataStream, "stream1")
        check_instance(stream2, DataStream, "stream2")
        self.stream1 = stream1
        self.stream2 = stream2
        self._environment = _common_environment(stream1, stream2)

    @property
    def _keyed(self) -> bool:
        return isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream)

    def key_by(
        self,
        key_selector1: _Selector,
        key_selector2: _Selector,
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams:
        """Partition both streams by key; both selectors return keys of the same type."""
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type),
            self.stream2.key_by(key_selector2, key_type),
        )

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Call `map1` and `map2` for the elements; None is dropped."""
        _check_pair(func, CoMapFunction, ("map1", "map2"))
        return self._transform("Co-Map", CoMapSpec(func), output_type)

    def flat_map(
        self, func: CoFlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Call `flat_map1` and `flat_map2` for the elements and emit everything that they yield or return."""
        _check_pair(func, CoFlatMapFunction, ("flat_map1", "flat_map2"))
        return self._transform("Co-Flat Map", CoFlatMapSpec(func), output_type)

    def process(
        self,
        func: CoProcessFunction | KeyedCoProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Process the elements with a KeyedCoProcessFunction, or, without keys, a CoProcessFunction."""
        if isinstance(func, KeyedCoProcessFunction) and not self._keyed:
            raise ArgumentTypeError(
                "a KeyedCoProcessFunction needs two keyed streams",
                hint="write connected.key_by(selector1, selector2).process(...), or derive from CoProcessFunction",
            )
        _check_pair(
            func,
            KeyedCoProcessFunction if self._keyed else CoProcessFunction,
            ("process_element1", "process_element2"),
        )
        if self._keyed:
            return self._transform("Keyed Co-Process", KeyedCoProcessSpec(func), output_type)
        return self._transform("Co-Process", CoProcessSpec(func), output_type)

    def _transform(
        self, name: str, spec: OperatorSpec, output_type: TypeInformation | None
    ) -> DataStream:
        keys: tuple[Any, ...] = ()
        if isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream):
            keys = (self.stream1.key_selector, self.stream2.key_selector)
        streams = (self.stream1, self.stream2)
        return _two_inputs(self._environment, streams, name, spec, output_type, keys)


class BroadcastStream:
    """A stream that is sent to every subtask of an operator, with its state descriptors. Created by `DataStream.broadcast`."""

    def __init__(
        self, input_stream: DataStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]
    ) -> None:
        check_instance(input_stream, DataStream, "input_stream")
        descriptors = tuple(broadcast_state_descriptors)
        if not descriptors:
            raise ArgumentError(
                "a broadcast stream needs at least one state descriptor",
                hint='pass MapStateDescriptor("rules") to broadcast(...)',
            )
        for descriptor in descriptors:
            check_instance(
                descriptor,
                MapStateDescriptor,
                "a broadcast state descriptor",
                hint='broadcast state is a dictionary: use MapStateDescriptor("rules")',
            )
        names = [descriptor.name for descriptor in descriptors]
        if len(set(names)) < len(names):
            raise ArgumentError("two broadcast state descriptors have the same name")
        self.input_stream = input_stream
        self.broadcast_state_descriptors = descriptors


class BroadcastConnectedStream:
    """A stream, keyed or not, connected with a broadcast stream. Created by `DataStream.connect`."""

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        check_instance(non_broadcast_stream, DataStream, "non_broadcast_stream")
        check_instance(broadcast_stream, BroadcastStream, "broadcast_stream")
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = tuple(broadcast_state_descriptors)
        self._environment = _common_environment(non_broadcast_stream, broadcast_stream.input_stream)

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Process the elements of both streams; the broadcast side writes the broadcast state, the other side reads it."""
        stream = self.non_broadcast_stream
        keyed = isinstance(stream, KeyedStream)
        wanted: type = BroadcastProcessFunction
        other: type = KeyedBroadcastProcessFunction
        if keyed:
            wanted, other = other, wanted
        if isinstance(func, other):
            raise ArgumentTypeError(
                f"a {wanted.__name__} is required for a stream {'with' if keyed else 'without'} keys",
                detail=f"{type(func).__name__} is a {other.__name__}",
                hint=f"derive {type(func).__name__} from {wanted.__name__}"
                + ("" if keyed else ", or call key_by(...) before connect(...)"),
            )
        _check_pair(func, wanted, ("process_element", "process_broadcast_element"))
        states = self.broadcast_state_descriptors
        name = "Co-Process-Broadcast"
        keys: tuple[Any, ...] = ()
        spec: OperatorSpec = BroadcastProcessSpec(func, states)
        if isinstance(stream, KeyedStream):
            name, keys = "Co-Process-Broadcast-Keyed", (stream.key_selector, None)
            spec = KeyedBroadcastProcessSpec(func, states)
        inputs = (stream, self.broadcast_stream.input_stream)
        return _two_inputs(self._environment, inputs, name, spec, output_type, keys)


def _common_environment(first: DataStream, second: DataStream) -> StreamExecutionEnvironment:
    environment = first.get_execution_environment()
    if second.get_execution_environment() is not environment:
        raise InvalidProgramError("the connected streams belong to different environments")
    return environment


def _check_pair(func: object, kind: type, methods: tuple[str, str]) -> None:
    check_object(
        func, kind, methods, hint=f"derive a class from {kind.__name__} and pass an object of it"
    )


def _two_inputs(
    environment: StreamExecutionEnvironment,
    streams: tuple[DataStream, DataStream],
    name: str,
    spec: OperatorSpec,
    output_type: TypeInformation | None,
    key_selectors: tuple[Any, ...] = (),
) -> DataStream:
    operator = OperatorTransformation(
        name,
        inputs=tuple(stream.transformation for stream in streams),
        output_type=check_type(output_type),
        spec=spec,
        key_selectors=key_selectors,
    )
    environment.add_operator(operator)
    return DataStream(environment, operator)
