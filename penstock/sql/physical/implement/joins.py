"""Joins: which of them a query means, and how it is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.graph.operator_specs.columnar.changes import ChangelogNormalizeSpec
from penstock.graph.operator_specs.columnar.joins import (
    ColumnarIntervalJoinSpec,
    JoinSpec,
    TemporalJoinSpec,
    WindowJoinSpec,
)
from penstock.graph.operator_specs.columnar.ranks import DeduplicateSpec
from penstock.graph.operator_specs.columnar.stateless import CalcSpec, WatermarkSpec
from penstock.sql.errors import ValidationError
from penstock.sql.expr.nodes import Call, InputRef, Rex
from penstock.sql.logical.nodes import Field, LogicalJoin, Schema
from penstock.sql.physical.hints import state_ttl
from penstock.sql.physical.implement.conditions import (
    Equalities,
    interval_of,
    shifted,
    split,
)
from penstock.sql.physical.implement.context import PhysicalPlanContext
from penstock.sql.physical.implement.lookups import is_lookup, lookup_join
from penstock.sql.physical.keys import containing, shift, smallest
from penstock.sql.physical.make import (
    calc,
    exchange,
    operator,
    project,
)
from penstock.sql.physical.nodes import (
    INSERTS,
    ChangelogTraits,
    Keys,
    PhysicalNode,
    PhysicalOperator,
    PhysicalTraits,
    WindowAttributes,
)
from penstock.sql.rules.expressions import all_of, refs, remap
from penstock.sql.types import BooleanType

_LEFT_ONLY = frozenset({"SEMI", "ANTI"})


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


def implement_join(node: LogicalJoin, context: PhysicalPlanContext) -> PhysicalNode:
    """Choose the implementation of a join by its condition and inputs: the one with the least state first."""
    left = context.implement(node.left)
    if node.temporal is not None:
        if is_lookup(node, left, context):
            return lookup_join(node, left, context)
        return _temporal(node, left, context.implement(node.right), context)
    right = context.implement(node.right)
    width = len(left.schema)
    parts = split(node.condition, width)
    windows = _window_pair(left, right, parts)
    if windows is not None:
        return _window_join(node, left, right, parts, windows, context)
    grow = not left.traits.changes.retracts and not right.traits.changes.retracts
    near = interval_of(
        [*parts.rest, *(_time_equalities(left, right, parts) if grow else ())],
        _times(left.schema),
        _times(right.schema),
        width,
    )
    if near is not None and _same_clock(left, right, near.left, near.right):
        return _interval_join(node, left, right, parts, near, context)
    return _regular(node, left, right, parts, context)


def _times(schema: Schema) -> set[int]:
    return {at for at, field in enumerate(schema) if field.time is not None}


def _same_clock(left: PhysicalNode, right: PhysicalNode, at: int, to: int) -> bool:
    return left.schema[at].time == right.schema[to].time


def _time_equalities(left: PhysicalNode, right: PhysicalNode, parts: Equalities) -> list[Rex]:
    """Take pairs of time attributes out of the keys: rows of the same time are rows near each other."""
    width = len(left.schema)
    found: list[Rex] = []
    for at in reversed(range(len(parts.left))):
        one, other = parts.left[at], parts.right[at]
        if not isinstance(one, InputRef) or not isinstance(other, InputRef):
            continue
        if (
            left.schema[one.index].time == right.schema[other.index].time == "rowtime"
            and not parts.null_safe[at]
        ):
            del parts.left[at], parts.right[at], parts.null_safe[at]
            found.append(Call(BooleanType(), "=", (one, shifted(other, width))))
    return found


def _prepare(
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


def _joined_schema(kind: str, left: PhysicalNode, right: PhysicalNode, *, timed: bool) -> Schema:
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

    if kind in _LEFT_ONLY:
        return tuple(fields(left, nullable=False))
    return (
        *fields(left, nullable=kind in {"RIGHT", "FULL"}),
        *fields(right, nullable=kind in {"LEFT", "FULL"}),
    )


def _finish(
    node: LogicalJoin, whole: PhysicalNode, sides: JoinInputs, context: PhysicalPlanContext
) -> PhysicalNode:
    """Leave out the columns that were computed for the join."""
    columns = list(range(sides.left_width))
    if node.kind not in _LEFT_ONLY:
        start = len(sides.left.schema)
        columns += range(start, start + sides.right_width)
    if len(columns) != len(whole.schema):
        whole = project(whole, columns, zone=context.zone)
    return calc(whole, node.schema, zone=context.zone)


def _at_most_one(keys: Keys, columns: Sequence[int]) -> bool:
    given = frozenset(columns)
    return any(key <= given for key in keys)


def joined_keys(kind: str, left: PhysicalNode, right: PhysicalNode, sides: JoinInputs) -> Keys:
    """Return the upsert keys of joined rows."""
    ours = _after(left, sides.left_keys)
    if kind in _LEFT_ONLY:
        return ours
    theirs = shift(_after(right, sides.right_keys), len(left.schema))
    found = [one | other for one in ours for other in theirs]
    if kind in {"INNER", "LEFT"} and _at_most_one(right.traits.keys, sides.right_keys):
        found += ours
    if kind in {"INNER", "RIGHT"} and _at_most_one(left.traits.keys, sides.left_keys):
        found += theirs
    return smallest(found)


def _after(node: PhysicalNode, columns: Sequence[int]) -> Keys:
    """Return the keys of rows that were sent by these columns."""
    if not node.traits.changes.retracts:
        return node.traits.keys
    kept = containing(node.traits.keys, columns)
    # With the columns that they were sent by, rows are known as before.
    return kept | frozenset(key | frozenset(columns) for key in node.traits.keys)


def _regular(
    node: LogicalJoin,
    left: PhysicalNode,
    right: PhysicalNode,
    parts: Equalities,
    context: PhysicalPlanContext,
) -> PhysicalNode:
    sides = _prepare(left, right, parts, parts.rest, context)
    left_in, right_in = (
        exchange(sides.left, sides.left_keys),
        exchange(sides.right, sides.right_keys),
    )
    one, other = left.traits.changes, right.traits.changes
    left_ttl, right_ttl = state_ttl(node.hints, context.settings.ttl_ms)
    spec = JoinSpec(
        node.kind,
        sides.left.types,
        sides.right.types,
        sides.left_keys,
        sides.right_keys,
        sides.condition,
        sides.null_safe,
        _unique(sides.left, sides.left_keys),
        _unique(sides.right, sides.right_keys),
        one.retracts,
        other.retracts,
        left_ttl_ms=left_ttl,
        right_ttl_ms=right_ttl,
        zone=context.zone,
    )
    schema = _joined_schema(node.kind, sides.left, sides.right, timed=False)
    traits = PhysicalTraits(
        _join_changes(node.kind, one, other),
        joined_keys(node.kind, sides.left, sides.right, sides),
    )
    whole = operator(spec, (left_in, right_in), schema, traits, single=not sides.left_keys)
    return _finish(node, whole, sides, context)


def _unique(node: PhysicalNode, keys: Sequence[int]) -> tuple[int, ...] | None:
    """Return the columns that a side's rows are known by: those of the join, if they suffice."""
    known = sorted(node.traits.keys, key=lambda key: (not key <= set(keys), len(key), sorted(key)))
    return tuple(sorted(known[0])) if known and known[0] else None


