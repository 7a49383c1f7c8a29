"""Builds physical nodes with their traits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from penstock.graph.operator_specs import OperatorSpec
from penstock.graph.operator_specs.columnar.changes import FinalTableSpec
from penstock.graph.operator_specs.columnar.stateless import CalcSpec
from penstock.sql.expr.nodes import (
    Call,
    InputRef,
    Literal,
    Rex,
    walk,
)
from penstock.sql.logical.nodes import Field, Schema
from penstock.sql.physical.keys import containing, project_keys, project_window
from penstock.sql.physical.nodes import (
    INSERTS,
    PhysicalExchange,
    PhysicalNode,
    PhysicalOperator,
    PhysicalTraits,
)
from penstock.sql.rules.expressions import (
    all_of,
    conjuncts,
    is_deterministic,
    may_fail,
    remap,
)


def ref(node: PhysicalNode, index: int) -> InputRef:
    """Return one column of a node's rows."""
    return InputRef(node.schema[index].type, index)


def operator(
    spec: OperatorSpec,
    inputs: Sequence[PhysicalNode],
    schema: Schema,
    traits: PhysicalTraits,
    *,
    single: bool = False,
) -> PhysicalOperator:
    """Make an operator; it is bounded if all inputs are."""
    traits = replace(traits, bounded=all(each.traits.bounded for each in inputs))
    return PhysicalOperator(
        spec=spec, inputs=tuple(inputs), schema=schema, traits=traits, single=single
    )


def exchange(node: PhysicalNode, columns: Sequence[int]) -> PhysicalExchange:
    """Send rows to the subtask of their key; without columns, to one. Rows that are already there stay."""
    traits = node.traits
    keys = traits.keys if not traits.changes.retracts else containing(traits.keys, columns)
    return PhysicalExchange(
        schema=node.schema,
        traits=replace(traits, keys=keys),
        inputs=(node,),
        columns=tuple(columns),
    )


def calc(
    node: PhysicalNode,
    schema: Schema,
    projection: Sequence[Rex] | None = None,
    condition: Rex | None = None,
    *,
    zone: str,
) -> PhysicalNode:
    """Filter and project; two in a row become one where nothing is computed twice."""
    if isinstance(condition, Literal) and condition.value is True:
        condition = None
    if projection is not None and _keeps_all(node.schema, projection):
        projection = None
    if projection is None and condition is None:
        return _renamed(node, schema)
    passed = _passed_on(node, projection)
    merged = _merge(node, projection, condition)
    if merged is not None:
        node, projection, condition = merged
        if projection is not None and _keeps_all(node.schema, projection):
            projection = None
    given = node.traits
    if projection is None:
        schema = tuple(
            replace(field, name=named.name)
            for field, named in zip(node.schema, schema, strict=True)
        )
        traits = given
    else:
        schema = tuple(
            _computed(field, each, node, before)
            for field, each, before in zip(schema, projection, passed, strict=True)
        )
        traits = replace(
            given,
            keys=project_keys(given.keys, projection),
            window=project_window(given.window, projection),
        )
        projection = tuple(projection)
    spec = CalcSpec(node.types, projection, condition, zone)
    return operator(spec, (node,), schema, traits)


def final_table(node: PhysicalNode) -> PhysicalNode:
    """Emit the final table of a changelog at the end, as inserts; an append-only node is unchanged."""
    traits = node.traits
    if not traits.changes.retracts:
        return node
    known = min(traits.keys, key=lambda key: (len(key), sorted(key)), default=frozenset())
    keys = tuple(sorted(known)) or tuple(range(len(node.schema)))
    sent = exchange(node, keys)
    spec = FinalTableSpec(sent.types, keys)
    return operator(spec, (sent,), node.schema, replace(traits, changes=INSERTS))


def project(node: PhysicalNode, columns: Sequence[int], *, zone: str) -> PhysicalNode:
    """Keep some columns, in this order."""
    schema = tuple(node.schema[index] for index in columns)
    return calc(node, schema, [ref(node, index) for index in columns], zone=zone)


def _keeps_all(schema: Schema, projection: Sequence[Rex]) -> bool:
    return len(projection) == len(schema) and all(
        isinstance(each, InputRef) and each.index == at for at, each in enumerate(projection)
    )


def _renamed(node: PhysicalNode, schema: Schema) -> PhysicalNode:
    names = [field.name for field in schema]
    if names == [field.name for field in node.schema]:
        return node
    renamed = tuple(
        replace(field, name=name) for field, name in zip(node.schema, names, strict=True)
    )
    return replace(node, schema=renamed) if not isinstance(node, PhysicalExchange) else node


def _passed_on(node: PhysicalNode, projection: Sequence[Rex] | None) -> list[Field | None]:
    """Return for each column the one that it passes on, None if it is computed."""
    if projection is None:
        return list(node.schema)
    return [node.schema[each.index] if isinstance(each, InputRef) else None for each in projection]


def _computed(field: Field, expression: Rex, node: PhysicalNode, before: Field | None) -> Field:
    """A column that is only passed on keeps its time attribute, as far as the node below has it.

    `before`: the column that it passes on of a calc that has become one with this: it may compute what the scan makes watermarks of.
    """
    if before is not None and before.time == "rowtime":
        return Field(field.name, field.type, before.time, before.window)
    if isinstance(expression, InputRef):
        below = node.schema[expression.index]
        return Field(field.name, field.type, below.time, below.window)
    is_proctime = isinstance(expression, Call) and expression.function == "PROCTIME"
    return Field(field.name, expression.type, "proctime" if is_proctime else None)


def _merge(
    node: PhysicalNode, projection: Sequence[Rex] | None, condition: Rex | None
) -> tuple[PhysicalNode, Sequence[Rex] | None, Rex | None] | None:
    """Return a calc and the one below it as one; None where they must stay two."""
    if not isinstance(node, PhysicalOperator) or not isinstance(node.spec, CalcSpec):
        return None
    below = node.spec
    if condition is not None and below.condition is not None and may_fail(condition):
        return None
    if below.projection is None:
        return (
            node.inputs[0],
            projection,
            all_of([*conjuncts(below.condition), *conjuncts(condition)]),
        )
    inner = below.projection
    uses = Counter(
        part.index
        for each in (*(projection or ()), *((condition,) if condition is not None else ()))
        for part in walk(each)
        if isinstance(part, InputRef)
    )
    if projection is None:
        uses.update(range(len(inner)))
    for at, each in enumerate(inner):
        plain = isinstance(each, InputRef | Literal)
        if not plain and (uses[at] > 1 or (uses[at] and not is_deterministic(each))):
            return None
    if condition is not None and any(
        may_fail(inner[part.index]) for part in walk(condition) if isinstance(part, InputRef)
    ):
        return None

    def place(column: InputRef) -> Rex:
        return inner[column.index]

    outer = inner if projection is None else [remap(each, place) for each in projection]
    conditions = [remap(each, place) for each in conjuncts(condition)]
    return node.inputs[0], outer, all_of([*conjuncts(below.condition), *conditions])
