"""Filter and projection: the operator of SELECT and WHERE."""

from __future__ import annotations

import polars as pl

from penstock.errors import PenstockError
from penstock.errors.user_errors import FunctionFailedError
from penstock.graph.operator_specs.columnar.common import KIND, column
from penstock.runtime.columnar.batch import ColumnBatch
from penstock.runtime.columnar.expressions import compile_expression
from penstock.runtime.columnar.user_functions import open_functions, with_row
from penstock.runtime.operators.base import OperatorContext, StreamOperator
from penstock.runtime.user_code import close_functions
from penstock.sql.expr.nodes import Rex

# Common subexpressions are computed once: Nexmark's q22 (three parts of a link) is 2.9 times as fast, the CASE of q14 (four hours) 5.7 times, for 12 us a batch.
_ONCE = pl.QueryOptFlags.none()
_ONCE.comm_subexpr_elim = True


class CalcOperator(StreamOperator):
    """Keeps the rows whose condition is TRUE, and computes columns of them."""

    def open(self, context: OperatorContext) -> None:
        """Compile the expressions."""
        super().open(context)
        spec = self.spec
        self._watermark: int | None = None
        self._functions = open_functions(
            [*(spec.projection or ()), spec.condition], context.runtime_context
        )
        self._condition = None if spec.condition is None else self._compiled(spec.condition)
        self._projection: list[pl.Expr] | None = None
        if spec.projection is not None:
            self._projection = [
                self._compiled(each).alias(column(index))
                for index, each in enumerate(spec.projection)
            ]
            self._with_kind = [*self._projection, pl.col(KIND)]

    def _compiled(self, rex: Rex) -> pl.Expr:
        return compile_expression(rex, self.spec.zone, lambda: self._watermark)

    def process_watermark(self, watermark: int) -> None:
        """Remember it for CURRENT_WATERMARK."""
        self._watermark = watermark
        super().process_watermark(watermark)

    def close(self) -> None:
        """Close the user functions."""
        close_functions(self._functions)
        super().close()

    def process(self, batch: ColumnBatch, input_index: int = 0) -> None:
        """Filter, then project."""
        frame = batch.frame
        try:
            if self._condition is not None:
                frame = filtered(frame, self._condition)
            if self._projection is not None and frame.height:
                frame = projected(
                    frame, self._with_kind if KIND in frame.columns else self._projection
                )
        except PenstockError:
            raise
        except Exception as error:
            raise self.guard(error) from error
        if frame.height:
            self.output.emit(ColumnBatch(frame))


def filtered(frame: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
    """Return the rows for which the condition is TRUE."""
    try:
        mask = frame.lazy().select(condition.alias("mask")).collect(optimizations=_ONCE)["mask"]
    except FunctionFailedError as failed:
        raise with_row(failed, frame)  # noqa: B904 - it is the same error
    return frame.filter(mask if len(mask) == frame.height else condition)


def projected(frame: pl.DataFrame, projection: list[pl.Expr]) -> pl.DataFrame:
    """Return computed columns with as many rows as the frame has, also if all of them are constants."""
    try:
        made = frame.lazy().select(projection).collect(optimizations=_ONCE)
    except FunctionFailedError as failed:
        raise with_row(failed, frame)  # noqa: B904 - it is the same error
    if made.height == frame.height:
        return made
    if not projection:
        return frame.select([])
    # Only constants: Polars gives one row of them.
    return frame.select(pl.lit(0).alias("$row").repeat_by(pl.len()).explode(), *projection).drop(
        "$row"
    )
