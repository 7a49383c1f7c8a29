"""Calls of user-defined scalar functions: row by row, or of whole pandas.Series."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock.errors import RecordError
from penstock.errors.user_errors import FunctionFailedError, call_failed, shown_name
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.pandas_series import from_pandas, to_pandas
from penstock.runtime.columnar.values import (
    first_invalid_value,
    unchecked_series,
    values_of_series,
    wrong_result,
)
from penstock.runtime.user_code import position_of_failure
from penstock.sql.expr.nodes import UserCall

if TYPE_CHECKING:
    from penstock.runtime.columnar.expressions.compiler import ExpressionCompiler

_Call = Callable[[Sequence[pl.Series], int], pl.Series]


def compile_user_call(compiler: ExpressionCompiler, call: UserCall) -> pl.Expr:
    """Return the expression that calls the function. Without operands it is called for each row, too.

    With a guard it is called for the rows where that is true, and the others are NULL.
    """
    operands = [compiler.compile(each) for each in call.operands]
    # as many values as there are rows, even of constants
    rows = pl.int_range(pl.len(), dtype=pl.Int64)
    guards = [] if compiler.guard is None else [compiler.guard]
    made = _whole_series(call) if call.pandas else _each_row(call)

    # Polars passes the type if the function accepts it, else it calls again, with the first error as the context of later ones.
    def run(series: Sequence[pl.Series], return_dtype: object = None) -> pl.Series:  # noqa: ARG001
        columns, height = _columns(series), len(series[0])
        return _where(columns[0], columns[1:], made) if guards else made(columns, height)

    return pl.map_batches(
        [rows, *guards, *operands], run, return_dtype=dtype_of(call.type), is_elementwise=False
    )


def _columns(series: Sequence[pl.Series]) -> list[pl.Series]:
    length = len(series[0])
    return [each if len(each) == length else each.new_from_index(0, length) for each in series[1:]]


def _where(guard: pl.Series, columns: Sequence[pl.Series], made: _Call) -> pl.Series:
    """Call a function for the rows where the guard is true."""
    wanted = guard.fill_null(value=False)
    if wanted.all():
        return made(columns, len(guard))
    chosen = wanted.arg_true()
    try:
        found = made([each.gather(chosen) for each in columns], len(chosen))
    except FunctionFailedError as failed:
        if failed.position is not None:
            failed.position = int(chosen[failed.position])
        raise
    places = pl.Series(range(len(chosen)), dtype=pl.UInt32)
    return found.gather(
        pl.Series([None], dtype=pl.UInt32).new_from_index(0, len(guard)).scatter(chosen, places)
    )


def _each_row(call: UserCall) -> _Call:
    function = call.function
    call_all = getattr(function, "call_all", None)  # asynchronous: all rows of a batch at once
    types = [each.type for each in call.operands]

    def run(columns: Sequence[pl.Series], height: int) -> pl.Series:
        values = [values_of_series(each, kind) for each, kind in zip(columns, types, strict=True)]
        rows = list(zip(*values, strict=True)) if values else [()] * height
        if call_all is not None:
            results = call_all(rows, call.name)
        else:
            results = _all_results(call.name, function, rows)
        try:
            return unchecked_series(call.name, results, call.type)
        except Exception as error:
            at = first_invalid_value(results, call.type)
            raise wrong_result(call.name, call.type, results[at], rows[at]) from error

    return run


def _all_results(name: str, function: Any, rows: list[tuple[Any, ...]]) -> list[Any]:
    iterator = iter(rows)
    try:
        return [function(*row) for row in iterator]
    except Exception as error:
        at = position_of_failure(iterator, len(rows))
        raise call_failed(name, error, rows[at], position=at) from error


def _whole_series(call: UserCall) -> _Call:
    function = call.function
    types = [each.type for each in call.operands]

    def run(columns: Sequence[pl.Series], height: int) -> pl.Series:
        pairs = zip(columns, types, strict=True)
        given = [to_pandas(each, kind) for each, kind in pairs]
        try:
            result = function(*given)
        except Exception as error:
            raise call_failed(call.name, error) from error
        made = from_pandas(result, call.type, call.name)
        if len(made) != height:
            raise RecordError(
                f"pandas function '{shown_name(call.name)}' returned a Series of length {len(made)}, expected {height}",
                hint="return a Series with one value per row",
            )
        return made

    return run
