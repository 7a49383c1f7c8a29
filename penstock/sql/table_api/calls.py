"""The functions that expressions begin with: col, lit, call and those of SQL that belong to no column."""

from __future__ import annotations

from typing import Any

from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.sql.table_api.column_selection import ColumnRangeExpression, ColumnsExpression
from penstock.sql.table_api.expression import (
    ColumnExpression,
    Expression,
    RowCountExpression,
    TemplateExpression,
    UserFunctionExpression,
    ValueExpression,
    quoted_name,
)
from penstock.sql.table_api.units import JsonOnNull, TimePointUnit
from penstock.sql.types import DataType

UNBOUNDED_ROW = RowCountExpression(None)
UNBOUNDED_RANGE = RowCountExpression(None, by_rows=False)
CURRENT_ROW = RowCountExpression(0)
CURRENT_RANGE = RowCountExpression(0, by_rows=False)


def col(name: str) -> Expression:
    """Return a column.

    >>> col("price") * 2
    (`price` * 2)
    """
    if not isinstance(name, str):
        raise ArgumentTypeError(f"column name must be a str, got {name!r}")
    return ColumnExpression(name)


def lit(v: object, data_type: DataType | None = None) -> Expression:
    """Return a constant."""
    return ValueExpression(v, data_type)


def range_(start: str | int, end: str | int) -> Expression:
    """Return all columns from one to another."""
    return ColumnRangeExpression(start, end)


def with_columns(head: Any, *tails: Any) -> Expression:
    """Return some columns, by ranges, names or positions."""
    return ColumnsExpression((head, *tails), without=False)


def without_columns(head: object, *tails: object) -> Expression:
    """Return all columns but some."""
    return ColumnsExpression((head, *tails), without=True)


def and_(predicate0: object, predicate1: object, *predicates: object) -> Expression:
    """Return whether all conditions are TRUE."""
    return _joined("AND", (predicate0, predicate1, *predicates))


def or_(predicate0: object, predicate1: object, *predicates: object) -> Expression:
    """Return whether one of the conditions is TRUE."""
    return _joined("OR", (predicate0, predicate1, *predicates))


def _joined(word: str, parts: tuple[Any, ...]) -> Expression:
    return TemplateExpression(f"({f' {word} '.join(['{}'] * len(parts))})", *parts)


def not_(expression: object) -> Expression:
    """Return the opposite of a condition."""
    return TemplateExpression("(NOT {})", expression)


def negative(v: object) -> Expression:
    """Return a number with the other sign."""
    return TemplateExpression("(- {})", v)


def _call(function: str, *operands: object) -> Expression:
    return TemplateExpression(f"{function}({', '.join(['{}'] * len(operands))})", *operands)


def current_date() -> Expression:
    """Return today, in the session time zone."""
    return TemplateExpression("CURRENT_DATE")


def current_time() -> Expression:
    """Return the time of the day, in the session time zone."""
    return TemplateExpression("CURRENT_TIME")


def current_timestamp() -> Expression:
    """Return now."""
    return TemplateExpression("CURRENT_TIMESTAMP")


def local_time() -> Expression:
    """Return the time of the day, in the session time zone."""
    return TemplateExpression("LOCALTIME")


def local_timestamp() -> Expression:
    """Return now, in the session time zone."""
    return TemplateExpression("LOCALTIMESTAMP")


def current_database() -> Expression:
    """Return the name of the current database."""
    return TemplateExpression("CURRENT_DATABASE()")


def current_watermark(rowtimeAttribute: object) -> Expression:  # noqa: N803
    """Return the watermark of a time attribute."""
    return _call("CURRENT_WATERMARK", rowtimeAttribute)


def source_watermark() -> Expression:
    """Return the watermark that the source itself has, for declarations of watermarks."""
    return TemplateExpression("SOURCE_WATERMARK()")


def to_date(date_str: object, format: object = None) -> Expression:
    """Read a date."""
    return _call("TO_DATE", date_str) if format is None else _call("TO_DATE", date_str, format)


def to_timestamp(timestamp_str: object, format: object = None) -> Expression:
    """Read a timestamp."""
    if format is None:
        return _call("TO_TIMESTAMP", timestamp_str)
    return _call("TO_TIMESTAMP", timestamp_str, format)


def to_timestamp_ltz(*args: object) -> Expression:
    """Make a point in time of a number or a text."""
    if not args:
        raise ArgumentError("to_timestamp_ltz needs an operand")
    return _call("TO_TIMESTAMP_LTZ", *args)


def temporal_overlaps(
    left_time_point: object, left_temporal: object, right_time_point: object, right_temporal: object
) -> Expression:
    """Whether two spans of time have a point in common."""
    return TemplateExpression(
        "(({}, {}) OVERLAPS ({}, {}))",
        left_time_point, left_temporal, right_time_point, right_temporal,
    )  # fmt: skip


def date_format(timestamp: object, format: object) -> Expression:
    """Write a timestamp."""
    return _call("DATE_FORMAT", timestamp, format)


def timestamp_diff(
    time_point_unit: TimePointUnit, time_point1: object, time_point2: object
) -> Expression:
    """Count the units between two points in time."""
    return TemplateExpression(
        f"TIMESTAMPDIFF({time_point_unit.name}, {{}}, {{}})", time_point1, time_point2
    )


