"""The final table of a changelog, when its input has ended: the result of BATCH mode."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from penstock.graph.operator_specs.columnar.changes import FinalTableSpec
from penstock.graph.operator_specs.columnar.common import INSERT, UPDATE_AFTER
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import schema_of
from penstock.runtime.columnar.joins.pairs import kinds_of
from penstock.runtime.columnar.store.rows import RowStore
from penstock.runtime.operators.base import OperatorContext, StreamOperator

_COUNT: Final = "$count"
_FEW: Final = 50_000  # rows that are kept as they came
_BATCH: Final = 65_536


class FinalTableOperator(StreamOperator):
    """Counts how often each row is there; gives rows as inserts at the end."""

    spec: FinalTableSpec

    def open(self, context: OperatorContext) -> None:
        """Restore the stored rows from keyed state."""
        super().open(context)
        self._schema = schema_of(self.spec.input_types)
        self._store = RowStore(
            context.keyed_state.table("rows", namespaced=True),
            {**self._schema, _COUNT: pl.Int64()},
            self.spec.keys,
            context.max_parallelism,
        )
        self._folded = 0

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Keep the changes; now and then fold them."""
        frame = batch.frame
        comes = np.isin(kinds_of(frame), (INSERT, UPDATE_AFTER))
        counts = pl.Series(_COUNT, np.where(comes, 1, -1), dtype=pl.Int64)
        self._store.append(frame.select(list(self._schema)).with_columns(counts))
        if self._store.live > max(2 * self._folded, _FEW):
            self._fold()

    def _fold(self) -> None:
        rows = np.flatnonzero(self._store.alive)
        folded = (
            self._store.gather(rows)
            .group_by(list(self._schema), maintain_order=True)
            .agg(pl.col(_COUNT).sum())
            .filter(pl.col(_COUNT) != 0)
        )
        self._store.remove(rows, silently=True)
        self._store.compact(at_once=True)
        self._store.append(folded)
        self._folded = folded.height

    def finish(self, *, ends_for_good: bool) -> None:
        """Give the rows."""
        self._fold()
        rows = np.flatnonzero(self._store.alive)
        found = self._store.gather(rows)
        counts = found[_COUNT].to_numpy().clip(0)
        chosen = np.repeat(np.arange(found.height), counts)
        final = found.drop(_COUNT)[pl.Series(chosen, dtype=pl.UInt32)]
        for part in final.iter_slices(_BATCH):
            if part.height:
                self.output.emit(ColumnBatch(part))
        self._store.remove(rows, silently=True)

    def barrier(self) -> list[Any]:
        """Write pending changes to keyed state."""
        self._store.compact()
        self._store.save()
        return super().barrier()
