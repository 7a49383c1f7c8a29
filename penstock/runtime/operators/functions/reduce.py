"""Rolling reduce per key."""

from __future__ import annotations

from typing import Any

from penstock.graph.operator_specs.functions import REDUCED
from penstock.runtime.isolation import isolated
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.emission import Collector
from penstock.runtime.records import MAX_WATERMARK, RowBatch
from penstock.runtime.state.table import MISSING
from penstock.runtime.user_code import close_functions, method_of, open_function


class KeyedReduceOperator(StreamOperator):
    """Emits every update; in BATCH mode one value per key at the end of input."""

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        super().open(context)
        self.reduce = method_of(self.spec.function, "reduce")
        self.backend = context.keyed_state
        self.table = context.keyed_state.table(REDUCED.name)
        open_function(self.spec.function, context.runtime_context)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Fold the records in."""
        reduce, table, backend = self.reduce, self.table, self.backend
        keys = batch.keys or []
        results: list[Any] = []
        value = None
        try:
            for key, value in zip(keys, batch.values, strict=True):
                current = table.get(key, MISSING)
                if current is not MISSING:
                    backend.current_key = key
                    reduced = reduce(current, value)
                else:
                    reduced = value
                table.put(key, reduced)
                results.append(isolated(reduced))
        except Exception as error:
            raise self.guard(error, value, known=True) from error
        if self.spec.emit_updates:
            self.output.emit(RowBatch(results, batch.timestamps))

    def process_watermark(self, watermark: int) -> None:
        """At the end of input emit the result of each key, if updates are not emitted."""
        if watermark == MAX_WATERMARK and not self.spec.emit_updates:
            collector = Collector(self.output)
            for _, value in self.table.items():  # noqa: PERF102 - a state table is not a dict
                collector.add(value, MAX_WATERMARK)
            collector.flush()
        super().process_watermark(watermark)

    def close(self) -> None:
        """Close the user's function."""
        close_functions([self.spec.function])
