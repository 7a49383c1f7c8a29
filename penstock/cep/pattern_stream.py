"""CEP.pattern: applies a pattern to a stream; the matches of the PatternStream are selected or processed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from penstock.cep.adapters import NoKey, PatternOf, Selector, TimeoutSelector
from penstock.cep.functions import (
    Match,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
)
from penstock.cep.pattern import Pattern, show
from penstock.common.typeinfo import TypeInformation
from penstock.datastream import _typed
from penstock.datastream._checks import check_function
from penstock.datastream._event_time import check_timestamps
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.stream import DataStream
from penstock.errors import ArgumentTypeError, InvalidProgramError
from penstock.errors.argument_checks import check_instance, check_object
from penstock.graph.operator_specs import CepSpec, DynamicCepSpec
from penstock.graph.transformations import OperatorTransformation
from penstock.state_descriptors.descriptors import MapStateDescriptor


class CEP:
    """The entry point of complex event processing."""

    @staticmethod
    def pattern(
        input: DataStream,
        pattern: Pattern,
        comparator: Callable[[Any, Any], int] | None = None,
    ) -> PatternStream:
        """Apply a pattern to a stream; in a keyed stream, to the events of each key.

        `comparator(a, b)` orders events with the same timestamp: a negative number if `a` comes first, a positive one if
        `b` does, else 0. Raises MalformedPatternError for an invalid pattern.
        """
        check_instance(input, DataStream, "a stream for a pattern")
        check_instance(pattern, Pattern, "pattern", hint='begin with Pattern.begin("name")')
        compare = getattr(comparator, "compare", comparator)
        if compare is not None:
            if not callable(compare):
                raise ArgumentTypeError(
                    f"comparator must be a function of two events, got {type(comparator).__name__}"
                )
            _check_two(compare)
        pattern.build()
        return PatternStream(input, pattern, compare)

    @staticmethod
    def dynamic_patterns(
        input: DataStream,
        descriptions: DataStream,
        pattern_of: Callable[[Any], tuple[Any, Pattern | None]],
    ) -> DynamicPatternStream:
        """Apply patterns that arrive on a stream, and may change while the job runs.

        `pattern_of(description)` returns the id of a pattern and the Pattern, or None to remove it. Every subtask gets
        all descriptions. One that
        equals the last one for its id changes nothing; another one drops the partial matches of that pattern, but not
        those of other patterns.
        Descriptions are part of the state, so they must pickle; the patterns are rebuilt from them after a restore.
        """
        check_instance(input, DataStream, "a stream for patterns")
        check_instance(descriptions, DataStream, "descriptions")
        check_function(pattern_of, Pattern, "pattern_of", ("description",))
        if input.get_execution_environment() is not descriptions.get_execution_environment():
            raise InvalidProgramError("the streams belong to different environments")
        return DynamicPatternStream(input, PatternOf(pattern_of), descriptions=descriptions)


def _check_two(compare: Any) -> None:
    try:
        inspect.signature(compare).bind("a", "b")
    except TypeError as error:
        raise ArgumentTypeError(
            f"comparator cannot be called with two events: {error}",
            hint="it must return a negative number, zero or a positive number",
        ) from None
    except ValueError:  # builtins without a signature
        return


class PatternStream:
    """The matches of a pattern in a stream."""

    def __init__(
        self,
        stream: DataStream,
        pattern: Any,
        comparator: Any = None,
        *,
        event_time: bool = True,
        late_tag: OutputTag | None = None,
    ) -> None:
        self._stream = stream
        self._pattern = pattern
        self._comparator = comparator
        self._event_time = event_time
        self._late_tag = late_tag

    def get_pattern(self) -> Pattern:
        """Return the pattern."""
        pattern: Pattern = self._pattern
        return pattern

    def get_input_stream(self) -> DataStream:
        """Return the stream."""
        return self._stream

    def in_event_time(self) -> PatternStream:
        """Order events by their timestamps, and measure time by them. This is the default."""
        return self._with(event_time=True)

    def in_processing_time(self) -> PatternStream:
        """Process events as they arrive, and measure time by the wall clock."""
        return self._with(event_time=False)

    def side_output_late_data(self, late_data_output_tag: OutputTag) -> PatternStream:
        """Send late events to a side output of the result."""
        check_instance(
            late_data_output_tag,
            OutputTag,
            "late_data_output_tag",
            hint='create one with OutputTag("late", Types.STRING())',
        )
        return self._with(late_tag=late_data_output_tag)

    def _with(self, **changes: Any) -> PatternStream:
        settings = {"event_time": self._event_time, "late_tag": self._late_tag, **changes}
        return PatternStream(self._stream, self._pattern, self._comparator, **settings)

    # Results.

    def select(
        self,
        pattern_select_function: Callable[[Match], Any] | PatternSelectFunction,
        output_type: TypeInformation | None = None,
        *,
        timed_out_partial_matches_tag: OutputTag | None = None,
        pattern_timeout_function: Callable[[Match, int], Any]
        | PatternTimeoutFunction
        | None = None,
    ) -> DataStream:
        """Emit the result of a function for each match.

        With a tag and a timeout function, its results for `(partial match, time of the timeout)` go to a side output.
        """
        check_function(pattern_select_function, PatternSelectFunction, "select", ("match",))
        return self._selected(
            "select",
            pattern_select_function,
            False,
            output_type,
            timed_out_partial_matches_tag,
            pattern_timeout_function,
        )

    def flat_select(
        self,
        pattern_flat_select_function: Callable[[Match], Iterable[Any] | None]
        | PatternFlatSelectFunction,
        output_type: TypeInformation | None = None,
        *,
        timed_out_partial_matches_tag: OutputTag | None = None,
        pattern_flat_timeout_function: Callable[[Match, int], Iterable[Any] | None]
        | PatternFlatTimeoutFunction
        | None = None,
    ) -> DataStream:
        """Emit all results of a function for each match."""
        check_function(
            pattern_flat_select_function, PatternFlatSelectFunction, "flat_select", ("match",)
        )
        return self._selected(
            "flat_select",
            pattern_flat_select_function,
            True,
            output_type,
            timed_out_partial_matches_tag,
            pattern_flat_timeout_function,
        )

    def process(
        self,
        pattern_process_function: PatternProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Process each match; a function that is also a TimedOutPartialMatchHandler gets partial matches, too."""
        check_object(
            pattern_process_function,
            PatternProcessFunction,
            ("process_match",),
            hint="derive a class from PatternProcessFunction and pass an instance; use select() for "
            "plain functions",
        )
        return self._build(pattern_process_function, output_type)

    def _selected(
        self,
        method: str,
        function: Any,
        flat: bool,
        output_type: TypeInformation | None,
        tag: OutputTag | None,
        timeout: Any,
    ) -> DataStream:
        if (tag is None) != (timeout is None):
            raise ArgumentTypeError(
                "a tag for timed-out partial matches requires a timeout function, and vice versa",
                hint="pass both or none",
            )
        if tag is None:
            return self._build(Selector(function, method, flat), output_type)
        check_instance(tag, OutputTag, "timed_out_partial_matches_tag")
        check_function(timeout, PatternTimeoutFunction, "timeout", ("match", "timestamp"))
        return self._build(TimeoutSelector(function, method, flat, tag, timeout), output_type)

    def _build(self, function: Any, output_type: TypeInformation | None) -> DataStream:
        if self._event_time:
            check_timestamps([self._stream.transformation], "a pattern in event time")
        kind = _typed.check_type(output_type)
        keyed = isinstance(self._stream, KeyedStream)
        stream = self._stream if keyed else self._stream.key_by(NoKey())
        settings = {
            "function": function,
            "event_time": self._event_time,
            "comparator": self._comparator,
            "late_tag": None if self._late_tag is None else self._late_tag.tag_id,
            "keyed": keyed,
        }
        return self._transform(stream, settings, kind)

    def _transform(
        self, stream: DataStream, settings: dict[str, Any], kind: TypeInformation | None
    ) -> DataStream:
        plan = self._pattern.build()
        return stream.transform(
            "CepOperator",
            CepSpec(pattern=plan, **settings),
            kind,
            description=f"Pattern({show(plan.nodes)})",
            non_parallel=not settings["keyed"],
        )