def _join_changes(kind: str, left: ChangelogTraits, right: ChangelogTraits) -> ChangelogTraits:
    if kind == "INNER":
        return ChangelogTraits(
            updates=left.updates or right.updates, deletes=left.deletes or right.deletes
        )
    if kind == "SEMI":
        return ChangelogTraits(updates=left.updates, deletes=left.deletes or right.retracts)
    if kind == "ANTI":
        return ChangelogTraits(updates=left.updates, deletes=True)
    return ChangelogTraits(updates=True, deletes=True)


def _append_only(what: str, *inputs: PhysicalNode) -> None:
    for each in inputs:
        if each.traits.changes.retracts:
            raise ValidationError(
                f"{what} need append-only inputs",
                detail=f"an input has changes {each.traits.changes}; it doesn't support consuming update and delete changes",
                hint="join before the aggregation, or remove the time condition to get a regular join",
            )


def _interval_join(
    node: LogicalJoin,
    left: PhysicalNode,
    right: PhysicalNode,
    parts: Equalities,
    near: Any,
    context: PhysicalPlanContext,
) -> PhysicalNode:
    _append_only("interval joins", left, right)
    sides = _prepare(left, right, parts, near.rest, context)
    by_row = left.schema[near.left].time == "rowtime"
    spec = ColumnarIntervalJoinSpec(
        node.kind,
        sides.left.types,
        sides.right.types,
        sides.left_keys,
        sides.right_keys,
        near.left if by_row else None,
        near.right if by_row else None,
        near.lower,
        near.upper,
        sides.condition,
        sides.null_safe,
        context.zone,
    )
    schema = _joined_schema(node.kind, sides.left, sides.right, timed=True)
    keys = joined_keys(node.kind, sides.left, sides.right, sides)
    return _two_inputs(node, spec, sides, schema, PhysicalTraits(INSERTS, keys), context)


def _two_inputs(
    node: LogicalJoin,
    spec: Any,
    sides: JoinInputs,
    schema: Schema,
    traits: PhysicalTraits,
    context: PhysicalPlanContext,
) -> PhysicalNode:
    inputs = (
        exchange(sides.left, sides.left_keys),
        exchange(sides.right, sides.right_keys),
    )
    whole = operator(spec, inputs, schema, traits, single=not sides.left_keys)
    return _finish(node, whole, sides, context)


