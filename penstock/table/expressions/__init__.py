"""Expressions: typed trees for plans, and the functions that programs write them with, by the names of PyFlink's module.

The functions are imported when they are first asked for: plans and tasks do without them.
"""

from __future__ import annotations

import importlib
from typing import Any

_UNITS = frozenset({"JsonOnNull", "TimeIntervalUnit", "TimePointUnit"})
_CALLS = frozenset(
    {
        "CURRENT_RANGE", "CURRENT_ROW", "UNBOUNDED_RANGE", "UNBOUNDED_ROW", "and_", "array", "atan2", "call", "call_sql", "col",
        "concat", "concat_ws", "convert_tz", "current_database", "current_date", "current_time", "current_timestamp",
        "current_watermark", "date_format", "descriptor", "e", "from_unixtime", "if_then_else", "json", "json_array",
        "json_array_agg", "json_object", "json_object_agg", "json_string", "lit", "local_time", "local_timestamp", "log", "map_",
        "negative", "not_", "null_of", "or_", "pi", "rand", "rand_integer", "range_", "row", "row_interval", "source_watermark",
        "temporal_overlaps", "timestamp_diff", "to_date", "to_timestamp", "to_timestamp_ltz", "unix_timestamp", "uuid",
        "with_columns", "without_columns",
    }
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _CALLS:
        return getattr(importlib.import_module("penstock.sql.table_api.calls"), name)
    if name in _UNITS:
        return getattr(importlib.import_module("penstock.sql.table_api.units"), name)
    if name == "Expression":
        return importlib.import_module("penstock.sql.table_api.expression").Expression
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [*_CALLS, *_UNITS, "Expression"]  # noqa: PLE0604 - names of modules that are imported later
