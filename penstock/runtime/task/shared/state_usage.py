"""The keyed states of a subtask, for the diagnosis of its job."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.runtime.inspection.requests import StateUsage
from penstock.runtime.state.schema import StateSchema


def usage_of(schemas: Mapping[str, Mapping[str, StateSchema]]) -> tuple[StateUsage, ...]:
    """Return the states of a subtask, given the schemas of its tables by operator and name."""
    return tuple(
        StateUsage(operator, name.partition("/")[2], schema.kind, schema.ttl)
        for operator, tables in schemas.items()
        for name, schema in tables.items()
    )
