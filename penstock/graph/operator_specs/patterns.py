"""Operators that look for patterns of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.graph.operator_specs.base import OperatorSpec, OutputTimestamps, StateTable

RUNS = StateTable("cep/runs", "value", "partial matches", internal=True)
DYNAMIC_RUNS = StateTable("cep/dynamic-runs", "value", "partial matches", "pattern", internal=True)
QUEUE = StateTable(
    "cep/queue", "list", "(timestamp, event) pairs that wait for the watermark", internal=True
)


@dataclass(frozen=True, slots=True)
class CepSpec(OperatorSpec):
    """Finds a pattern in the events of each key (a stream without keys has one constant key).

    `function` has `process_match(match, context)` and may have `process_timed_out_match(match, context)`. `comparator(a, b)`
    orders events with the same timestamp, as a negative number, zero or a positive one.
    """

    operator = "penstock.cep.operator:CepOperator"
    preloaded = True
    state_tables = (RUNS, QUEUE)

    pattern: Any  # penstock.cep.engine.PatternPlan
    function: Any
    event_time: bool = True
    comparator: Any = None
    late_tag: str | None = None
    keyed: bool = True

    @property
    def needs_timestamps(self) -> bool:
        """Whether events are ordered by them."""
        return self.event_time

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """That of the last event of a match; none in processing time."""
        return OutputTimestamps.OWN if self.event_time else OutputTimestamps.NONE


@dataclass(frozen=True, slots=True)
class DynamicCepSpec(OperatorSpec):
    """Finds patterns that come from a stream: input 0 is keyed, input 1 is broadcast.

    `pattern_of(record)` returns the id of a pattern and its plan, or None in place of the plan to end it. `state` is the
    descriptor of the broadcast state that holds the records.
    """

    operator = "penstock.cep.operator:DynamicCepOperator"
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
        """Whether events are ordered by them."""
        return self.event_time

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """That of the last event of a match; none in processing time."""
        return OutputTimestamps.OWN if self.event_time else OutputTimestamps.NONE
