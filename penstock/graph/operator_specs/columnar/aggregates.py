"""Aggregation: by key, in windows, and over the rows before a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.graph.operator_specs import Implementation, OperatorSpec, StateTableDescription
from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.graph.operator_specs.columnar.stateless import Types
from penstock.sql.expr.nodes import AggregateCall


@dataclass(frozen=True, slots=True)
class GroupAggregateSpec(OperatorSpec):
    """GROUP BY without windows. Output: the keys, then one column per aggregate.

    `retracts`: the input has -U or -D rows. `update_before`: -U rows are needed behind. One change per key and batch: that is a mini-batch.
    Without keys, an empty bounded input gives one row. A key whose last row was retracted gives -D. `phase`: see `ColumnarLocalAggregateSpec`.
    """

    operator = "penstock.runtime.columnar.operators.group_aggregate:GroupAggregateOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        StateTableDescription("groups", text="accumulators"),
        StateTableDescription("distinct", internal=True, scope="values"),
        StateTableDescription("rows", internal=True),
    )

    input_types: Types
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    retracts: bool = False
    update_before: bool = True
    merges: bool = (
        False  # the input is what LocalAggregateSpec gives: keys, then columns of accumulators
    )
    ttl_ms: int = 0
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class ColumnarLocalAggregateSpec(OperatorSpec):
    """The first phase of two: one row per key and batch, before the exchange: keys, then the columns of the accumulators.

    With a window, the end of the slice (Int64) stands between keys and accumulators. What comes behind has `merges`, the keys 0, 1, ... and the same aggregates;
    all of them are such that `penstock.runtime.columnar.aggregates.is_mergeable`.
    """

    operator = "penstock.runtime.columnar.operators.local_aggregate:ColumnarLocalAggregateOperator"
    checks_output = False

    input_types: Types
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    retracts: bool = False
    window: WindowDefinition | None = None  # slices of windows are keys, too
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class WindowAggregateSpec(OperatorSpec):
    """GROUP BY a window, and keys. Output: keys, one column per aggregate, then the `properties` in their order.

    Either `window` assigns rows by their time, or, if rows have got their windows before (`assigned`), those are the positions of window_start and window_end.
    With `assigned`, the time zone of TIMESTAMP_LTZ windows is still that of `window`, if that is given. `properties`: of `start`, `end`, `rowtime`, `proctime`. Emits when the watermark (or the clock) passes the end of the window; late rows are dropped and counted
    (numLateRecordsDropped). SESSION windows merge. `retracts` as in GroupAggregateSpec.
    """

    operator = "penstock.runtime.columnar.operators.window_aggregate:WindowAggregateOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        StateTableDescription("windows", text="accumulators", scope="window"),
        StateTableDescription("sessions", internal=True),
    )

    input_types: Types
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    window: WindowDefinition | None = None
    assigned: tuple[int, int] | None = None
    properties: tuple[str, ...] = ("start", "end", "rowtime")
    retracts: bool = False
    merges: bool = False
    zone: str = "UTC"

    @property
    def merges_partials(self) -> bool:
        """It gets partial aggregates behind a LocalAggregateSpec."""
        return self.merges

    @property
    def implementation(self) -> Implementation:
        """Sessions have an operator of their own."""
        if self.window is not None and self.assigned is None and self.window.kind == "SESSION":
            return "penstock.runtime.columnar.operators.session_aggregate:SessionAggregateOperator"
        return type(self).operator


@dataclass(frozen=True, slots=True)
class OverAggregateSpec(OperatorSpec):
    """Aggregates OVER (PARTITION BY keys ORDER BY time ROWS | RANGE ...). Output: all columns, then one per aggregate.

    `order` is the time attribute, or for ROW_NUMBER, RANK, LAG, LEAD and others over bounded inputs any columns. `rowtime`: ordered by event time: rows wait for the watermark; late ones are dropped.
    `rows`: ROWS, else RANGE. `preceding` and `following`: rows or milliseconds; None is UNBOUNDED.
    `mode`: TIME (rows never change and come in the order of `order`: each leaves once), CHANGES (any order, rows may change: when a partition changes, rows whose values
    have become others are updated; rows are known by `unique`), END (all rows of a bounded input at its end).
    """

    operator = "penstock.runtime.columnar.operators.over_time:RunningOverOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        StateTableDescription("over", internal=True),
        StateTableDescription("waiting", internal=True),
    )

    input_types: Types
    keys: tuple[int, ...]
    order: tuple[SortKey, ...]
    aggregates: tuple[AggregateCall, ...]
    rowtime: bool
    rows: bool
    preceding: int | None = None
    ttl_ms: int = 0
    zone: str = "UTC"
    following: int | None = 0
    mode: str = "TIME"
    unique: tuple[int, ...] | None = None
    update_before: bool = True

    @property
    def implementation(self) -> Implementation:
        """The operator for this mode."""
        if self.mode == "CHANGES":
            return "penstock.runtime.columnar.operators.over_changes:ChangingOverOperator"
        if self.mode == "END":
            return "penstock.runtime.columnar.operators.over_changes:BufferedOverOperator"
        if self.preceding is None:
            return self.operator
        return "penstock.runtime.columnar.operators.over_time:BoundedOverOperator"
