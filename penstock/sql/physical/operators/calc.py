"""Calc: projection and filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.stateless import CalcSpec
from penstock.graph.state_description import Text
from penstock.sql.expr.nodes import Call, InputRef, Literal, Rex, inputs_of, walk
from penstock.sql.expr.rewriting import all_of, conjuncts, is_deterministic, may_fail, remap
from penstock.sql.logical.nodes import Field, LogicalFilter, LogicalProject, Schema
from penstock.sql.logical.texts import show, show_as
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.keys import project_keys, project_window
from penstock.sql.physical.lineage import Lineage, text_of_rex
from penstock.sql.physical.nodes import Columns, PhysicalNode, PhysicalOperator, ref
from penstock.sql.physical.operators.window_table_function import WindowInput


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalCalc(PhysicalOperator):
    """Filters, then projects."""

    spec: CalcSpec

    def describe(self) -> list[str]:
        """Return the projection and the condition."""
        spec, below = self.spec, self.input_names
        shown = (
            below if spec.projection is None else [show(each, below) for each in spec.projection]
        )
        parts = [f"select=[{', '.join(map(show_as, shown, self.names))}]"]
        if spec.condition is not None:
            parts.append(f"where=[{show(spec.condition, below)}]")
        return parts

    def needs_update_before(self, wanted: bool) -> bool:
        """Whether it needs -U rows: a row that has passed the filter before must be retracted if it does not pass now."""
        return wanted or not self._filters_by_key

    @property
    def loses_updates(self) -> bool:
        """Whether the filter, or one below, may leave out a +U row and not its -U row."""
        if not self.traits.changes.updates:
            return False
        return not self._filters_by_key or self.inputs[0].loses_updates

    @property
    def _filters_by_key(self) -> bool:
        """Whether all changes of a row pass the filter or none does."""
        if self.spec.condition is None:
            return True
        read = inputs_of(self.spec.condition)
        return any(read <= key for key in self.inputs[0].traits.keys)

    def with_all_versions(self) -> PhysicalNode:
        """Return the node above an input that emits each version."""
        return replace(self, inputs=(self.inputs[0].with_all_versions(),))

    @property
    def hashed_by(self) -> set[Columns]:
        """The columns that its input was sent by, where the projection has them; one that is computed is another value."""
        below = self.inputs[0].hashed_by
        if self.spec.projection is None:
            return below
        names: dict[int, int] = {}
        for at, each in enumerate(self.spec.projection):
            if isinstance(each, InputRef):
                names.setdefault(each.index, at)
        return {
            tuple(names[at] for at in columns)
            for columns in below
            if all(at in names for at in columns)
        }

    def before_windows(self, zone: str) -> WindowInput | None:
        """Return the same projection and filter of rows without windows."""
        found = self.inputs[0].before_windows(zone)
        return None if found is None else _before_windows(self, found, zone)

    def column_lineage(self, lineage: Lineage) -> list[Text]:
        """Return what the projection computes."""
        below = lineage.columns(self.inputs[0])
        if self.spec.projection is None:
            return below
        return [text_of_rex(each, below, self.spec.zone) for each in self.spec.projection]


@implements(LogicalProject)
def implement_project(node: LogicalProject, context: PhysicalPlanContext) -> PhysicalNode:
    """Compute columns."""
    below = context.implement(node.input)
    return calc(below, node.schema, node.expressions, zone=context.zone)


@implements(LogicalFilter)
def implement_filter(node: LogicalFilter, context: PhysicalPlanContext) -> PhysicalNode:
    """Leave out rows."""
    below = context.implement(node.input)
    return calc(below, node.schema, condition=node.condition, zone=context.zone)


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
        return node if node.names == [field.name for field in schema] else node.renamed(schema)
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
    return PhysicalCalc.of(spec, (node,), schema, traits)


def project(node: PhysicalNode, columns: Sequence[int], *, zone: str) -> PhysicalNode:
    """Keep some columns, in this order."""
    schema = tuple(node.schema[index] for index in columns)
    return calc(node, schema, [ref(node, index) for index in columns], zone=zone)


def _keeps_all(schema: Schema, projection: Sequence[Rex]) -> bool:
    return len(projection) == len(schema) and all(
        isinstance(each, InputRef) and each.index == at for at, each in enumerate(projection)
    )


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
    if not isinstance(node, PhysicalCalc):
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


def _before_windows(below: PhysicalCalc, found: WindowInput, zone: str) -> WindowInput | None:
    """Return a calc of rows without windows, and columns that its windows need; None if the calc uses windows."""
    spec = below.spec
    window, node, places = found.window, found.node, found.places
    # A row that is left out before sessions are made would have joined two of them.
    if spec.condition is not None and (
        window.kind == "SESSION" or not inputs_of(spec.condition) <= set(places)
    ):
        return None
    kept: list[Rex] = []
    fields: list[Field] = []
    moved: dict[int, int] = {}
    columns: Sequence[Rex] = (
        [ref(below.inputs[0], at) for at in range(len(below.schema))]
        if spec.projection is None
        else spec.projection
    )
    for at, each in enumerate(columns):
        if inputs_of(each) <= set(places):
            moved[at] = len(kept)
            kept.append(_placed(each, places))
            fields.append(below.schema[at])
        elif not isinstance(each, InputRef):
            return None
    if window.time is not None:
        time = InputRef(node.schema[window.time].type, window.time)
        if time not in kept:
            kept.append(time)
            fields.append(node.schema[window.time])
        window = replace(window, time=kept.index(time))
    partition = []
    for at in window.partition:
        column = InputRef(node.schema[at].type, at)
        if column not in kept:
            return None
        partition.append(kept.index(column))
    if not kept:
        kept, fields = [ref(node, 0)], [node.schema[0]]
    condition = None if spec.condition is None else _placed(spec.condition, places)
    made = calc(node, tuple(fields), kept, condition, zone=zone)
    return WindowInput(made, replace(window, partition=tuple(partition)), moved)


def _placed(rex: Rex, places: dict[int, int]) -> Rex:
    return remap(rex, lambda each: InputRef(each.type, places[each.index]))
