"""Joins: which of them a query means, and the regular join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.joins import JoinSpec
from penstock.graph.state_description import Text
from penstock.sql.expr.nodes import Call, InputRef, Rex
from penstock.sql.logical.nodes import LogicalJoin, Schema
from penstock.sql.logical.texts import show_millis
from penstock.sql.physical.advice import growing_state
from penstock.sql.physical.conditions import Equalities, interval_of, shifted, split
from penstock.sql.physical.context import PhysicalPlanContext, implements
from penstock.sql.physical.hints import state_ttl
from penstock.sql.physical.lineage import Lineage, expires
from penstock.sql.physical.nodes import (
    ChangelogTraits,
    Columns,
    PhysicalNode,
    PhysicalTraits,
    PhysicalUpdatingOperator,
)
from penstock.sql.physical.operators.exchange import exchange
from penstock.sql.physical.operators.interval_join import interval_join
from penstock.sql.physical.operators.join_inputs import (
    PhysicalTwoInputJoin,
    finish,
    joined_keys,
    joined_schema,
    prepare,
)
from penstock.sql.physical.operators.lookup_join import is_lookup, lookup_join
from penstock.sql.physical.operators.temporal_join import temporal_join
from penstock.sql.physical.operators.window_join import window_join, window_pair
from penstock.sql.types import BooleanType


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalJoin(PhysicalTwoInputJoin, PhysicalUpdatingOperator):
    """A regular join: both sides are kept in state."""

    spec: JoinSpec

    def describe(self) -> list[str]:
        """Return condition, columns, and what is known of the sides."""
        spec = self.spec
        parts = [
            *PhysicalTwoInputJoin.describe(self),
            f"leftInputSpec=[{_side(spec.left_unique, spec.left_keys)}]",
            f"rightInputSpec=[{_side(spec.right_unique, spec.right_keys)}]",
        ]
        if spec.left_ttl_ms or spec.right_ttl_ms:
            ttls = f"{show_millis(spec.left_ttl_ms)}, {show_millis(spec.right_ttl_ms)}"
            parts.append(f"stateTtl=[{ttls}]")
        return parts

    def advice(self) -> list[str]:
        """Return advice on a side that is kept for good."""
        if self.traits.bounded or (self.spec.left_ttl_ms and self.spec.right_ttl_ms):
            return []
        return [growing_state(self)]

    def settle(self, inputs: tuple[PhysicalNode, ...], wanted: bool) -> PhysicalNode:
        """Return a join that emits -U rows if they are needed.

        An update of a joined row may leave no pair: without -U rows the former one is deleted.
        """
        settled = PhysicalUpdatingOperator.settle(self, inputs, wanted)
        changes = settled.traits.changes
        if not changes.updates or wanted:
            return settled
        return replace(
            settled, traits=replace(settled.traits, changes=replace(changes, deletes=True))
        )

    @property
    def hashed_by(self) -> set[Columns]:
        """The keys of both sides; NULLs for a missing partner are not keys."""
        spec = self.spec
        if not spec.left_keys:
            return set()
        width = len(spec.left_types)
        theirs = tuple(width + at for at in spec.right_keys)
        both: dict[str, set[Columns]] = {
            "INNER": {spec.left_keys, theirs},
            "RIGHT": {theirs},
            "FULL": set(),
        }
        return both.get(spec.kind, {spec.left_keys})

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return both sides, and the condition where pairs are looked back at."""
        spec = self.spec
        # An inner join of inserts does not look back at pairs that it has found: the condition is about rows to come.
        forgets = spec.kind == "INNER" and not (spec.left_retracts or spec.right_retracts)
        # Partners that have expired cannot be counted after a restore.
        counts = spec.kind != "INNER" and (spec.left_ttl_ms or spec.right_ttl_ms)
        return {
            **self.sides(lineage),
            "condition": () if forgets else self.condition(lineage),
            "left expires": expires(spec.left_ttl_ms),
            "right expires": expires(spec.right_ttl_ms),
            "partners": ("counted",) if counts else (),
        }


def _side(unique: tuple[int, ...] | None, keys: tuple[int, ...]) -> str:
    if unique is None:
        return "NoUniqueKey"
    return "JoinKeyContainsUniqueKey" if set(unique) <= set(keys) else "HasUniqueKey"


@implements(LogicalJoin)
def implement_join(node: LogicalJoin, context: PhysicalPlanContext) -> PhysicalNode:
    """Choose the implementation of a join by its condition and inputs: the one with the least state first."""
    left = context.implement(node.left)
    if node.temporal is not None:
        if is_lookup(node, left, context):
            return lookup_join(node, left, context)
        return temporal_join(node, left, context.implement(node.right), context)
    right = context.implement(node.right)
    width = len(left.schema)
    parts = split(node.condition, width)
    windows = window_pair(left, right, parts)
    if windows is not None:
        return window_join(node, left, right, parts, windows, context)
    grow = not left.traits.changes.retracts and not right.traits.changes.retracts
    rest = [*parts.rest, *(_time_equalities(left, right, parts) if grow else ())]
    # Times that go by different clocks are compared like any other values.
    for clock in ("rowtime", "proctime"):
        ours, theirs = _times(left.schema, clock), _times(right.schema, clock)
        near = interval_of(rest, ours, theirs, width)
        if near is not None:
            return interval_join(node, left, right, parts, near, context)
    return _regular(node, left, right, parts, context)


def _times(schema: Schema, clock: str) -> set[int]:
    return {at for at, field in enumerate(schema) if field.time == clock}


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


def _regular(
    node: LogicalJoin,
    left: PhysicalNode,
    right: PhysicalNode,
    parts: Equalities,
    context: PhysicalPlanContext,
) -> PhysicalNode:
    sides = prepare(left, right, parts, parts.rest, context)
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
    schema = joined_schema(node.kind, sides.left, sides.right, timed=False)
    traits = PhysicalTraits(
        _join_changes(node.kind, one, other),
        joined_keys(node.kind, sides.left, sides.right, sides),
    )
    whole = PhysicalJoin.of(spec, (left_in, right_in), schema, traits, single=not sides.left_keys)
    return finish(node, whole, sides, context)


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
