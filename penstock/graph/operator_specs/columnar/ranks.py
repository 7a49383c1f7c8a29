"""Top-N, deduplication, ORDER BY: queries with ROW_NUMBER and LIMIT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.graph.operator_specs import OperatorSpec, StateTableDescription
from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.graph.operator_specs.columnar.stateless import Types


@dataclass(frozen=True, slots=True)
class RankSpec(OperatorSpec):
    """Keeps the rows with rank `start` to `end` of each key, as a changelog. Output: all columns, then the rank (BIGINT) if `with_rank`.

    `strategy`: APPEND (input has inserts only), UPDATE (input has +U for rows known by `unique`, and their rank only rises), RETRACT (any changes). `end` None: no end (OFFSET only).
    `end_column`: the end is the value of that column. ORDER BY with LIMIT and OFFSET is this without keys.
    """

    operator = "penstock.runtime.columnar.operators.rank:RankOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        StateTableDescription("ranked", internal=True),
    )

    input_types: Types
    keys: tuple[int, ...]
    order: tuple[SortKey, ...]
    start: int = 1
    end: int | None = None
    end_column: int | None = None
    with_rank: bool = False
    strategy: str = "RETRACT"
    unique: tuple[int, ...] | None = None
    update_before: bool = True
    function: str = "ROW_NUMBER"  # or RANK, DENSE_RANK
    ttl_ms: int = 0


@dataclass(frozen=True, slots=True)
class DeduplicateSpec(OperatorSpec):
    """Keeps the first or the last row of each key by its time. Input has inserts only, except by row time where `unique` changes are impossible too.

    `time`: the column of event time; None: processing time, that is the order of arrival. First by processing time emits inserts only; last emits updates; first by event time may emit updates, too.
    """

    operator = "penstock.runtime.columnar.operators.deduplicate:DeduplicateOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        StateTableDescription("kept", internal=True),
    )

    input_types: Types
    keys: tuple[int, ...]
    time: int | None
    last: bool
    update_before: bool = True
    ttl_ms: int = 0
    every: bool = False  # each row that is kept is emitted, even if another replaces it in the same batch: versions of a table


@dataclass(frozen=True, slots=True)
class WindowRankSpec(OperatorSpec):
    """Top-N (and deduplication, which is the first row by time) within windows that are columns; emits inserts when a window ends."""

    operator = "penstock.runtime.columnar.operators.window_rank:WindowRankOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        StateTableDescription("ranked", internal=True, scope="window"),
    )

    input_types: Types
    keys: tuple[int, ...]
    window: tuple[int, int]  # window_start, window_end
    order: tuple[SortKey, ...]
    start: int = 1
    end: int = 1
    with_rank: bool = False
    zone: str | None = None  # of windows over TIMESTAMP_LTZ


@dataclass(frozen=True, slots=True)
class SortSpec(OperatorSpec):
    """ORDER BY. `rowtime`: rows wait for the watermark and leave in the order of that column, then of the rest of `order`. None (BATCH only): all rows at the end of input.

    Runs with parallelism 1.
    """

    operator = "penstock.runtime.columnar.operators.sort:SortOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        StateTableDescription("waiting", internal=True),
        StateTableDescription("emitted", internal=True),
    )

    input_types: Types
    order: tuple[SortKey, ...]
    rowtime: int | None
