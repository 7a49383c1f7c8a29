"""Opening and closing the user functions that expressions call, and reporting their failures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from penstock.errors.user_errors import FunctionFailedError, call_failed, shorten
from penstock.runtime.user_code import open_function
from penstock.sql.expr.nodes import Rex, UserCall, walk


def open_functions(expressions: Iterable[Rex | None], runtime_context: object) -> list[Any]:
    """Open all functions that expressions call, each once; return them, to be closed at the end."""
    calls = {
        id(each.function): each
        for rex in expressions
        if rex is not None
        for each in walk(rex)
        if isinstance(each, UserCall)
    }
    for call in calls.values():
        open_named(call.name, call.function, runtime_context)
    return [call.function for call in calls.values()]


def open_named(name: str, function: object, runtime_context: object) -> None:
    """Open a function; errors are reported with its name."""
    try:
        open_function(function, runtime_context)
    except Exception as error:
        raise call_failed(name, error, method="open") from error


def with_row(failed: FunctionFailedError, frame: pl.DataFrame) -> FunctionFailedError:
    """Return a failure with the row of the columns that the function was called for, where it is known and more than the operands."""
    if failed.position is not None and failed.position < frame.height:
        columns = [name for name in frame.columns if not name.startswith("$")]
        row = frame.select(columns).row(failed.position)
        if row != failed.record:
            failed.detail = f"{failed.detail} of row {shorten(row)}"
            failed.record_known, failed.record = True, row
        failed.position = None
    return failed
