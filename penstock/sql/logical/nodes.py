"""The nodes of a logical plan: relational algebra with types, independent of how it is executed.

A node's `schema` says what rows it gives. Names are for people and for the last projection; expressions know columns by position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.graph.operator_specs.columnar.common import SortKey, WindowDefinition
from penstock.sql.expr.nodes import AggregateCall, Rex
from penstock.sql.types import DataType


@dataclass(frozen=True, slots=True)
class Field:
    """A column: `time` is `rowtime` or `proctime` for time attributes. `window`: `start`, `end` or `time` of a window table function, which rules look for."""

    name: str
    type: DataType
    time: str | None = None
    window: str | None = None


Schema = tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class SqlLocation:
    """Where something is written, for errors that are found when its query is planned: line and column from 1, how many letters, of which statement."""

    position: tuple[int, int]
    length: int
    statement: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalNode:
    """Base of all nodes. `place` is its position in the statement, and is ignored in comparisons."""

    schema: Schema
    place: SqlLocation | None = field(default=None, compare=False, repr=False)

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        """The nodes whose rows it takes."""
        return ()


@dataclass(frozen=True, slots=True)
class ScanWatermark:
    """Watermark of a scan, per split: `rowtime` and `expression` are computed of its columns. None: the source emits its own watermarks."""

    rowtime: Rex
    expression: Rex | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalTableScan(LogicalNode):
    """Reads a table of a catalog: its physical and metadata columns; computed columns are nodes above it.

    `table` is a penstock.catalogs.tables.ResolvedTable. `options` come from OPTIONS hints. `columns`: what is read, if not all.
    `watermark` is set by the rule that pushes WATERMARK FOR into the source.
    """

    table: Any
    options: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    filters: tuple[Rex, ...] = ()
    limit: int | None = None
    watermark: ScanWatermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalStreamScan(LogicalNode):
    """A DataStream as a table: `transformation` gives Rows (or ColumnBatches) of the schema."""

    transformation: Any
    changes: bool = False  # a changelog stream
    primary_key: tuple[int, ...] | None = None
    columnar: bool = False
    watermarked: bool = False  # the stream's own watermarks count
    upserts: bool = False  # of changes: updates come without -U rows
    bounded: bool = False
    single: bool = False  # records are values of the only column
    timestamp: int | None = None  # the column that is filled from the records' timestamps


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalValues(LogicalNode):
    """Rows that the query itself has."""

    rows: tuple[tuple[Rex, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalSingleInput(LogicalNode):
    """Base of nodes with one input."""

    input: LogicalNode

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalWatermarkAssigner(LogicalSingleInput):
    """WATERMARK FOR `rowtime` AS `expression`. `pushed`: the scan below emits the watermarks, this only says which column is the time attribute."""

    rowtime: int
    expression: Rex
    pushed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalProject(LogicalSingleInput):
    """Computes columns."""

    expressions: tuple[Rex, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalFilter(LogicalSingleInput):
    """Keeps the rows for which the condition is TRUE."""

    condition: Rex


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalAggregate(LogicalSingleInput):
    """GROUP BY; also DISTINCT, which has no aggregates. Keys are columns of the input. Output: keys, then aggregates.

    `window`: a group window (TUMBLE(ts, ...), HOP, SESSION) that rows are grouped by as well; then `properties` follow the aggregates: `start`, `end`, `rowtime`, `proctime`.
    GROUPING SETS: `sets` are subsets of keys; a key that is not in a row's set is NULL. GROUPING(a, b) is an aggregate named GROUPING, GROUP_ID() one named GROUP_ID. The output stays keys, then aggregates.
    """

    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    window: WindowDefinition | None = None
    properties: tuple[str, ...] = ()
    sets: tuple[tuple[int, ...], ...] | None = None
    ttl_ms: int | None = None  # STATE_TTL hint


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalTableFunctionScan(LogicalSingleInput):
    """TUMBLE, HOP, CUMULATE or SESSION as a table: all columns, then window_start, window_end, window_time."""

    window: WindowDefinition
    proctime: bool = False


@dataclass(frozen=True, slots=True)
class LogicalOverWindow:
    """A window of OVER. `preceding`: rows or ms; None is unbounded."""

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    rows: bool = False
    preceding: int | None = None
    following: int | None = 0  # 0: the current row; None: unbounded


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalOverAggregate(LogicalSingleInput):
    """Aggregates and ranking functions over one window. Output: all columns, then one per call."""

    window: LogicalOverWindow
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalSort(LogicalSingleInput):
    """ORDER BY, OFFSET, LIMIT."""

    order: tuple[SortKey, ...] = ()
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalCorrelate(LogicalSingleInput):
    """UNNEST and LATERAL TABLE (see CorrelateSpec)."""

    function: str
    operands: tuple[Rex, ...]
    user: Any = None
    outer: bool = False
    condition: Rex | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalJoin(LogicalNode):
    """A join: INNER, LEFT, RIGHT, FULL, SEMI, ANTI; the condition is over the columns of both. CROSS is INNER with TRUE.

    `temporal`: the right side is FOR SYSTEM_TIME AS OF this expression of the left side (a time attribute). `hints`: LOOKUP and STATE_TTL, as written.
    """

    left: LogicalNode
    right: LogicalNode
    kind: str
    condition: Rex
    temporal: Rex | None = None
    hints: dict[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        """Left and right."""
        return (self.left, self.right)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalSetOperation(LogicalNode):
    """UNION, INTERSECT, EXCEPT, with or without ALL."""

    parts: tuple[LogicalNode, ...]
    kind: str
    all: bool

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        """All parts."""
        return self.parts


@dataclass(frozen=True, slots=True)
class RowPattern:
    """A part of a row pattern: a variable, or CONCAT, ALTER, PERMUTE of `parts`; repeated `least` to `most` (None: any) times, `greedy` or reluctant. `excluded`: {- -}."""

    kind: str  # VARIABLE, CONCAT, ALTER, PERMUTE
    variable: str | None = None
    parts: tuple[RowPattern, ...] = ()
    least: int = 1
    most: int | None = 1
    greedy: bool = True
    excluded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalMatch(LogicalSingleInput):
    """MATCH_RECOGNIZE (see MatchRecognizeSpec).

    In definitions and measures a column of a variable is Call("PATTERN REF", (Symbol(variable), InputRef)), variable `*` for any; FIRST, LAST (with an offset as second operand), PREV and aggregates are Calls around it.
    COUNT(A.*) is a COUNT of Call("PATTERN REF", (Symbol("A"), TRUE)). MATCH_ROWTIME and MATCH_PROCTIME are Calls without operands.
    """

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    pattern: RowPattern
    definitions: tuple[tuple[str, Rex], ...]
    measures: tuple[tuple[str, Rex], ...]
    after_match: tuple[str, str | None]  # PAST LAST ROW, NEXT ROW, FIRST var, LAST var
    within_ms: int | None = None
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    all_rows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalSink(LogicalSingleInput):
    """INSERT INTO: the end of a plan. `table` as in Scan; `columns` are the positions of the table's columns that the query gives, if not all."""

    table: Any
    options: dict[str, str] = field(default_factory=dict)
    overwrite: bool = False
    partition: dict[str, Any] = field(default_factory=dict)


# Nodes that no query has: rules make them of others, because they are run better.


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalRank(LogicalSingleInput):
    """The rows with rank `start` to `end` of each partition; `end_column`: the end is the value of that column. Output: all columns, then the rank if `with_rank`."""

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    function: str
    start: int = 1
    end: int | None = None
    end_column: int | None = None
    with_rank: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalExpand(LogicalSingleInput):
    """Each row once per projection."""

    projections: tuple[tuple[Rex, ...], ...]
