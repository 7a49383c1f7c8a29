"""Joins of two inputs, and of an input with a table that is looked up.

Output: the columns of the left input, then those of the right one; SEMI and ANTI joins give the left ones only. `condition` is what besides the equal keys must be TRUE, over the columns
of both. A key with NULL equals nothing, unless `null_safe` says so for its position (IS NOT DISTINCT FROM).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.graph.operator_specs import OperatorSpec, StateTableDescription
from penstock.graph.operator_specs.base import Implementation
from penstock.graph.operator_specs.columnar.stateless import Types
from penstock.graph.operator_specs.functions import IN_FLIGHT
from penstock.sql.expr.nodes import Rex

_SIDES = (
    StateTableDescription("left", internal=True, scope="run"),
    StateTableDescription("right", internal=True, scope="run"),
    StateTableDescription("left-spilled", internal=True),
    StateTableDescription("right-spilled", internal=True),
)


@dataclass(frozen=True, slots=True)
class JoinSpec(OperatorSpec):
    """A regular join: INNER, LEFT, RIGHT, FULL, SEMI or ANTI, both sides kept in state, with retraction.

    `left_unique`, `right_unique`: columns that are a unique key of the side's rows, if there is one; `*_retracts`: the side has -U or -D rows.
    """

    operator = "penstock.runtime.columnar.operators.join:JoinOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = _SIDES

    kind: str
    left_types: Types
    right_types: Types
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    condition: Rex | None = None
    null_safe: tuple[bool, ...] = ()
    left_unique: tuple[int, ...] | None = None
    right_unique: tuple[int, ...] | None = None
    left_retracts: bool = False
    right_retracts: bool = False
    update_before: bool = True
    left_ttl_ms: int = 0
    right_ttl_ms: int = 0
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class ColumnarIntervalJoinSpec(OperatorSpec):
    """A join of append-only inputs whose times are near each other: left time between right time + `lower` and right time + `upper` (ms).

    INNER, LEFT, RIGHT, FULL, SEMI, ANTI. `rowtime`: else by processing time, and the time columns are None.
    """

    operator = "penstock.runtime.columnar.operators.interval_join:ColumnarIntervalJoinOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = _SIDES

    kind: str
    left_types: Types
    right_types: Types
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int | None
    right_time: int | None
    lower: int
    upper: int
    condition: Rex | None = None
    null_safe: tuple[bool, ...] = ()
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class WindowJoinSpec(OperatorSpec):
    """A join of rows with the same window and keys; windows are columns (start, end) of both sides."""

    operator = "penstock.runtime.columnar.operators.window_join:WindowJoinOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = _SIDES

    kind: str
    left_types: Types
    right_types: Types
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_window: tuple[int, int]
    right_window: tuple[int, int]
    condition: Rex | None = None
    null_safe: tuple[bool, ...] = ()
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class TemporalJoinSpec(OperatorSpec):
    """FOR SYSTEM_TIME AS OF: each left row with the version of the right table that was valid at its time. INNER or LEFT.

    With `left_time` and `right_time`: by event time, when the watermark has come to it; the right side is a changelog with primary key = its join keys (part of them at least). Without: by
    processing time, with the latest version.
    """

    operator = "penstock.runtime.columnar.operators.temporal_join:RowTimeTemporalJoinOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = _SIDES

    kind: str
    left_types: Types
    right_types: Types
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    left_time: int | None
    right_time: int | None
    condition: Rex | None = None
    ttl_ms: int = 0
    zone: str = "UTC"

    @property
    def implementation(self) -> Implementation:
        """The operator, for event time or processing time."""
        if self.left_time is not None:
            return self.operator
        return (
            "penstock.runtime.columnar.operators.temporal_join:ProcessingTimeTemporalJoinOperator"
        )


@dataclass(frozen=True, slots=True)
class LookupJoinSpec(OperatorSpec):
    """Joins each left row with the current rows of an external table for its keys. INNER or LEFT. One input; not keyed.

    `lookup` is a penstock.sql.connector.LookupProvider: it is opened where the operator runs. `keys`: pairs of an expression over the left row and the column of the table that must equal it.
    The provider gives the columns `table_types` of the table. `asynchronous`, `ordered`, `capacity`, `timeout_ms`, retry: as LOOKUP hints say.
    """

    operator = "penstock.runtime.columnar.operators.lookup_join:LookupJoinOperator"
    checks_output = False
    waits_for_others = True
    operator_states = (IN_FLIGHT,)

    kind: str
    input_types: Types
    table_types: Types
    lookup: Any
    keys: tuple[tuple[Rex, int], ...]
    condition: Rex | None = None
    asynchronous: bool = False
    ordered: bool = True
    capacity: int = 100
    timeout_ms: int = 180_000
    retry: Any = None
    zone: str = "UTC"

    @property
    def implementation(self) -> Implementation:
        """The operator: synchronous, or asynchronous with several lookups in flight."""
        if not self.asynchronous:
            return self.operator
        return "penstock.runtime.columnar.operators.lookup_join:AsyncLookupJoinOperator"
