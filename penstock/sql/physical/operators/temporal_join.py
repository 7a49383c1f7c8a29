"""Temporal joins: rows with the version of a table at their time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.joins import TemporalJoinSpec
from penstock.graph.state_description import Text
from penstock.sql.errors import ValidationError
from penstock.sql.expr.nodes import InputRef
from penstock.sql.logical.nodes import LogicalJoin
from penstock.sql.physical.conditions import split
from penstock.sql.physical.context import PhysicalPlanContext
from penstock.sql.physical.lineage import Lineage, expires
from penstock.sql.physical.nodes import PhysicalNode, PhysicalTraits
from penstock.sql.physical.operators.join_inputs import (
    PhysicalTwoInputJoin,
    at_most_one,
    joined_schema,
    keys_by,
    prepare,
    two_inputs,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalTemporalJoin(PhysicalTwoInputJoin):
    """Joins each left row with the version of the right table that was valid at its time."""

    spec: TemporalJoinSpec

    def describe_times(self) -> list[str]:
        """Return whose time decides."""
        return [f"time=[{'event' if self.spec.left_time is not None else 'processing'}]"]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return both sides; by processing time left rows do not wait, and versions may expire."""
        parts = {**self.sides(lineage), "times": self.times(lineage)}
        if self.spec.left_time is None:
            parts |= {"left rows": (), "expires": expires(self.spec.ttl_ms)}
        return parts


def temporal_join(
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
    sides = prepare(left, right.with_all_versions(), parts, parts.rest, context)
    if not at_most_one(sides.right.traits.keys, sides.right_keys):
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
    schema = joined_schema(node.kind, sides.left, sides.right, timed=False)
    schema = tuple(
        replace(field, time=sides.left.schema[at].time) if at < len(sides.left.schema) else field
        for at, field in enumerate(schema)
    )
    keys = keys_by(sides.left, sides.left_keys)
    traits = PhysicalTraits(left.traits.changes, keys)
    return two_inputs(PhysicalTemporalJoin, node, spec, sides, schema, traits, context)


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
