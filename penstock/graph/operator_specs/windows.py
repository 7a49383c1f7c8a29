"""Operators over windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.graph.operator_specs.base import (
    SHOWN_IF_SET,
    OperatorSpec,
    OutputTimestamps,
    StateTableDescription,
)

CONTENTS = StateTableDescription("window-contents", "contents", "contents of windows", "window")
MERGING_SET = StateTableDescription(
    "merging-window-set",
    "map",
    "windows in flight, and what their contents are kept under",
    internal=True,
)


@dataclass(frozen=True, slots=True)
class WindowSpec(OperatorSpec):
    """A window operator, keyed or not (`window_all` uses one constant key).

    Either `reduce_function` or `aggregate_function` is set, or neither is and the window keeps its elements.
    `window_function` is
    called as `window_function.process(key, context, elements)`; without it the reduced or aggregated value itself is
    emitted. With an
    `evictor` the window always keeps its elements, with their timestamps.
    """

    operator = "penstock.runtime.operators.windows.window:create_window_operator"
    preloaded = True
    keyed_without_keys = True
    state_tables = (CONTENTS, MERGING_SET)

    assigner: Any
    trigger: Any
    window_function: Any = None
    reduce_function: Any = None
    aggregate_function: Any = None
    allowed_lateness: int = 0
    late_tag: str | None = None
    keyed: bool = True
    evictor: Any = field(default=None, metadata=SHOWN_IF_SET)

    @property
    def needs_timestamps(self) -> bool:
        """Whether the windows are event-time windows."""
        return bool(self.assigner.is_event_time())

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """`max_timestamp` of the window: the maximum timestamp if the window does not end by time."""
        return OutputTimestamps.OWN


@dataclass(frozen=True, slots=True)
class CoGroupWindowSpec(OperatorSpec):
    """A window over two keyed inputs.

    The window's elements are pairs `(input index, value)`; `window.window_function` separates them again.
    """

    operator = "penstock.runtime.operators.windows.co_group_window:CoGroupWindowOperator"
    preloaded = True
    state_tables = (CONTENTS, MERGING_SET)

    window: WindowSpec

    @property
    def needs_timestamps(self) -> bool:
        """Whether the window does."""
        return self.window.needs_timestamps

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """Those of the window."""
        return self.window.output_timestamps


@dataclass(frozen=True, slots=True)
class LocalAggregateSpec(OperatorSpec):
    """The local stage of a two-phase aggregation: folds records per key and window, and emits `(key, window start, accumulator)`.

    `window` is the spec of the global stage; its window function is not used here.
    """

    operator = "penstock.runtime.operators.windows.local_aggregate:LocalAggregateOperator"
    preloaded = True

    window: WindowSpec
    key_selector: Any

    @property
    def needs_timestamps(self) -> bool:
        """Whether the window does."""
        return self.window.needs_timestamps

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """Those of the window."""
        return self.window.output_timestamps


@dataclass(frozen=True, slots=True)
class GlobalAggregateSpec(OperatorSpec):
    """The global stage of a two-phase aggregation: merges the local accumulators per key and window."""

    operator = "penstock.runtime.operators.windows.local_aggregate:GlobalAggregateOperator"
    preloaded = True
    state_tables = (CONTENTS, MERGING_SET)

    window: WindowSpec

    @property
    def merges_partials(self) -> bool:
        """True: its input are partial aggregates."""
        return True

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """Those of the window."""
        return self.window.output_timestamps


BLOCKS = StateTableDescription(
    "partition-blocks", "value", "records of a partition, in blocks", "block", internal=True
)


@dataclass(frozen=True, slots=True)
class FullWindowPartitionSpec(OperatorSpec):
    """All records of a subtask, from the beginning of its input to the end, as one window.

    Exactly one function is set. `function(values, timestamps)` gets all records and returns an iterable of (value, timestamp)
    pairs; its attribute `output_timestamps`, if any, declares these timestamps. The others fold records as they arrive.
    """

    operator = (
        "penstock.runtime.operators.windows.full_window_partition:FullWindowPartitionOperator"
    )
    preloaded = True
    keyed_without_keys = True
    state_tables = (BLOCKS,)

    function: Any = None
    reduce_function: Any = None
    aggregate_function: Any = None

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """Those that the function returns; a folded value has none."""
        if self.function is None:
            return OutputTimestamps.NONE
        known: OutputTimestamps = getattr(self.function, "output_timestamps", OutputTimestamps.SOME)
        return known
