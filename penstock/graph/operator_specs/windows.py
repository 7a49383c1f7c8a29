"""Operators over windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.graph.operator_specs.base import SHOWN_IF_SET, OperatorSpec, StateTable

CONTENTS = StateTable("window-contents", "contents", "contents of windows", "window")
MERGING_SET = StateTable(
    "merging-window-set",
    "map",
    "windows in flight, and what their contents are kept under",
    internal=True,
)


@dataclass(frozen=True, slots=True)
class WindowSpec(OperatorSpec):
    """A window operator, keyed or not (`window_all` uses one constant key).

    Exactly one of these holds: `reduce_function` is set, `aggregate_function` is set, or neither is and the
    window keeps its elements. `window_function` is called as `window_function.process(key, context, elements)`;
    without it the reduced or aggregated value itself is emitted. With an `evictor` the window keeps its elements, with their
    timestamps, in any case.
    """

    operator = "penstock.runtime.operators.window:create_window_operator"
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


@dataclass(frozen=True, slots=True)
class CoGroupWindowSpec(OperatorSpec):
    """A window over two keyed inputs.

    The window's elements are pairs `(input index, value)`; `window.window_function` takes them apart again.
    """

    operator = "penstock.runtime.operators.co_group_window:CoGroupWindowOperator"
    preloaded = True
    state_tables = (CONTENTS, MERGING_SET)

    window: WindowSpec


@dataclass(frozen=True, slots=True)
class LocalAggregateSpec(OperatorSpec):
    """The first of two stages: folds records per key and window, and emits `(key, window start, accumulator)`.

    `window` is the spec of the second stage; its window function has no part in this one.
    """

    operator = "penstock.runtime.operators.local_aggregate:LocalAggregateOperator"
    preloaded = True

    window: WindowSpec
    key_selector: Any


@dataclass(frozen=True, slots=True)
class GlobalAggregateSpec(OperatorSpec):
    """The second of two stages: merges the accumulators of the first one per key and window."""

    operator = "penstock.runtime.operators.local_aggregate:GlobalAggregateOperator"
    preloaded = True
    state_tables = (CONTENTS, MERGING_SET)

    window: WindowSpec

    @property
    def merges_partials(self) -> bool:
        """It gets partial aggregates."""
        return True


BLOCKS = StateTable(
    "partition-blocks", "value", "records of a partition, in blocks", "block", internal=True
)


@dataclass(frozen=True, slots=True)
class FullWindowPartitionSpec(OperatorSpec):
    """All records of a subtask, from the beginning of its input to the end, as one window.

    Exactly one is set. `function(values, timestamps)` gets all records and returns an iterable of (value, timestamp)
    pairs; the others fold records as they come.
    """

    operator = "penstock.runtime.operators.full_window_partition:FullWindowPartitionOperator"
    preloaded = True
    keyed_without_keys = True
    state_tables = (BLOCKS,)

    function: Any = None
    reduce_function: Any = None
    aggregate_function: Any = None
