"""The upsert materializer: before sinks whose primary key is not the key of the query."""

from __future__ import annotations

from dataclasses import replace

from penstock.graph.operator_specs.columnar.changes import UpsertMaterializeSpec
from penstock.options import table as options
from penstock.sql.physical.make import exchange, operator
from penstock.sql.physical.nodes import ChangelogTraits, PhysicalNode
from penstock.sql.physical.settings import PlannerSettings


def materialized(
    below: PhysicalNode, key: tuple[int, ...], settings: PlannerSettings
) -> PhysicalNode:
    """Keep the rows of a primary key where the query knows rows by something else, so that the latest one wins.

    Sinks that take -U rows need it, too: they apply a -U or -D row to the row of its primary key, which may be another one by then.
    """
    strategy = settings.configuration.get(options.MATERIALIZE)
    known = below.traits.keys
    suits = any(each <= frozenset(key) for each in known) or not below.traits.changes.retracts
    if settings.batch or strategy == "NONE" or (suits and strategy == "AUTO"):
        return below
    upsert = min(known, key=lambda each: (len(each), sorted(each))) if known else None
    sent = exchange(below, key)
    spec = UpsertMaterializeSpec(
        sent.types, key, tuple(sorted(upsert)) if upsert else None, settings.ttl_ms
    )
    changes = ChangelogTraits(updates=True, deletes=below.traits.changes.retracts, before=False)
    traits = replace(sent.traits, changes=changes, keys=frozenset([frozenset(key)]))
    return operator(spec, (sent,), below.schema, traits)
