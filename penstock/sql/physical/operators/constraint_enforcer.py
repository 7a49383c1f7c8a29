"""NOT NULL constraints of tables that are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.graph.operator_specs.columnar.changes import NotNullSpec
from penstock.options import table as options
from penstock.sql import types as t
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.nodes import PhysicalNode, PhysicalOperator

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalConstraintEnforcer(PhysicalOperator):
    """Fails, or drops rows, where a column that must not be NULL is NULL."""

    passes_changes = True

    spec: NotNullSpec

    def describe(self) -> list[str]:
        """Return the columns."""
        return [f"NotNullEnforcer(fields=[{', '.join(self.spec.names)}])"]


def enforce_not_null(table: Any, below: PhysicalNode, context: PhysicalPlanContext) -> PhysicalNode:
    """Watch over columns that must not be NULL and could be, and over the parts of them that options name."""
    configuration = context.settings.configuration
    inside = configuration.get(options.NESTED_CONSTRAINTS)
    wanted = {column.name: column for column in table.columns if hasattr(column, "type")}
    found: list[tuple[int, Path]] = []
    for at, field in enumerate(below.schema):
        if field.name not in wanted:
            continue
        target = wanted[field.name].type
        if not target.is_nullable and field.type.is_nullable:
            found.append((at, ()))
        if inside != "IGNORE":
            collections = inside == "ROWS_AND_COLLECTIONS"
            found += [(at, path) for path in not_null_paths(target, collections=collections)]
    if not found:
        return below
    spec = NotNullSpec(
        columns=tuple(at for at, _ in found),
        names=tuple(shown_path(below.schema[at].name, path) for at, path in found),
        drops=configuration.get(options.NOT_NULL) == "DROP",
        paths=tuple(path for _, path in found),
    )
    return PhysicalConstraintEnforcer.of(spec, (below,), below.schema, below.traits)


def not_null_paths(data_type: t.DataType, *, collections: bool) -> Iterator[Path]:
    """Yield the paths to the parts of a type that are NOT NULL; those of `collections` (ARRAY, MAP, MULTISET) if they are asked for.

    >>> inner = t.RowType([t.RowField("b", t.IntType(nullable=False))])
    >>> list(not_null_paths(t.RowType([t.RowField("a", inner)]), collections=False))
    [('a', 'b')]
    """
    for path, part in _parts(data_type, collections):
        if not part.is_nullable:
            yield path
        for rest in not_null_paths(part, collections=collections):
            yield (*path, *rest)


def _parts(data_type: t.DataType, collections: bool) -> Iterator[tuple[Path, t.DataType]]:
    if isinstance(data_type, t.RowType):
        for field in data_type.fields:
            yield (field.name,), field.data_type
    if not collections:
        return
    if isinstance(data_type, t.ArrayType):
        yield ("*",), data_type.element_type
    elif isinstance(data_type, t.MultisetType):
        yield ("*", "key"), data_type.element_type
    elif isinstance(data_type, t.MapType):
        yield ("*", "key"), data_type.key_type
        yield ("*", "value"), data_type.value_type


def shown_path(column: str, path: Path) -> str:
    """Return how messages call a part of a column.

    >>> shown_path("orders", ("*", "id"))
    'orders[*].id'
    """
    return column + "".join("[*]" if step == "*" else f".{step}" for step in path)
