"""CoProcessFunction and KeyedCoProcessFunction.

Their watermark is the minimum over both inputs, each with its own valve: the subtask's gates take care of that.
"""

from __future__ import annotations

from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.functions.process import KeyedProcessOperator, ProcessOperator
from penstock.runtime.records import RowBatch


class CoProcessOperator(ProcessOperator):
    """Calls `process_element1` or `process_element2` for each record."""

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        super().open(context)
        self.calls = (self.function.process_element1, self.function.process_element2)

    def process(self, batch: RowBatch, input_index: int = 0) -> None:
        """Process all records of one input."""
        self.run_batch(self.calls[input_index], self.user_context, batch)


class KeyedCoProcessOperator(CoProcessOperator, KeyedProcessOperator):
    """The same with a current key; both inputs share keyed state and timers."""
