"""Full window partitions: all records of a subtask as one window that ends with the input."""

from __future__ import annotations

from itertools import count
from typing import Any

from penstock.graph.key_groups import key_group_of, key_group_range
from penstock.graph.operator_specs import FullWindowPartitionSpec
from penstock.graph.operator_specs.windows import BLOCKS
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.operators.emission import Collector
from penstock.runtime.operators.windows.window_contents import (
    AggregatedContents,
    ReducedContents,
    WindowContents,
)
from penstock.runtime.records import MAX_WATERMARK, RowBatch
from penstock.runtime.state.table import MISSING
from penstock.runtime.user_code import close_functions, open_function

_BLOCK = 4096


class FullWindowPartitionOperator(StreamOperator):
    """Keeps or folds the records, and emits at the last watermark or the end of the input.

    Its state is keyed by a key of this subtask, in blocks that are written once, so a checkpoint contains only new blocks. On
    rescale whole partitions move to other subtasks. Watermarks other than the last are held back: the records come after them.
    """

    def __init__(self, spec: FullWindowPartitionSpec) -> None:
        super().__init__(spec)
        self._contents: WindowContents[Any] | None = None
        if spec.reduce_function is not None:
            self._contents = ReducedContents(spec.reduce_function)
        elif spec.aggregate_function is not None:
            self._contents = AggregatedContents(spec.aggregate_function)
        functions = (spec.function, spec.reduce_function, spec.aggregate_function)
        self._functions = [function for function in functions if function is not None]

    def open(self, context: OperatorContext) -> None:
        """Find the restored records, and open the function."""
        super().open(context)
        self.table = context.keyed_state.table(BLOCKS.name, namespaced=True)
        self.collector = Collector(context.output)
        groups = key_group_range(context.subtask, context.parallelism, context.max_parallelism)
        self._key = next(
            key for key in count() if key_group_of(key, context.max_parallelism) in groups
        )
        own = [number for (key, number), _ in self.table.items() if key == self._key]
        self._number = max(own, default=-1) + 1
        if self._contents is not None:
            self._number = 0  # one accumulator
        for function in self._functions:
            open_function(function, context.runtime_context)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Keep records."""
        if self._contents is not None:
            self._fold(self._contents, batch)
            return
        values = batch.values
        timestamps: Any = batch.timestamps
        if timestamps is None:
            timestamps = [None] * len(values)
        block = self.table.get((self._key, self._number))
        if block is None:
            block = ([], [])
        block[0].extend(values)
        block[1].extend(timestamps)
        self.table.put((self._key, self._number), block)
        if len(block[0]) >= _BLOCK:
            self._number += 1

    def _fold(self, contents: WindowContents[Any], batch: RowBatch) -> None:
        entry = (self._key, self._number)
        folded = self.table.get(entry, MISSING)
        value = None
        try:
            for value in batch.values:
                folded = contents.first(value) if folded is MISSING else contents.add(folded, value)
        except Exception as error:
            raise self.guard(error, value, known=True) from error
        if folded is not MISSING:
            self.table.put(entry, folded)

    def process_watermark(self, watermark: int) -> None:
        """Emit everything at the last watermark; hold back the others."""
        if watermark == MAX_WATERMARK:
            self._emit()
            self.output.emit_watermark(watermark)

    def process_status(self, idle: bool) -> None:
        """Never become idle: the records are still to come."""

    def finish(self, *, ends_for_good: bool) -> None:
        """Emit everything, if the last watermark has not done so."""
        self._emit()

    def _emit(self) -> None:
        entries = sorted(self.table.items(), key=lambda entry: entry[0])
        if not entries:
            return
        for entry, _ in entries:
            self.table.remove(entry)
        contents = self._contents
        try:
            if contents is None:
                values = [value for _, block in entries for value in block[0]]
                timestamps = [timestamp for _, block in entries for timestamp in block[1]]
                results = list(self.spec.function(values, timestamps))
            else:
                folded = entries[0][1]
                for _, other in entries[1:]:
                    folded = contents.merge(folded, other)
                results = [(contents.result(folded), None)]
        except Exception as error:
            raise self.guard(error) from error
        for value, timestamp in results:
            self.collector.add_all((value,), timestamp)
        self.collector.flush()

    def barrier(self) -> list[Any]:
        """Close the block: the next checkpoint gets another one."""
        if self._contents is None and self.table.get((self._key, self._number)) is not None:
            self._number += 1
        return []

    def close(self) -> None:
        """Close the user's function."""
        close_functions(self._functions)
