"""Input rows in various forms: pandas, Arrow and Spark frames, lists of tuples or dictionaries."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from penstock.common.type_information import shorten
from penstock.common.types import Row, make_row
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.state.catalog import unknown

Column = str | int | Callable[[Any], Any]  # a name, a position, or a function of the row


class InputRows:
    """Rows with their column names, if any. Values are Python objects: numpy values are converted."""

    def __init__(self, names: Sequence[str] | None, rows: Iterable[Any]) -> None:
        self.names = None if names is None else [str(name) for name in names]
        self._rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def getter(self, column: Column, what: str, position: int) -> Callable[[Any], Any]:
        """Return the function that extracts a column from a row; `position` is its index in a plain tuple."""
        if callable(column):
            return lambda row: to_python(_called(column, row, what))
        if isinstance(column, bool) or not isinstance(column, str | int):
            raise ArgumentTypeError(
                f"{what} must be a column name, a position or a function of the row, got {column!r}"
            )
        if isinstance(column, str) and self.names is not None and column not in self.names:
            raise unknown("column", column, self.names, "the frame")
        return lambda row: to_python(_taken(row, column, what, position))


def rows_of(data: Any) -> InputRows:
    """Return the rows of a frame or list."""
    kind = type(data)
    module = kind.__module__.partition(".")[0]
    if module == "pandas" and kind.__name__ == "DataFrame":
        names = _unique([str(name) for name in data.columns])
        columns = [data.iloc[:, index].tolist() for index in range(len(names))]
        return InputRows(
            names, (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        )
    if module == "pyarrow" and kind.__name__ in {"Table", "RecordBatch"}:
        batches = data.to_batches() if kind.__name__ == "Table" else [data]
        return InputRows(_unique(data.schema.names), _arrow_rows(batches))
    if module == "pyspark" and hasattr(data, "toArrow"):
        from penstock.spark.state_frames import arrow_batches

        return InputRows(_unique(data.columns), _arrow_rows(arrow_batches(data)))
    if isinstance(data, Mapping):
        return InputRows(None, list(data.items()))
    columns_of = getattr(data, "columns", None)
    if isinstance(columns_of, tuple) and hasattr(data, "to_arrow"):  # a table of penstock.state
        return InputRows(columns_of, (row._asdict() for row in data))
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise ArgumentTypeError(
            f"cannot read rows from {shorten(data)}",
            hint="pass a pandas, Arrow or Spark frame, a dictionary, or a list of tuples or dictionaries",
        )
    return InputRows(None, data)


def _unique(names: list[str]) -> list[str]:
    """Reject a frame with duplicate column names: a row is a dictionary by name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ArgumentError(
            f"duplicate column '{twice[0]}'", hint="rename or remove one of them"
        )  # fmt: skip
    return names


def _arrow_rows(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _called(function: Callable[[Any], Any], row: Any, what: str) -> Any:
    try:
        return function(row)
    except Exception as error:
        raise ArgumentError(
            f"the function for {what} failed", detail=f"{type(error).__name__}: {error}, in row {shorten(row)}"
        ) from error  # fmt: skip


def _taken(row: Any, column: str | int, what: str, position: int) -> Any:
    if isinstance(row, Mapping):
        if column in row:
            return row[column]
        names = [str(name) for name in row]
        raise unknown("column", column, names, f"row {shorten(row)}")
    if isinstance(row, Row):
        names = row.get_field_names() or []
    elif isinstance(row, tuple | list):
        names = list(getattr(row, "_fields", ()))
    else:
        raise ArgumentTypeError(
            f"a row must be a tuple, a Row or a dictionary, got {shorten(row)}",
            hint="pass functions for key and value if your rows are objects",
        )
    if isinstance(column, str):
        if names and column not in names:
            raise unknown("column", column, names, f"row {shorten(row)}")
        column = names.index(column) if names else position
    if not -len(row) <= column < len(row):
        raise ArgumentError(f"row {shorten(row)} has no column {column} for {what}")
    return row[column]


def to_python(value: Any) -> Any:
    """Convert numpy and pandas values to plain Python."""
    kind = type(value)
    if value is None or kind in {str, int, float, bool, bytes}:
        return value
    if kind is list:
        return [to_python(item) for item in value]
    if kind is tuple:
        return tuple(map(to_python, value))
    if kind is Row:
        return _row_to_python(value)
    if kind is dict:
        return {to_python(key): to_python(item) for key, item in value.items()}
    module = kind.__module__.partition(".")[0]
    if module == "numpy" and hasattr(value, "tolist"):
        return to_python(value.tolist())
    if module == "pandas":
        if kind.__name__ in {"NaTType", "NAType"}:
            return None
        if isinstance(value, dt.datetime | dt.timedelta):
            return _moment_to_python(value)
    return value


def _moment_to_python(value: Any) -> Any:
    """Convert a pandas Timestamp or Timedelta to a datetime or timedelta, which have no nanoseconds."""
    is_datetime = isinstance(value, dt.datetime)
    if getattr(value, "nanosecond" if is_datetime else "nanoseconds"):
        raise ArgumentError(
            f"{shorten(value)} has nanoseconds, which Python's dates and times do not support",
            hint="round it: frame['column'].dt.round('us'), or keep it as a number",
        )
    return value.to_pydatetime() if is_datetime else value.to_pytimedelta()


def _row_to_python(row: Row) -> Row:
    names: Any = row.get_field_names()
    return make_row(names and tuple(names), [to_python(item) for item in row], row.get_row_kind())
