"""The bucket of a value: an internal function for rules that distribute rows."""

from __future__ import annotations

import numpy as np
import polars as pl

from penstock.runtime.columnar.expressions.compiler import ExpressionCompiler, compiles
from penstock.runtime.columnar.routing import stable_hashes
from penstock.sql.expr.nodes import Call, Literal


@compiles("HASH BUCKET")
def _bucket(compiler: ExpressionCompiler, call: Call) -> pl.Expr:
    """Return a number below the second operand, the same for equal values in all processes and releases."""
    value, count = call.operands
    assert isinstance(count, Literal)
    buckets = np.uint32(count.value)

    def number(series: pl.Series) -> pl.Series:
        return pl.Series(series.name, (stable_hashes(series) % buckets).astype(np.int32))

    return compiler.compile(value).map_batches(number, return_dtype=pl.Int32, is_elementwise=True)