def convert_tz(date_str: object, tz_from: object, tz_to: object) -> Expression:
    """Write a time of one time zone as that of another."""
    return _call("CONVERT_TZ", date_str, tz_from, tz_to)


def from_unixtime(unixtime: object, format: object = None) -> Expression:
    """Write seconds since 1970 as a time."""
    more = () if format is None else (format,)
    return _call("FROM_UNIXTIME", unixtime, *more)


def unix_timestamp(date_str: object = None, format: object = None) -> Expression:
    """Return seconds since 1970, of now or of a text."""
    return _call("UNIX_TIMESTAMP", *(each for each in (date_str, format) if each is not None))


def array(head: Any, *tail: Any) -> Expression:
    """Make an array."""
    return TemplateExpression(f"ARRAY[{', '.join(['{}'] * (1 + len(tail)))}]", head, *tail)


def row(head: Any, *tail: Any) -> Expression:
    """Make a row."""
    return _call("ROW", head, *tail)


def map_(key: object, value: object, *tail: object) -> Expression:
    """Make a map of alternating keys and values."""
    if len(tail) % 2:
        raise ArgumentError("map_ needs alternating keys and values")
    return TemplateExpression(f"MAP[{', '.join(['{}'] * (2 + len(tail)))}]", key, value, *tail)


def row_interval(rows: int) -> Expression:
    """Return a number of rows, as the bound of a window."""
    if isinstance(rows, bool) or not isinstance(rows, int):
        raise ArgumentTypeError(f"rows must be an int, got {rows!r}")
    return RowCountExpression(rows)


def descriptor(*column_names: str) -> Expression:
    """Name columns for a table function."""
    return TemplateExpression(f"DESCRIPTOR({', '.join(map(quoted_name, column_names))})")


def pi() -> Expression:
    """Return pi."""
    return TemplateExpression("PI()")


def e() -> Expression:
    """Return e."""
    return TemplateExpression("E()")


def rand(seed: object = None) -> Expression:
    """Return a random number from 0 to 1."""
    return _call("RAND") if seed is None else _call("RAND", seed)


def rand_integer(bound: object, seed: object = None) -> Expression:
    """Return a random whole number below a bound."""
    return _call("RAND_INTEGER", bound) if seed is None else _call("RAND_INTEGER", seed, bound)


def atan2(y: object, x: object) -> Expression:
    """Return the angle of a point."""
    return _call("ATAN2", y, x)


def concat(first: Any, *others: Any) -> Expression:
    """Put texts together; NULL if one is."""
    return _call("CONCAT", first, *others)


def concat_ws(separator: object, first: object, *others: object) -> Expression:
    """Put texts together with a separator; NULLs are left out."""
    return _call("CONCAT_WS", separator, first, *others)


def uuid() -> Expression:
    """Return a new UUID."""
    return TemplateExpression("UUID()")


def null_of(data_type: DataType) -> Expression:
    """Return NULL of a type."""
    return ValueExpression(None, data_type)


def log(v: Any, base: Any = None) -> Expression:
    """Return a logarithm, the natural one without a base."""
    return _call("LOG", v) if base is None else _call("LOG", base, v)


def if_then_else(condition: object, if_true: object, if_false: object) -> Expression:
    """Return one value if a condition is TRUE, else another."""
    return TemplateExpression("(CASE WHEN {} THEN {} ELSE {} END)", condition, if_true, if_false)


def json(value: object) -> Expression:
    """Take a text as JSON, inside of json_object and json_array."""
    return _call("JSON", value)


def json_string(value: object) -> Expression:
    """Write a value as JSON."""
    return _call("JSON_STRING", value)


def json_object(on_null: JsonOnNull = JsonOnNull.NULL, *args: object) -> Expression:
    """Make a JSON object of alternating keys and values."""
    if len(args) % 2:
        raise ArgumentError("json_object needs alternating keys and values")
    pairs = ", ".join(["{} VALUE {}"] * (len(args) // 2))
    return TemplateExpression(f"JSON_OBJECT({pairs} {on_null.name} ON NULL)", *args)


def json_array(on_null: JsonOnNull = JsonOnNull.ABSENT, *args: object) -> Expression:
    """Make a JSON array."""
    return TemplateExpression(
        f"JSON_ARRAY({', '.join(['{}'] * len(args))} {on_null.name} ON NULL)", *args
    )


def json_object_agg(on_null: JsonOnNull, key_expr: object, value_expr: object) -> Expression:
    """Make a JSON object of the rows of a group."""
    return TemplateExpression(
        f"JSON_OBJECTAGG(KEY {{}} VALUE {{}} {on_null.name} ON NULL)", key_expr, value_expr
    )


def json_array_agg(on_null: JsonOnNull, item_expr: object) -> Expression:
    """Make a JSON array of the rows of a group."""
    return TemplateExpression(f"JSON_ARRAYAGG({{}} {on_null.name} ON NULL)", item_expr)


def call(f: Any, *args: Any) -> Expression:
    """Call a function: one of SQL or of a catalog by its name, or one that udf() and its kin made."""
    if isinstance(f, str):
        name = ".".join(map(quoted_name, f.split("."))) if "." in f else f
        return TemplateExpression(f"{name}({', '.join(['{}'] * len(args))})", *args)
    return UserFunctionExpression(f, args)


def call_sql(sql_expression: str) -> Expression:
    """Return an expression that is written in SQL."""
    text = sql_expression.replace("{}", "{ }")
    return TemplateExpression(f"({text})")
