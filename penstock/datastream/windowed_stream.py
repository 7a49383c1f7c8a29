"""WindowedStream and AllWindowedStream: elements in windows, which can be reduced, aggregated or processed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from penstock.common.typeinfo import TypeInformation, Types
from penstock.datastream import _typed
from penstock.datastream._checks import check_function
from penstock.datastream._window_settings import WindowSettings
from penstock.datastream.basic_functions import AggregateFunction, ReduceFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.stream import DataStream
from penstock.datastream.window import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    WindowAssigner,
)
from penstock.datastream.window_functions import (
    AllWindowFunction,
    ApplyAdapter,
    ApplyAllAdapter,
    ProcessAdapter,
    ProcessAllAdapter,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
    WindowFunctionAdapter,
)
from penstock.errors import ArgumentTypeError
from penstock.errors.argument_checks import check_instance, check_int, check_object, named
from penstock.graph.operator_specs import WindowSpec

if TYPE_CHECKING:
    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

_AGGREGATE_METHODS = ("create_accumulator", "add", "get_result", "merge")


def count_assigner(size: int, slide: int) -> WindowAssigner[Any, Any]:
    """Return the assigner of windows of `size` elements; tumbling if `slide` is 0."""
    check_int(slide, "slide", minimum=0)
    if slide == 0:
        return CountTumblingWindowAssigner(size)
    return CountSlidingWindowAssigner(size, slide)


class _Windowed(WindowSettings):
    """Common base of both kinds of windowed streams."""

    keyed: bool
    # (class, adapter) pairs of apply() and process()
    apply_kind: tuple[type, type[WindowFunctionAdapter]]
    process_kind: tuple[type, type[WindowFunctionAdapter]]

    def __init__(self, stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(window_assigner, stream)
        self._stream = stream
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that the stream belongs to."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Return the type of the elements."""
        declared = self._stream.declared_type
        return Types.PICKLED_BYTE_ARRAY() if declared is None else declared

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send elements that are too late for all their windows to a side output of the result."""
        check_instance(
            output_tag,
            OutputTag,
            "output_tag",
            hint='create one with OutputTag("late", Types.STRING())',
        )
        self._late_tag = output_tag
        return self

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: Any = None,
        output_type: TypeInformation | None = None,
        local_global: bool = False,
    ) -> DataStream:
        """Combine the elements of each window incrementally.

        `window_function` gets the combined value when the window fires. `local_global` is as in `aggregate`.
        """
        check_function(reduce_function, ReduceFunction, "reduce", ("value1", "value2"))
        kind = _typed.check_type(output_type)
        if kind is None and window_function is None:
            kind = self._stream.declared_type
        return self._build(
            kind,
            reduce_function=reduce_function,
            window_function=self._adapt_any(window_function),
            description=type(reduce_function).__name__,
            local_global=local_global,
        )

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: Any = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
        local_global: bool = False,
    ) -> DataStream:
        """Aggregate the elements of each window incrementally into an accumulator.

        `window_function` gets the result when the window fires.

        With `local_global` every sender first aggregates the elements of a key and window locally, and only accumulators are
        sent over the exchange, where `merge` combines them: few keys with many elements each, or one hot key, then load
        neither the network nor a single subtask. The results are the same if the function does not depend on the order of
        elements (sums of floats may differ in the last digits). Late elements are dropped as without it. It is available for
        tumbling and sliding event-time windows of keyed streams, without a trigger, an evictor, an allowed lateness or a side
        output for late elements.
        """
        check_object(
            aggregate_function,
            AggregateFunction,
            _AGGREGATE_METHODS,
            hint="derive a class from AggregateFunction and pass an object of it; use reduce() for plain functions",
        )
        _typed.check_type(accumulator_type, "accumulator_type")
        kind = _typed.check_type(output_type)
        return self._build(
            kind,
            aggregate_function=aggregate_function,
            window_function=self._adapt_any(window_function),
            description=type(aggregate_function).__name__,
            local_global=local_global,
        )

    def apply(self, window_function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Evaluate each window with all its elements."""
        return self._evaluate(window_function, output_type, self.apply_kind, "apply")

    def process(
        self, process_window_function: Any, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Evaluate each window with all its elements and a context."""
        return self._evaluate(process_window_function, output_type, self.process_kind, "process")

    def _evaluate(
        self,
        function: Any,
        output_type: TypeInformation | None,
        kind_and_adapter: tuple[type, type[WindowFunctionAdapter]],
        method: str,
    ) -> DataStream:
        kind, adapter = kind_and_adapter
        self._check_other_kind(function, kind)
        check_object(
            function,
            kind,
            (method,),
            hint=f"derive a class from {kind.__name__} and pass an object of it",
        )
        type_info = _typed.check_type(output_type)
        return self._build(
            type_info,
            window_function=adapter(function),
            description=type(function).__name__,
        )

    def _check_other_kind(self, function: object, wanted: type) -> None:
        """Reject the function class of the other kind of windowed stream, or of the other method."""
        kinds = (WindowFunction, AllWindowFunction, ProcessWindowFunction, ProcessAllWindowFunction)
        for kind in kinds:
            if isinstance(function, kind) and not isinstance(function, wanted):
                raise ArgumentTypeError(
                    f"{named(wanted)} is required, got {named(kind)}",
                    hint="use WindowFunction with apply(), ProcessWindowFunction with process(), and the "
                    "'All' classes with window_all()",
                )

    def _adapt_any(self, function: Any) -> Any:
        """Return the optional window function of reduce() and aggregate(), adapted to the operator."""
        if function is None:
            return None
        for kind, adapter in (self.process_kind, self.apply_kind):
            if isinstance(function, kind):
                return adapter(function)
        names = f"{named(self.apply_kind[0])} or {named(self.process_kind[0])}"
        hint = f"derive a class from one of them and pass an object of it: {names}"
        if isinstance(function, type):
            hint = f"create an object of it: {function.__name__}()"
        raise ArgumentTypeError(
            f"window_function must be {names}, got {getattr(function, '__name__', type(function).__name__)}",
            hint=hint,
        )

    def _build(
        self,
        output_type: TypeInformation | None,
        *,
        window_function: Any = None,
        reduce_function: Any = None,
        aggregate_function: Any = None,
        description: str = "",
        local_global: bool = False,
    ) -> DataStream:
        assigner = self._assigner
        trigger = self._trigger
        if trigger is None:
            trigger = assigner.get_default_trigger(self.get_execution_environment())
        spec = WindowSpec(
            assigner=assigner,
            trigger=trigger,
            window_function=window_function,
            reduce_function=reduce_function,
            aggregate_function=aggregate_function,
            allowed_lateness=self._lateness(),
            late_tag=None if self._late_tag is None else self._late_tag.tag_id,
            keyed=self.keyed,
            evictor=self._evictor,
        )
        name = type(assigner).__name__
        stream = self._stream
        text = f"Window({assigner}, {type(trigger).__name__}, {description})"
        if local_global:
            from penstock.datastream._two_stages import two_stages

            return two_stages(stream, spec, output_type, text)
        if not self.keyed:  # window_all() ignores the keys of a keyed stream
            stream = DataStream(self.get_execution_environment(), stream.transformation)
        return stream.transform(
            name,
            spec,
            output_type,
            description=text,
            non_parallel=not self.keyed,
        )


class WindowedStream(_Windowed):
    """The elements of each key in windows.

    >>> from penstock.common import Time, Types, WatermarkStrategy
    >>> from penstock.datastream import StreamExecutionEnvironment
    >>> from penstock.datastream.window import TumblingEventTimeWindows
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> events = env.from_collection([("a", 1), ("a", 2)]).assign_timestamps_and_watermarks(
    ...     WatermarkStrategy.for_monotonous_timestamps()
    ... )
    >>> windows = events.key_by(lambda event: event[0]).window(
    ...     TumblingEventTimeWindows.of(Time.seconds(5))
    ... )
    >>> windows.reduce(lambda first, second: (first[0], first[1] + second[1])).get_name()
    'TumblingEventTimeWindows'
    """

    keyed = True
    apply_kind = (WindowFunction, ApplyAdapter)
    process_kind = (ProcessWindowFunction, ProcessAdapter)

    def __init__(
        self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Any, Any]
    ) -> None:
        super().__init__(keyed_stream, window_assigner)


class AllWindowedStream(_Windowed):
    """All elements of a stream in windows; the operator runs in one subtask."""

    keyed = False
    apply_kind = (AllWindowFunction, ApplyAllAdapter)
    process_kind = (ProcessAllWindowFunction, ProcessAllAdapter)

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(data_stream, window_assigner)
