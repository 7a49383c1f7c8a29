"""Specs of operators that match patterns of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.graph.operator_specs.base import OperatorSpec, OutputTimestamps, StateTableDescription

RUNS = StateTableDescription("cep/runs", "value", "partial matches", internal=True)
DYNAMIC_RUNS = StateTableDescription(
    "cep/dynamic-runs", "value", "partial matches", "pattern", internal=True
)
QUEUE = StateTableDescription(
    "cep/queue", "list", "(timestamp, event) pairs that wait for the watermark", internal=True
)


@dataclass(frozen=True, slots=True)
class CepSpec(OperatorSpec):
    """Finds a pattern in the events of each key (a stream that is not keyed has one constant key).

    `function` has `process_match(match, context)` and may have `process_timed_out_match(match, context)`. `comparator(a, b)`
    orders events with the same timestamp: it returns a negative number, zero or a positive number.
    """

    operator = "penstock.runtime.cep.cep_operator:CepOperator"
    preloaded = True
    state_tables = (RUNS, QUEUE)

    pattern: Any  # penstock.runtime.cep.engine.PatternPlan
    function: Any
    event_time: bool = True
    comparator: Any = None
    late_tag: str | None = None
    keyed: bool = True

    @property
    def needs_timestamps(self) -> bool:
        """Whether events are ordered by timestamp."""
        return self.event_time

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """The timestamp of the last event of a match; none in processing time."""
        return OutputTimestamps.OWN if self.event_time else OutputTimestamps.NONE


@dataclass(frozen=True, slots=True)
class DynamicCepSpec(OperatorSpec):
    """Finds patterns that arrive on a stream: input 0 is keyed, input 1 is broadcast.

    `pattern_of(record)` returns the id of a pattern and its plan, or None instead of the plan to remove it. `state` is
    the descriptor
    of the broadcast state that holds the records.
    """

    operator = "penstock.runtime.cep.cep_operator:DynamicCepOperator"
    preloaded = True
    state_tables = (DYNAMIC_RUNS, QUEUE)

    pattern_of: Any
    function: Any
    state: Any
    event_time: bool = True
    comparator: Any = None
    late_tag: str | None = None
    keyed: bool = True

    @property
    def needs_timestamps(self) -> bool:
        """Whether events are ordered by timestamp."""
        return self.event_time

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """The timestamp of the last event of a match; none in processing time."""
        return OutputTimestamps.OWN if self.event_time else OutputTimestamps.NONE
