"""Calls of users' scalar functions: row by row, or of whole pandas.Series."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import polars as pl

from penstock.columnar.dtypes import dtype_of
from penstock.columnar.pandas_series import from_pandas, to_pandas
from penstock.columnar.values import series_of, values_of_series
from penstock.table.expressions.nodes import UserCall

if TYPE_CHECKING:
    from penstock.columnar.expressions.compiler import Compiler


def compile_user_call(compiler: Compiler, call: UserCall) -> pl.Expr:
    """Return the expression that calls the function. Without operands it is called for each row, too."""
    operands = [compiler.compile(each) for each in call.operands]
    if compiler.guard is not None and operands:
        operands = [pl.when(compiler.guard).then(each) for each in operands]
    rows = pl.int_range(
        pl.len(), dtype=pl.Int64
    )  # as many values as there are rows, even of constants
    run = _whole_series(call) if call.pandas else _each_row(call)
    return pl.map_batches(
        [rows, *operands], run, return_dtype=dtype_of(call.type), is_elementwise=False
    )


def _columns(series: Sequence[pl.Series]) -> list[pl.Series]:
    length = len(series[0])
    return [each if len(each) == length else each.new_from_index(0, length) for each in series[1:]]


def _each_row(call: UserCall) -> Callable[[Sequence[pl.Series]], pl.Series]:
    function = call.function
    call_all = getattr(function, "call_all", None)  # asynchronous: all rows of a batch at once
    types = [each.type for each in call.operands]

    def run(series: Sequence[pl.Series]) -> pl.Series:
        columns = [
            values_of_series(each, kind) for each, kind in zip(_columns(series), types, strict=True)
        ]
        rows = zip(*columns, strict=True) if columns else [()] * len(series[0])
        results = call_all(list(rows)) if call_all is not None else [function(*row) for row in rows]
        return series_of(call.name, results, call.type, call.name)

    return run


def _whole_series(call: UserCall) -> Callable[[Sequence[pl.Series]], pl.Series]:
    function = call.function
    types = [each.type for each in call.operands]

    def run(series: Sequence[pl.Series]) -> pl.Series:
        pairs = zip(_columns(series), types, strict=True)
        result = function(*(to_pandas(each, kind) for each, kind in pairs))
        return from_pandas(result, call.type, call.name)

    return run
