"""Base of operators that keep one row per key."""

from __future__ import annotations

from typing import Any

from penstock.graph.operator_specs.columnar.changes import ChangelogNormalizeSpec
from penstock.graph.operator_specs.columnar.ranks import DeduplicateSpec
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.joins.memory import JoinMemory
from penstock.runtime.columnar.joins.sides import JoinSide
from penstock.runtime.columnar.store.key_index import KeyIndex
from penstock.runtime.operators.base import OperatorContext, StreamOperator


class KeyedRowOperator(StreamOperator):
    """Keeps a row of each key, in the state table that the spec names."""

    spec: DeduplicateSpec | ChangelogNormalizeSpec

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        (table,) = self.spec.state_tables
        self._slots = KeyIndex()
        self._rows = JoinSide(
            table.name,
            context.keyed_state,
            self._slots,
            schema_of(self.spec.input_types),
            self.spec.keys,
            None,
            ttl_ms=self.spec.ttl_ms,
            counts=False,
            max_parallelism=context.max_parallelism,
        )
        self._room = JoinMemory(context.keyed_state, self._slots, (self._rows,))

    def finish(self, *, ends_for_good: bool) -> None:
        """Drop all rows if no later row can change the output, so that the last checkpoint does not write them."""
        if ends_for_good:
            self._rows.clear()

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._rows.expire(self.context.clock())
        self._rows.compact()
        self._rows.store.save()
        return super().barrier()