def _window_pair(
    left: PhysicalNode, right: PhysicalNode, parts: Equalities
) -> tuple[WindowAttributes, WindowAttributes] | None:
    """Return the windows of both sides if the condition says that they are the same; they are taken out of the keys."""
    one, other = left.traits.window, right.traits.window
    if one is None or other is None:
        return None
    pairs = {
        (a.index, b.index): at
        for at, (a, b) in enumerate(zip(parts.left, parts.right, strict=True))
        if isinstance(a, InputRef) and isinstance(b, InputRef)
    }
    start, end = pairs.get((one.start, other.start)), pairs.get((one.end, other.end))
    if start is None or end is None:
        return None
    for at in sorted((start, end), reverse=True):
        del parts.left[at], parts.right[at], parts.null_safe[at]
    return one, other


def _window_join(
    node: LogicalJoin,
    left: PhysicalNode,
    right: PhysicalNode,
    parts: Equalities,
    windows: tuple[WindowAttributes, WindowAttributes],
    context: PhysicalPlanContext,
) -> PhysicalNode:
    _append_only("window joins", left, right)
    sides = _prepare(left, right, parts, parts.rest, context)
    one, other = windows
    spec = WindowJoinSpec(
        node.kind,
        sides.left.types,
        sides.right.types,
        sides.left_keys,
        sides.right_keys,
        (one.start, one.end),
        (other.start, other.end),
        sides.condition,
        sides.null_safe,
        one.zone or "UTC",
    )
    schema = _joined_schema(node.kind, sides.left, sides.right, timed=True)
    window = other if node.kind == "RIGHT" else one
    if node.kind == "RIGHT":
        by = len(sides.left.schema)
        window = replace(window, start=window.start + by, end=window.end + by)
    traits = PhysicalTraits(INSERTS, window=None if node.kind == "FULL" else window)
    return _two_inputs(node, spec, sides, schema, traits, context)


def _temporal(
    node: LogicalJoin, left: PhysicalNode, right: PhysicalNode, context: PhysicalPlanContext
) -> PhysicalNode:
    """Join with the version of the right table that was valid at the time of the left row."""
    if node.kind not in {"INNER", "LEFT"}:
        raise ValidationError(
            f"temporal joins must be INNER or LEFT joins, not {node.kind}",
            detail="versions are looked up for each row of the left table",
        )
    parts = split(node.condition, len(left.schema))
    if not parts.left:
        raise ValidationError(
            "temporal joins need an equality on the primary key of the versioned table",
            hint="write ON left.column = right.key",
        )
    sides = _prepare(left, _all_versions(right), parts, parts.rest, context)
    if not _at_most_one(sides.right.traits.keys, sides.right_keys):
        raise ValidationError(
            "the versioned table of a temporal join needs a primary key that the condition contains",
            detail="Temporal Table Join requires primary key in versioned table, and the key must be part of the equi-condition",
            hint="declare PRIMARY KEY (...) NOT ENFORCED, or use a view that keeps the last row per key with ROW_NUMBER()",
        )
    left_time, right_time = _version_times(node, left, sides.right)
    spec = TemporalJoinSpec(
        node.kind,
        sides.left.types,
        sides.right.types,
        sides.left_keys,
        sides.right_keys,
        left_time,
        right_time,
        sides.condition,
        context.settings.ttl_ms,
        context.zone,
    )
    schema = _joined_schema(node.kind, sides.left, sides.right, timed=False)
    schema = tuple(
        replace(field, time=sides.left.schema[at].time) if at < len(sides.left.schema) else field
        for at, field in enumerate(schema)
    )
    keys = _after(sides.left, sides.left_keys)
    return _two_inputs(
        node, spec, sides, schema, PhysicalTraits(left.traits.changes, keys), context
    )


def _all_versions(node: PhysicalNode) -> PhysicalNode:
    """Let a versioned table emit each version, even those that are replaced within a batch."""
    if not isinstance(node, PhysicalOperator):
        return node
    if isinstance(node.spec, DeduplicateSpec | ChangelogNormalizeSpec):
        return replace(node, spec=replace(node.spec, every=True))
    if isinstance(node.spec, CalcSpec | WatermarkSpec):
        return replace(node, inputs=(_all_versions(node.inputs[0]),))
    return node


def _version_times(
    node: LogicalJoin, left: PhysicalNode, right: PhysicalNode
) -> tuple[int | None, int | None]:
    time = node.temporal
    if not isinstance(time, InputRef) or left.schema[time.index].time is None:
        raise ValidationError(
            "FOR SYSTEM_TIME AS OF needs a time attribute of the left table",
            detail="Temporal table join only supports FOR SYSTEM_TIME AS OF left table's time attribute field",
            hint="use a column with a watermark, or a PROCTIME() column",
        )
    if left.schema[time.index].time == "proctime":
        return None, None
    for at, field in enumerate(right.schema):
        if field.time == "rowtime":
            return time.index, at
    raise ValidationError(
        "the versioned table of an event-time temporal join needs a rowtime attribute",
        detail="Event-Time Temporal Table Join requires both primary key and row time attribute in versioned table, but no row time attribute can be found",
        hint="declare a WATERMARK on it",
    )
