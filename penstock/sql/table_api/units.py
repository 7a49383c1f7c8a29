"""SQL keywords as enums: time units, and the behaviour of JSON functions for missing values."""

from __future__ import annotations

import enum


class TimeIntervalUnit(enum.Enum):
    """A unit of time, or a range of units."""

    YEAR = 0
    YEAR_TO_MONTH = 1
    QUARTER = 2
    MONTH = 3
    WEEK = 4
    DAY = 5
    DAY_TO_HOUR = 6
    DAY_TO_MINUTE = 7
    DAY_TO_SECOND = 8
    HOUR = 9
    SECOND = 10
    HOUR_TO_MINUTE = 11
    HOUR_TO_SECOND = 12
    MINUTE = 13
    MINUTE_TO_SECOND = 14


class TimePointUnit(enum.Enum):
    """A unit that points in time are counted by."""

    YEAR = 0
    MONTH = 1
    DAY = 2
    HOUR = 3
    MINUTE = 4
    SECOND = 5
    QUARTER = 6
    WEEK = 7
    MILLISECOND = 8
    MICROSECOND = 9


class JsonType(enum.Enum):
    """A kind of JSON."""

    VALUE = 0
    SCALAR = 1
    ARRAY = 2
    OBJECT = 3


class JsonExistsOnError(enum.Enum):
    """Result of JSON_EXISTS if its operand is not valid JSON."""

    TRUE = 0
    FALSE = 1
    UNKNOWN = 2
    ERROR = 3


class JsonValueOnEmptyOrError(enum.Enum):
    """Result of JSON_VALUE if there is no value."""

    NULL = 0
    ERROR = 1
    DEFAULT = 2


class JsonQueryWrapper(enum.Enum):
    """Whether JSON_QUERY wraps its result in an array."""

    WITHOUT_ARRAY = 0
    CONDITIONAL_ARRAY = 1
    UNCONDITIONAL_ARRAY = 2


class JsonQueryOnEmptyOrError(enum.Enum):
    """Result of JSON_QUERY if the path matches nothing."""

    NULL = 0
    EMPTY_ARRAY = 1
    EMPTY_OBJECT = 2
    ERROR = 3


class JsonOnNull(enum.Enum):
    """Handling of NULL in generated JSON."""

    NULL = 0
    ABSENT = 1
