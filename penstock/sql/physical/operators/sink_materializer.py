"""The upsert materializer: before sinks whose primary key is not the key of the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.graph.operator_specs.columnar.changes import UpsertMaterializeSpec
from penstock.graph.state_description import Text, joined
from penstock.options import table as options
from penstock.sql.logical.texts import show_columns, show_ttl
from penstock.sql.physical.lineage import Lineage
from penstock.sql.physical.nodes import ChangelogTraits, PhysicalNode, PhysicalOperator
from penstock.sql.physical.operators.exchange import exchange
from penstock.sql.physical.settings import PlannerSettings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalSinkMaterializer(PhysicalOperator):
    """Keeps all rows of a primary key, and emits the latest."""

    spec: UpsertMaterializeSpec

    def describe(self) -> list[str]:
        """Return the key."""
        key = show_columns(self.spec.keys, self.input_names)
        return [f"key=[{key}]", *show_ttl(self.spec.ttl_ms)]

    def advice(self) -> list[str]:
        """Return how to do without it."""
        text = (
            f"[ADVICE] {self.line} keeps every row, because the primary key of the table differs from the upsert key of the query. "
            "Use the upsert key as primary key, or set 'table.exec.sink.upsert-materialize' = 'NONE' "
            "if the order of changes does not matter."
        )
        return [text]

    def state_parts(self, lineage: Lineage) -> Mapping[str, Text]:
        """Return both keys and the rows."""
        below = self.inputs[0]
        columns = lineage.columns(below)
        return {
            "keys": lineage.typed(below, self.spec.keys),
            "upsert key": joined([columns[at] for at in self.spec.upsert or ()]),
            "rows": lineage.rows(below),
        }


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
    return PhysicalSinkMaterializer.of(spec, (sent,), below.schema, traits)