class DynamicPatternStream(PatternStream):
    """The matches of dynamic patterns. `ctx.get_pattern_id()` returns the matching one."""

    def __init__(
        self, stream: DataStream, pattern: Any, *, descriptions: DataStream, **settings: Any
    ) -> None:
        super().__init__(stream, pattern, **settings)
        self._descriptions = descriptions

    def _with(self, **changes: Any) -> DynamicPatternStream:
        settings = {"event_time": self._event_time, "late_tag": self._late_tag, **changes}
        return DynamicPatternStream(
            self._stream, self._pattern, descriptions=self._descriptions, **settings
        )

    def _transform(
        self, stream: DataStream, settings: dict[str, Any], kind: TypeInformation | None
    ) -> DataStream:
        assert isinstance(stream, KeyedStream)
        operator = OperatorTransformation(
            "DynamicCepOperator",
            inputs=(stream.transformation, self._descriptions.broadcast().transformation),
            output_type=kind,
            spec=DynamicCepSpec(
                pattern_of=self._pattern, state=MapStateDescriptor("patterns"), **settings
            ),
            key_selectors=(stream.key_selector, None),
            parallelism=None if settings["keyed"] else 1,
            parallelism_fixed=not settings["keyed"],
        )
        environment = stream.get_execution_environment()
        environment.add_operator(operator)
        return DataStream(environment, operator)
