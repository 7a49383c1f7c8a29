"""What joins have in common: two inputs with equal keys, and their description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.graph.state_description import Text, joined, text_of
from penstock.sql.errors import ValidationError
from penstock.sql.expr.nodes import InputRef, Rex
from penstock.sql.expr.rewriting import all_of, remap
from penstock.sql.logical.nodes import Field, LogicalJoin, Schema
from penstock.sql.logical.texts import show
from penstock.sql.logical.transform import refs
from penstock.sql.physical.conditions import Equalities
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.keys import containing, shift, smallest
from penstock.sql.physical.lineage import Lineage, storage_type, text_of_rex
from penstock.sql.physical.nodes import Keys, PhysicalNode, PhysicalOperator, PhysicalTraits
from penstock.sql.physical.operators.calc import calc, project
from penstock.sql.physical.operators.exchange import exchange

LEFT_ONLY = frozenset({"SEMI", "ANTI"})
JOIN_TYPES = {
    "INNER": "InnerJoin",
    "LEFT": "LeftOuterJoin",
    "RIGHT": "RightOuterJoin",
    "FULL": "FullOuterJoin",
    "SEMI": "LeftSemiJoin",
    "ANTI": "LeftAntiJoin",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalTwoInputJoin(PhysicalOperator):
    """Base of joins of two inputs by equal keys."""

    spec: Any

    def describe(self) -> list[str]:
        """Return the kind of join, its own properties, condition and columns."""
        spec, (left, right) = self.spec, self.inputs
        pairs = [
            f"{left.names[a]} = {right.names[b]}"
            for a, b in zip(spec.left_keys, spec.right_keys, strict=True)
        ]
        if spec.condition is not None:
            pairs.append(show(spec.condition, self.input_names))
        return [
            f"joinType=[{JOIN_TYPES[spec.kind]}]",
            *self.describe_times(),
            f"where=[{' AND '.join(pairs) or 'true'}]",
            f"select=[{', '.join(self.names)}]",
        ]

    def describe_times(self) -> list[str]:
        """Return the description of windows, intervals and versions."""
        return []

    def sides(self, lineage: Lineage) -> dict[str, Text]:
        """Return the part of the state's description that all joins have: kind, keys, rows of both sides."""
        spec, (left, right) = self.spec, self.inputs
        ours, theirs = lineage.columns(left), lineage.columns(right)
        safe = getattr(spec, "null_safe", ()) or (False,) * len(spec.left_keys)
        pairs = [
            text_of(
                ours[a],
                " IS NOT DISTINCT FROM " if null_safe else " = ",
                theirs[b],
                f" {storage_type(left.schema[a].type)}",
            )
            for a, b, null_safe in zip(spec.left_keys, spec.right_keys, safe, strict=True)
        ]
        return {
            "join": (spec.kind,),
            "keys": joined(pairs, " AND "),
            "left rows": lineage.rows(left),
            "right rows": lineage.rows(right),
        }

    def condition(self, lineage: Lineage) -> Text:
        """Return the condition besides the equal keys."""
        if self.spec.condition is None:
            return ()
        columns = [text for each in self.inputs for text in lineage.columns(each)]
        return text_of_rex(self.spec.condition, columns, self.spec.zone)

    def times(self, lineage: Lineage) -> Text:
        """Return the time attributes of both sides."""
        left, right = (lineage.columns(each) for each in self.inputs)
        if self.spec.left_time is None or self.spec.right_time is None:
            return ("processing time",)
        return text_of(left[self.spec.left_time], " and ", right[self.spec.right_time])


@dataclass(slots=True)
class JoinInputs:
    """Two inputs with columns for their keys, which may have been computed for the join; `width` and `added`: columns of each before that."""

    left: PhysicalNode
    right: PhysicalNode
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    rest: list[Rex]
    left_width: int
    right_width: int

    @property
    def condition(self) -> Rex | None:
        """The condition in addition to the equal keys."""
        return all_of(self.rest)


def prepare(
    left: PhysicalNode,
    right: PhysicalNode,
    parts: Equalities,
    rest: Sequence[Rex],
    context: PhysicalPlanContext,
) -> JoinInputs:
    """Compute keys that are not columns yet."""
    wide, left_keys = _with_columns(left, parts.left, context)
    far, right_keys = _with_columns(right, parts.right, context)
    old, new = len(left.schema), len(wide.schema)

    def place(column: InputRef) -> Rex:
        return column if column.index < old else InputRef(column.type, column.index + new - old)

    return JoinInputs(
        wide,
        far,
        left_keys,
        right_keys,
        tuple(parts.null_safe) if any(parts.null_safe) else (),
        [remap(each, place) for each in rest],
        old,
        len(right.schema),
    )


