"""Operators around one user function on one input."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Self

from penstock.graph.operator_specs.base import (
    SHOWN_IF_SET,
    OperatorSpec,
    OutputTimestamps,
    StateTableDescription,
    TolerantSpec,
    timestamps_of,
)


@dataclass(frozen=True, slots=True)
class MapSpec(TolerantSpec):
    """One result per record."""

    operator = "penstock.runtime.operators.functions.stateless:MapOperator"
    tolerant_operator = "penstock.runtime.operators.functions.dead_letters:TolerantMapOperator"
    preloaded = True


@dataclass(frozen=True, slots=True)
class FlatMapSpec(TolerantSpec):
    """Any number of results per record."""

    operator = "penstock.runtime.operators.functions.stateless:FlatMapOperator"
    tolerant_operator = "penstock.runtime.operators.functions.dead_letters:TolerantFlatMapOperator"
    preloaded = True


@dataclass(frozen=True, slots=True)
class FilterSpec(TolerantSpec):
    """Keeps the records for which the function returns True."""

    operator = "penstock.runtime.operators.functions.stateless:FilterOperator"
    tolerant_operator = "penstock.runtime.operators.functions.dead_letters:TolerantFilterOperator"
    preloaded = True
    checks_output = False


@dataclass(frozen=True, slots=True)
class ProcessSpec(TolerantSpec):
    """A ProcessFunction on a stream that is not keyed."""

    operator = "penstock.runtime.operators.functions.process:ProcessOperator"
    tolerant_operator = "penstock.runtime.operators.functions.dead_letters:TolerantProcessOperator"
    preloaded = True


@dataclass(frozen=True, slots=True)
class KeyedProcessSpec(TolerantSpec):
    """A KeyedProcessFunction: keyed state and timers."""

    operator = "penstock.runtime.operators.functions.process:KeyedProcessOperator"
    tolerant_operator = (
        "penstock.runtime.operators.functions.dead_letters:TolerantKeyedProcessOperator"
    )
    preloaded = True

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """Those of the input, and those of timers."""
        return timestamps_of(self.function)


REDUCED = StateTableDescription("reduced", "reducing", "the reduced value")


@dataclass(frozen=True, slots=True)
class KeyedReduceSpec(OperatorSpec):
    """A rolling reduce per key. `emit_updates` is False in BATCH mode: one value per key at the end."""

    operator = "penstock.runtime.operators.functions.reduce:KeyedReduceOperator"
    preloaded = True
    state_tables = (REDUCED,)

    function: Any
    emit_updates: bool = True

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """Those of the input; at the end of the input, the maximum timestamp."""
        return OutputTimestamps.OF_INPUT if self.emit_updates else OutputTimestamps.OWN

    def in_batch_mode(self) -> Self:
        """Return the reduce that emits one value per key, at the end."""
        return dataclasses.replace(self, emit_updates=False)


IN_FLIGHT = "in flight"


@dataclass(frozen=True, slots=True)
class AsyncWaitSpec(OperatorSpec):
    """Calls an AsyncFunction for each record, with up to `capacity` records in flight.

    `timeout` (milliseconds; 0 for none) covers all attempts of a record; `retry_strategy` is None without retries. With
    `max_batch`
    the function is called for up to that many records at once, by `async_invoke_batch`. `barrier_wait` (milliseconds) is
    how long a
    barrier waits for calls in flight before their records become part of the checkpoint.
    """

    # Not preloaded: it imports asyncio, which takes 30 ms.
    operator = "penstock.runtime.operators.functions.async_wait:AsyncWaitOperator"
    waits_for_others = True
    operator_states = (IN_FLIGHT,)

    function: Any
    ordered: bool
    timeout: int
    capacity: int = 100
    retry_strategy: Any = field(default=None, metadata=SHOWN_IF_SET)
    max_batch: int | None = field(default=None, metadata=SHOWN_IF_SET)
    barrier_wait: int = field(default=1000, metadata=SHOWN_IF_SET)
