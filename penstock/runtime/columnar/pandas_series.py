"""Columns between Polars and the functions of users that take pandas: Series, and a DataFrame for a ROW."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import polars as pl

from penstock.common.types import Row
from penstock.errors import RecordError
from penstock.errors.panics import panics_as_errors
from penstock.errors.user_errors import shown_name
from penstock.runtime.columnar.dtypes import dtype_of
from penstock.runtime.columnar.values import (
    described,
    fields_of,
    first_invalid_value,
    unchecked_series,
    values_of_series,
    wrong_result,
)
from penstock.sql import types as t

_COMPOSED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType)
# Types that pandas does not have, or maps differently than PyFlink.
_AS_OBJECTS = (
    t.ArrayType,
    t.MapType,
    t.MultisetType,
    t.DecimalType,
    t.DateType,
    t.TimeType,
    t.BinaryType,
    t.VarBinaryType,
)


def to_pandas(series: pl.Series, data_type: t.DataType) -> object:
    """Return a column as a Series; a column of rows as a DataFrame, as PyFlink does."""
    import pandas as pd  # type: ignore[import-untyped]

    if isinstance(data_type, t.RowType):
        names = series.struct.fields
        return pd.DataFrame(
            {
                field.name: _to_series(series.struct.field(name), field.data_type)
                for field, name in zip(data_type.fields, names, strict=True)
            }
        )
    return _to_series(series, data_type)


def _to_series(series: pl.Series, data_type: t.DataType) -> object:
    import pandas as pd

    # A row inside of a row is a Row: it would be a DataFrame inside of a DataFrame.
    if isinstance(data_type, (*_AS_OBJECTS, t.RowType)):
        return pd.Series(values_of_series(series, data_type), dtype="object")
    return series.to_pandas()


def as_series(given: object) -> object:
    """Return a Series as it is, and a DataFrame as a Series of Rows."""
    import pandas as pd

    if not isinstance(given, pd.DataFrame):
        return given
    make = Row(*given.columns)
    rows = [make(*row) for row in given.itertuples(index=False, name=None)]
    return pd.Series(rows, dtype="object")


def from_pandas(result: Any, data_type: t.DataType, name: str) -> pl.Series:
    """Return the result of a function as a column: a Series, values, or for a ROW a DataFrame, whose columns count by their position."""
    import pandas as pd

    if isinstance(result, pd.DataFrame):
        return _from_frame(result, data_type, name)
    if not isinstance(result, pd.Series):
        result = _values_as_series(result, name)
    if isinstance(data_type, (*_COMPOSED, t.DecimalType)):
        return _from_values(result, data_type, name)
    try:
        with panics_as_errors():
            made = _cast(result, data_type)
    except Exception:  # noqa: BLE001 - Polars does not take them as a whole
        return _from_values(result, data_type, name)
    # pandas has NaN where NULL is meant.
    lost = made.is_null().to_numpy() & result.notna().to_numpy()
    if lost.any():
        raise wrong_result(name, data_type, result.iloc[int(lost.argmax())])
    return made


def _from_frame(frame: Any, data_type: t.DataType, name: str) -> pl.Series:
    returned = f"pandas function '{shown_name(name)}' returned a DataFrame"
    if not isinstance(data_type, t.RowType):
        raise RecordError(
            f"{returned}, but its result type is {data_type}",
            hint="return a Series with one value per row, or declare a ROW as result_type",
        )
    if len(frame.columns) != len(data_type.fields):
        raise RecordError(
            f"{returned} with {len(frame.columns)} columns, but its result type {data_type} has {len(data_type.fields)} fields",
            hint="return one column per field, in the order of the fields",
        )
    fields = [
        from_pandas(frame.iloc[:, at], field.data_type, name).alias(field.name)
        for at, field in enumerate(data_type.fields)
    ]
    return pl.DataFrame(fields).to_struct(name)


def _values_as_series(result: object, name: str) -> object:
    import pandas as pd

    try:
        return pd.Series(result)
    except Exception as error:
        raise RecordError(
            f"pandas function '{shown_name(name)}' returned {described(result)}, which is not a Series",
            detail=str(error),
            hint="return a Series with one value per row",
        ) from error


def _cast(result: Any, data_type: t.DataType) -> pl.Series:
    values = pl.Series(result.to_list() if result.dtype == object else pl.from_pandas(result))
    if values.dtype.is_nested():  # Polars would cast what is inside
        raise TypeError(f"{values.dtype} is not {data_type}")
    return values.cast(dtype_of(data_type), strict=False)


def _from_values(result: Any, data_type: t.DataType, name: str) -> pl.Series:
    """Convert one value at a time."""
    plain = [_plain(each, data_type) for each in result.to_list()]
    try:
        return unchecked_series(name, plain, data_type)
    except Exception as error:
        culprit = plain[first_invalid_value(plain, data_type)]
        raise wrong_result(name, data_type, culprit) from error


def is_missing(value: object) -> bool:
    """Whether a value is one that pandas uses for NULL: NaN, NaT, NA."""
    import pandas as pd

    return pd.isna(value) is True


def _plain(value: Any, data_type: t.DataType) -> object:
    """Return a value of a row without what pandas and NumPy put in the place of None, lists and whole numbers."""
    import numpy as np
    import pandas as pd

    if isinstance(value, np.ndarray | pd.Series):
        value = list(value) if value.ndim else value.item()
    if isinstance(data_type, t.RowType) and isinstance(value, Row | dict | list | tuple):
        fields, kinds = fields_of(value, data_type.names), data_type.field_types()
        # With another number of fields, an error shows the value unchanged.
        return tuple(map(_plain, fields, kinds)) if len(fields) == len(kinds) else value
    if isinstance(value, list | tuple):
        inner = data_type.element_type if isinstance(data_type, t.ArrayType) else data_type
        return [_plain(each, inner) for each in value]
    if isinstance(value, dict):
        key_type, value_type = _entry_types(data_type)
        return {_plain(key, key_type): _plain(each, value_type) for key, each in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or _is_nan(value) or is_missing(value):
        return None
    # A column of integers with a NULL is one of floats.
    whole = (
        isinstance(data_type, t.IntegralType) and isinstance(value, float) and value.is_integer()
    )
    return int(value) if whole else value


def _is_nan(value: object) -> bool:
    """Whether a value is a decimal NaN. pandas fails on one that signals."""
    return isinstance(value, Decimal) and value.is_nan()


def _entry_types(data_type: t.DataType) -> tuple[t.DataType, t.DataType]:
    if isinstance(data_type, t.MapType):
        return data_type.key_type, data_type.value_type
    if isinstance(data_type, t.MultisetType):
        return data_type.element_type, t.IntType()
    return data_type, data_type
