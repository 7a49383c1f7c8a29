"""Specs of operators without state: projection, filter, expansion, conversion, watermarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.graph.operator_specs import OperatorSpec, OutputTimestamps
from penstock.graph.operator_specs.columnar.common import WindowDefinition
from penstock.sql.expr.nodes import Rex
from penstock.sql.types import DataType

Types = tuple[DataType, ...]


@dataclass(frozen=True, slots=True)
class CalcSpec(OperatorSpec):
    """Filters by `condition` (kept if TRUE), then computes `projection`; None keeps all columns."""

    operator = "penstock.runtime.columnar.operators.calc:CalcOperator"
    checks_output = False

    input_types: Types
    projection: tuple[Rex, ...] | None = None
    condition: Rex | None = None
    zone: str = "UTC"  # the session time zone


@dataclass(frozen=True, slots=True)
class WatermarkSpec(OperatorSpec):
    """Emits watermarks: the highest value of `expression` (a TIMESTAMP or TIMESTAMP_LTZ) so far, after each batch; with `pipeline.auto-watermark-interval` = 0 after each row that raises it.

    `rowtime` must not be NULL. `idle_timeout_ms`: without records for so long, the input is idle (`table.exec.source.idle-timeout`).
    """

    operator = "penstock.runtime.columnar.operators.watermarks:WatermarkOperator"
    checks_output = False

    input_types: Types
    rowtime: int
    expression: Rex
    idle_timeout_ms: int = 0
    zone: str = "UTC"

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """That of the column `rowtime`, if rows become records with it."""
        return OutputTimestamps.SOME


@dataclass(frozen=True, slots=True)
class RowsToColumnsSpec(OperatorSpec):
    """Makes columns of the records of a stream: Rows by position or name, tuples, or single values if `types` has one.

    `kinds`: rows carry row kinds. `timestamp`: the column that is filled from the records' timestamps.
    """

    operator = "penstock.runtime.columnar.operators.conversions:RowsToColumnsOperator"
    checks_output = False

    types: Types
    names: tuple[str, ...]
    kinds: bool = False
    timestamp: int | None = None
    single: bool = False  # records are values of the only column


@dataclass(frozen=True, slots=True)
class ColumnsToRowsSpec(OperatorSpec):
    """Makes Rows with names and row kinds of columns. `timestamp` is the column that becomes the records' timestamp."""

    operator = "penstock.runtime.columnar.operators.conversions:ColumnsToRowsOperator"
    checks_output = False

    types: Types
    names: tuple[str, ...]
    timestamp: int | None = None
    single: bool = False

    @property
    def output_timestamps(self) -> OutputTimestamps:
        """That of the column, if there is one."""
        return OutputTimestamps.OF_INPUT if self.timestamp is None else OutputTimestamps.OWN


@dataclass(frozen=True, slots=True)
class ExpandSpec(OperatorSpec):
    """Gives each row once per projection: GROUPING SETS, ROLLUP, CUBE, distinct-split aggregation."""

    operator = "penstock.runtime.columnar.operators.expand:ExpandOperator"
    checks_output = False

    input_types: Types
    projections: tuple[tuple[Rex, ...], ...]
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class WindowTableFunctionSpec(OperatorSpec):
    """Appends window_start, window_end and window_time (ms precision, end - 1 ms) to each row; HOP and CUMULATE give a row several times.

    SESSION is not stateless: see `SessionTableFunctionSpec`.
    """

    operator = "penstock.runtime.columnar.operators.window_table:WindowTableFunctionOperator"
    checks_output = False

    input_types: Types
    window: WindowDefinition


@dataclass(frozen=True, slots=True)
class CorrelateSpec(OperatorSpec):
    """UNNEST and LATERAL TABLE: each row with each row that `function` makes of it.

    `function` is UNNEST, UNNEST WITH ORDINALITY, REPLICATE ROWS (as often as the operand says), or a user-defined table function (`user`). `outer`: a row without any gets NULLs (LEFT JOIN ... ON TRUE).
    `condition` is over the columns of both.
    """

    operator = "penstock.runtime.columnar.operators.correlate:CorrelateOperator"
    checks_output = False

    input_types: Types
    function: str
    operands: tuple[Rex, ...]
    output_types: Types
    user: Any = None
    outer: bool = False
    condition: Rex | None = None
    zone: str = "UTC"
