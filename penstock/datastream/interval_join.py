"""Interval joins: pairs of elements with equal keys whose timestamps are close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

from penstock.common.typeinfo import TypeInformation
from penstock.datastream import _typed
from penstock.datastream._event_time import check_timestamps
from penstock.datastream.co_group import IncompleteJoinError, two_inputs
from penstock.datastream.join_functions import ProcessJoinFunction
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.stream import DataStream
from penstock.errors import ArgumentError, InvalidProgramError, UnsupportedOperationError
from penstock.errors.argument_checks import check_instance, check_object
from penstock.graph.operator_specs import IntervalJoinSpec
from penstock.time.durations import to_millis

_LATER_STEPS = (
    "lower_bound_exclusive",
    "upper_bound_exclusive",
    "side_output_left_late_data",
    "side_output_right_late_data",
    "process",
)


class IntervalJoin:
    """Two keyed streams to be joined by time: continue with `between`."""

    def __init__(self, left: KeyedStream, right: KeyedStream) -> None:
        check_instance(
            right,
            KeyedStream,
            "the other stream of interval_join()",
            hint="call key_by(...) on it first",
        )
        if left.get_execution_environment() is not right.get_execution_environment():
            raise InvalidProgramError(
                "the streams of an interval join belong to different environments",
                hint="read both sources from one StreamExecutionEnvironment",
            )
        check_timestamps([left.transformation, right.transformation], "an interval join")
        kinds = left.key_type, right.key_type
        if None not in kinds and kinds[0] != kinds[1]:
            raise InvalidProgramError(
                "the keys of an interval join are of different types",
                detail=f"{kinds[0]} and {kinds[1]}",
                hint="return the same type from both key selectors",
            )
        self._streams = (left, right)

    def in_event_time(self) -> Self:
        """Join by the elements' timestamps: the default, and the only mode."""
        return self

    def in_processing_time(self) -> NoReturn:
        """Raise: as in Flink, interval joins support event time only."""
        raise UnsupportedOperationError(
            "interval joins are supported in event time only",
            hint="remove in_processing_time() and assign timestamps",
        )

    def between(self, lower_bound: object, upper_bound: object) -> IntervalJoined:
        """Set how much earlier or later the right element may be than the left one; both bounds are inclusive.

        `lower_bound <= right timestamp - left timestamp <= upper_bound` (Time, Duration, timedelta or milliseconds).
        """
        lower = to_millis(lower_bound, "the lower bound of an interval join")
        upper = to_millis(upper_bound, "the upper bound of an interval join")
        if lower > upper:
            raise ArgumentError(
                "the lower bound of an interval join is greater than its upper bound",
                detail=f"{lower} ms and {upper} ms",
                hint="a negative lower bound reaches back: between(Time.seconds(-5), Time.seconds(5))",
            )
        return IntervalJoined(*self._streams, lower, upper)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _LATER_STEPS:
                raise IncompleteJoinError(
                    f"{name}() of an interval join comes after between()",
                    hint="write left.key_by(...).interval_join(right.key_by(...)).between(lower, upper)"
                    ".process(function)",
                )
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class IntervalJoined:
    """An interval join with its bounds; `process` completes it."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower: int, upper: int) -> None:
        self._streams = (left, right)
        self._lower = lower
        self._upper = upper
        self._lower_inclusive = self._upper_inclusive = True
        self._late_tags: list[str | None] = [None, None]

    def lower_bound_exclusive(self) -> Self:
        """Exclude pairs exactly at the lower bound."""
        self._lower_inclusive = False
        return self

    def upper_bound_exclusive(self) -> Self:
        """Exclude pairs exactly at the upper bound."""
        self._upper_inclusive = False
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Send late elements of the left stream to a side output of the result."""
        return self._late(0, output_tag)

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Send late elements of the right stream to a side output of the result."""
        return self._late(1, output_tag)

    def _late(self, side: int, output_tag: OutputTag) -> Self:
        check_instance(
            output_tag,
            OutputTag,
            "output_tag",
            hint='create one with OutputTag("late", Types.STRING())',
        )
        self._late_tags[side] = output_tag.tag_id
        return self

    def process(
        self, process_join_function: ProcessJoinFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Call a ProcessJoinFunction with each pair; the results have the greater of both timestamps."""
        check_object(
            process_join_function,
            ProcessJoinFunction,
            ("process_element",),
            hint="derive a class from ProcessJoinFunction and pass an object of it",
        )
        kind = _typed.check_type(output_type)
        lower = self._lower if self._lower_inclusive else self._lower + 1
        upper = self._upper if self._upper_inclusive else self._upper - 1
        if lower > upper:
            raise InvalidProgramError(
                "no pair can be within the bounds of this interval join",
                detail=f"between {self._lower} and {self._upper} ms, "
                f"lower {_bound(self._lower_inclusive)}, upper {_bound(self._upper_inclusive)}",
                hint="widen the bounds, or make them inclusive",
            )
        left, right = self._streams
        return two_inputs(
            left,
            (left.transformation, right.transformation),
            "Interval Join",
            IntervalJoinSpec(process_join_function, lower, upper, *self._late_tags),
            kind,
            (left.key_selector, right.key_selector),
            f"IntervalJoin([{lower}, {upper}], {type(process_join_function).__name__})",
        )


def _bound(inclusive: bool) -> str:
    return "inclusive" if inclusive else "exclusive"
