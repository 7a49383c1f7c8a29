"""Changelogs made right: normalisation, materialisation, kinds left out; and patterns of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.graph.operator_specs import OperatorSpec, StateTableDescription
from penstock.graph.operator_specs.columnar.common import SortKey
from penstock.graph.operator_specs.columnar.stateless import Types
from penstock.graph.operator_specs.patterns import RUNS


@dataclass(frozen=True, slots=True)
class ChangelogNormalizeSpec(OperatorSpec):
    """Makes a full changelog of upserts and deletes by key, or of one with duplicates. `every`: each change of a key is emitted, not only the last of a batch."""

    operator = "penstock.runtime.columnar.operators.normalize:ChangelogNormalizeOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        StateTableDescription("rows", text="rows"),
    )

    input_types: Types
    keys: tuple[int, ...]
    update_before: bool = True
    ttl_ms: int = 0
    every: bool = False


@dataclass(frozen=True, slots=True)
class UpsertMaterializeSpec(OperatorSpec):
    """Before a sink whose primary key is not the upsert key of the query: keeps all rows of a primary key, in their order, and emits upserts of the latest."""

    operator = "penstock.runtime.columnar.operators.materialize:UpsertMaterializeOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        StateTableDescription("rows", internal=True),
    )

    input_types: Types
    keys: tuple[int, ...]
    upsert: tuple[int, ...] | None = None
    ttl_ms: int = 0


@dataclass(frozen=True, slots=True)
class FinalTableSpec(OperatorSpec):
    """BATCH mode: folds a changelog, and gives the rows of the final table as inserts when the input has ended."""

    operator = "penstock.runtime.columnar.operators.final_table:FinalTableOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        StateTableDescription("rows", internal=True),
    )

    input_types: Types
    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DropKindsSpec(OperatorSpec):
    """Drops -U rows, and -D rows if `deletes` is set.

    `keys`: a filter may have left out the +U row of a key, so a -U row that no other row of its key follows in the batch becomes -D.
    """

    operator = "penstock.runtime.columnar.operators.drop_kinds:DropKindsOperator"
    checks_output = False

    update_before: bool = True
    deletes: bool = False
    keys: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class NotNullSpec(OperatorSpec):
    """Before a sink: fails, or drops rows, when a NOT NULL column is NULL (`table.exec.sink.not-null-enforcer`).

    A path leads to a part of a column that is NOT NULL: names of fields of a ROW; `*` for the elements of an ARRAY, and for the entries of a MAP or
    MULTISET, which have the fields `key` and `value`. The path of the column itself is empty.
    """

    operator = "penstock.runtime.columnar.operators.drop_kinds:NotNullOperator"
    checks_output = False

    columns: tuple[int, ...]
    names: tuple[str, ...]
    drops: bool = False
    paths: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class MatchRecognizeSpec(OperatorSpec):
    """MATCH_RECOGNIZE on the engine of penstock.cep, ordered by event time or arrival.

    `pattern` is a tree of penstock.sql.logical.nodes.RowPattern; `definitions` maps variables to conditions, `measures` are (name, expression). In both, columns of variables are Calls of `PATTERN REF`,
    FIRST, LAST and aggregates, as the logical plan has them.
    """

    operator = "penstock.runtime.columnar.operators.match_recognize:MatchRecognizeOperator"
    checks_output = False
    keyed_without_keys = True
    state_tables: ClassVar[tuple[StateTableDescription, ...]] = (
        RUNS,
        StateTableDescription("waiting", internal=True),
    )

    input_types: Types
    keys: tuple[int, ...]
    order: tuple[SortKey, ...]
    rowtime: bool
    pattern: Any
    definitions: tuple[tuple[str, Any], ...]
    measures: tuple[tuple[str, Any], ...]
    after_match: tuple[str, str | None]
    within_ms: int | None = None
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    all_rows: bool = False
    zone: str = "UTC"
