"""Operators on two inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.graph.operator_specs.base import (
    OperatorSpec,
    OutputTimestamps,
    StateTableDescription,
    timestamps_of,
)

LEFT = StateTableDescription("interval-join-left", "list", "elements of the left side", "timestamp")
RIGHT = StateTableDescription(
    "interval-join-right", "list", "elements of the right side", "timestamp"
)


@dataclass(frozen=True, slots=True)
class IntervalJoinSpec(OperatorSpec):
    """Joins two keyed inputs where `lower <= right.timestamp - left.timestamp <= upper`, both inclusive.

    `function.process_element(left, right, context)` is called for every pair.
    """

    operator = "penstock.runtime.operators.two_inputs.interval_join:IntervalJoinOperator"
    preloaded = True
    state_tables = (LEFT, RIGHT)

    function: Any
    lower: int
    upper: int
    left_late_tag: str | None = None
    right_late_tag: str | None = None

    @property
    def needs_timestamps(self) -> bool:
        """Always."""
        return True

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """The greater one of the two records."""
        return OutputTimestamps.OWN


@dataclass(frozen=True, slots=True)
class CoMapSpec(OperatorSpec):
    """At most one result per record of either input: `map1`, `map2`."""

    operator = "penstock.runtime.operators.two_inputs.co_map:CoMapOperator"
    preloaded = True

    function: Any


@dataclass(frozen=True, slots=True)
class CoFlatMapSpec(OperatorSpec):
    """Any number of results per record of either input: `flat_map1`, `flat_map2`."""

    operator = "penstock.runtime.operators.two_inputs.co_map:CoFlatMapOperator"
    preloaded = True

    function: Any


@dataclass(frozen=True, slots=True)
class CoProcessSpec(OperatorSpec):
    """A CoProcessFunction on two inputs that are not keyed."""

    operator = "penstock.runtime.operators.two_inputs.co_process:CoProcessOperator"
    preloaded = True

    function: Any


@dataclass(frozen=True, slots=True)
class KeyedCoProcessSpec(OperatorSpec):
    """A KeyedCoProcessFunction on two keyed inputs that share keyed state and timers."""

    operator = "penstock.runtime.operators.two_inputs.co_process:KeyedCoProcessOperator"
    preloaded = True

    function: Any

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """Those of the inputs, and those of timers."""
        return timestamps_of(self.function)


@dataclass(frozen=True, slots=True)
class BroadcastProcessSpec(OperatorSpec):
    """A BroadcastProcessFunction: input 0 is not keyed, input 1 is broadcast.

    `states` are the descriptors of the broadcast states that the function may access.
    """

    operator = "penstock.runtime.operators.two_inputs.broadcast:BroadcastProcessOperator"
    preloaded = True

    function: Any
    states: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyedBroadcastProcessSpec(OperatorSpec):
    """A KeyedBroadcastProcessFunction: input 0 is keyed, input 1 is broadcast."""

    operator = "penstock.runtime.operators.two_inputs.broadcast:KeyedBroadcastProcessOperator"
    preloaded = True

    function: Any
    states: tuple[Any, ...] = ()

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """Those of the inputs, and those of timers."""
        return timestamps_of(self.function)
