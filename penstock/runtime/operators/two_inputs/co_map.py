"""map and flat_map over two inputs."""

from __future__ import annotations

from itertools import compress

from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.functions.stateless import FlatMapOperator, FunctionOperator
from penstock.runtime.records import RowBatch


class CoMapOperator(FunctionOperator):
    """At most one result per record: None is dropped, as in PyFlink."""

    method = "map1"

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        super().open(context)
        self.calls = (self.function.map1, self.function.map2)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Map all records of one input."""
        self.call = self.calls[input_index]
        results, timestamps = self.apply(batch), batch.timestamps
        kept = [result is not None for result in results]
        if not all(kept):
            results = list(compress(results, kept))
            timestamps = None if timestamps is None else list(compress(timestamps, kept))
        if results:
            self.output.emit(RowBatch(results, timestamps))


class CoFlatMapOperator(FlatMapOperator):
    """Any number of results per record: a generator, a list, or None."""

    method = "flat_map1"

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        super().open(context)
        self.calls = (self.function.flat_map1, self.function.flat_map2)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Flat-map all records of one input."""
        self.call = self.calls[input_index]
        super().process(batch)