def _with_columns(
    node: PhysicalNode, expressions: Sequence[Rex], context: PhysicalPlanContext
) -> tuple[PhysicalNode, tuple[int, ...]]:
    added: list[Rex] = []
    at: list[int] = []
    for each in expressions:
        if isinstance(each, InputRef):
            at.append(each.index)
        else:
            at.append(len(node.schema) + len(added))
            added.append(each)
    if not added:
        return node, tuple(at)
    fields = tuple(Field(f"$k{n}", each.type) for n, each in enumerate(added))
    whole = calc(node, (*node.schema, *fields), [*refs(node.schema), *added], zone=context.zone)
    return whole, tuple(at)


def joined_schema(kind: str, left: PhysicalNode, right: PhysicalNode, *, timed: bool) -> Schema:
    """Return the columns of joined rows; `timed`: time attributes and windows stay what they are."""

    def fields(node: PhysicalNode, nullable: bool) -> list[Field]:
        return [
            Field(
                field.name,
                field.type.nullable() if nullable else field.type,
                field.time if timed else None,
                field.window if timed else None,
            )
            for field in node.schema
        ]

    if kind in LEFT_ONLY:
        return tuple(fields(left, nullable=False))
    return (
        *fields(left, nullable=kind in {"RIGHT", "FULL"}),
        *fields(right, nullable=kind in {"LEFT", "FULL"}),
    )


def two_inputs(
    kind: type[PhysicalTwoInputJoin],
    node: LogicalJoin,
    spec: object,
    sides: JoinInputs,
    schema: Schema,
    traits: PhysicalTraits,
    context: PhysicalPlanContext,
) -> PhysicalNode:
    """Return a join of both sides, sent by their keys."""
    inputs = (
        exchange(sides.left, sides.left_keys),
        exchange(sides.right, sides.right_keys),
    )
    whole = kind.of(spec, inputs, schema, traits, single=not sides.left_keys)
    return finish(node, whole, sides, context)


def finish(
    node: LogicalJoin, whole: PhysicalNode, sides: JoinInputs, context: PhysicalPlanContext
) -> PhysicalNode:
    """Leave out the columns that were computed for the join."""
    columns = list(range(sides.left_width))
    if node.kind not in LEFT_ONLY:
        start = len(sides.left.schema)
        columns += range(start, start + sides.right_width)
    if len(columns) != len(whole.schema):
        whole = project(whole, columns, zone=context.zone)
    return calc(whole, node.schema, zone=context.zone)


def joined_keys(kind: str, left: PhysicalNode, right: PhysicalNode, sides: JoinInputs) -> Keys:
    """Return the upsert keys of joined rows."""
    ours = keys_by(left, sides.left_keys)
    if kind in LEFT_ONLY:
        return ours
    theirs = shift(keys_by(right, sides.right_keys), len(left.schema))
    found = [one | other for one in ours for other in theirs]
    if kind in {"INNER", "LEFT"} and at_most_one(right.traits.keys, sides.right_keys):
        found += ours
    if kind in {"INNER", "RIGHT"} and at_most_one(left.traits.keys, sides.left_keys):
        found += theirs
    return smallest(found)


def keys_by(node: PhysicalNode, columns: Sequence[int]) -> Keys:
    """Return the keys of rows that were sent by these columns."""
    if not node.traits.changes.retracts:
        return node.traits.keys
    kept = containing(node.traits.keys, columns)
    # With the columns that they were sent by, rows are known as before.
    return kept | frozenset(key | frozenset(columns) for key in node.traits.keys)


def at_most_one(keys: Keys, columns: Sequence[int]) -> bool:
    """Whether there is one row at most for values of these columns."""
    given = frozenset(columns)
    return any(key <= given for key in keys)


def check_append_only(what: str, *inputs: PhysicalNode) -> None:
    """Reject inputs with updates or deletes."""
    for each in inputs:
        if each.traits.changes.retracts:
            raise ValidationError(
                f"{what} need append-only inputs",
                detail=f"an input has changes {each.traits.changes}; it doesn't support consuming update and delete changes",
                hint="join before the aggregation, or remove the time condition to get a regular join",
            )
