"""Each row several times: GROUPING SETS, ROLLUP, CUBE."""

from __future__ import annotations

import polars as pl

from penstock.errors import PenstockError
from penstock.graph.operator_specs.columnar.common import KIND, column
from penstock.graph.operator_specs.columnar.stateless import ExpandSpec
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.operators.calc import projected
from penstock.runtime.columnar.user_functions import open_functions
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.user_code import close_functions


class ExpandOperator(StreamOperator):
    """Computes all projections of a batch, one after another."""

    spec: ExpandSpec

    def open(self, context: OperatorContext) -> None:
        """Compile the projections. NULLs of one get the types that columns have in the others."""
        super().open(context)
        spec = self.spec
        self._functions = open_functions(
            [each for row in spec.projections for each in row], context.runtime_context
        )
        self._projections = [
            [
                compile_expression(each, spec.zone).cast(dtype_of(each.type)).alias(column(at))
                for at, each in enumerate(row)
            ]
            for row in spec.projections
        ]

    def close(self) -> None:
        """Close the user functions."""
        close_functions(self._functions)
        super().close()

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Give the rows of each projection."""
        frame = batch.frame
        if not frame.height:
            return
        kind = [pl.col(KIND)] if KIND in frame.columns else []
        try:
            parts = [projected(frame, [*each, *kind]) for each in self._projections]
        except PenstockError:
            raise
        except Exception as error:
            raise self.guard(error) from error
        self.output.emit(ColumnBatch(pl.concat(parts)))
