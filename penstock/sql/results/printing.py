"""Rows as text: Flink's tableau of a result, and the schema of a table as a tree."""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from penstock.common.types import Row
from penstock.sql import types as t
from penstock.sql.results.resolved_schema import ResolvedSchema
from penstock.time.nanoseconds import nanos_of_second

MAX_COLUMN_WIDTH = 30
_NULL = "<NULL>"
_CUT = "..."
_KIND = "op"
_DIGITS: dict[type[t.DataType], int] = {
    t.TinyIntType: 4,
    t.SmallIntType: 6,
    t.IntType: 11,
    t.BigIntType: 20,
    t.BooleanType: 5,
    t.DateType: 10,
}


def text_of(value: object, kind: t.DataType, zone: str = "UTC") -> str:
    """Return a value as Flink's CAST to STRING writes it.

    >>> text_of(True, t.BooleanType()), text_of(dt.datetime(2024, 1, 2), t.TimestampType(3))
    ('TRUE', '2024-01-02 00:00:00.000')
    """
    if value is None:
        return "NULL"
    write = _WRITERS.get(type(kind))
    return str(value) if write is None else write(value, kind, zone)


def _fraction(nanos: int, precision: int) -> str:
    return f".{nanos:09d}"[: precision + 1] if precision else ""


def _timestamp(value: Any, kind: Any, _zone: str) -> str:
    if not isinstance(value, dt.datetime):
        return str(value)
    return f"{value:%Y-%m-%d %H:%M:%S}" + _fraction(nanos_of_second(value), kind.precision)


def _zoned(value: object, kind: object, zone: str) -> str:
    to_instant = getattr(value, "to_epoch_milli", None)
    if callable(to_instant):  # an Instant, as PyFlink's programs have them
        value = dt.datetime.fromtimestamp(to_instant() / 1000, dt.UTC)
    if not isinstance(value, dt.datetime):
        return str(value)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    return _timestamp(aware.astimezone(ZoneInfo(zone)), kind, zone)


def _time(value: Any, kind: Any, _zone: str) -> str:
    return f"{value:%H:%M:%S}" + _fraction(value.microsecond * 1000, kind.precision)


def _boolean(value: object, _kind: object, _zone: str) -> str:
    return "TRUE" if value else "FALSE"


def _float(value: Any, kind: object, _zone: str) -> str:
    if value != value:  # noqa: PLR0124 - only NaN is not itself
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    shown = _shortest(value, single=isinstance(kind, t.FloatType))
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:
        plain = format(Decimal(shown), "f")
        return plain if "." in plain else f"{plain}.0"
    sign, digits, exponent = Decimal(shown).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def _shortest(value: float, *, single: bool) -> str:
    if not single:
        return repr(float(value))
    import numpy as np

    return str(np.float32(value))


def _decimal(value: object, kind: Any, _zone: str) -> str:
    return f"{value:.{kind.scale}f}"


def _bytes(value: Any, _kind: object, _zone: str) -> str:
    return f"x'{bytes(value).hex()}'"


def _bitmap(value: Any, _kind: object, _zone: str) -> str:
    from penstock.runtime.columnar.bitmaps import text_of as bitmap_text

    return bitmap_text(value)


def _array(value: Any, kind: Any, zone: str) -> str:
    return f"[{', '.join(text_of(each, kind.element_type, zone) for each in value)}]"


def _map(value: Any, kind: Any, zone: str) -> str:
    pairs = (
        f"{text_of(key, kind.key_type, zone)}={text_of(each, kind.value_type, zone)}"
        for key, each in value.items()
    )
    return f"{{{', '.join(pairs)}}}"


def _multiset(value: Any, kind: Any, zone: str) -> str:
    pairs = (f"{text_of(key, kind.element_type, zone)}={count}" for key, count in value.items())
    return f"{{{', '.join(pairs)}}}"


def _row(value: Any, kind: Any, zone: str) -> str:
    fields = value.values() if isinstance(value, dict) else value
    pairs = zip(fields, kind.field_types(), strict=True)
    return f"({', '.join(text_of(each, inner, zone) for each, inner in pairs)})"


def _days(value: object, _kind: object, _zone: str) -> str:
    if not isinstance(value, dt.timedelta):
        return str(value)
    millis = value // dt.timedelta(milliseconds=1)
    rest, sign = abs(millis), "-" if millis < 0 else "+"
    days, rest = divmod(rest, 86_400_000)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, rest = divmod(rest, 1000)
    return f"{sign}{days} {hours:02d}:{minutes:02d}:{seconds:02d}.{rest:03d}"


def _months(value: Any, _kind: object, _zone: str) -> str:
    years, months = divmod(abs(int(value)), 12)
    return f"{'-' if value < 0 else '+'}{years}-{months:02d}"


_WRITERS: dict[type[t.DataType], Callable[[Any, Any, str], str]] = {
    t.BooleanType: _boolean,
    t.FloatType: _float,
    t.DoubleType: _float,
    t.DecimalType: _decimal,
    t.TimestampType: _timestamp,
    t.LocalZonedTimestampType: _zoned,
    t.TimeType: _time,
    t.BinaryType: _bytes,
    t.VarBinaryType: _bytes,
    t.BitmapType: _bitmap,
    t.ArrayType: _array,
    t.MapType: _map,
    t.MultisetType: _multiset,
    t.RowType: _row,
    t.DayTimeIntervalType: _days,
    t.YearMonthIntervalType: _months,
}


def width_by_type(kind: t.DataType, widest: int = MAX_COLUMN_WIDTH) -> int:
    """Return how wide a column is printed whose values are not known yet.

    >>> width_by_type(t.BigIntType()), width_by_type(t.TimestampType(3)), width_by_type(t.VarCharType(5))
    (20, 23, 30)
    """
    if isinstance(kind, t.DecimalType):
        return kind.precision + 2
    if isinstance(kind, t.TimestampType | t.LocalZonedTimestampType):
        return 19 + (kind.precision + 1 if kind.precision else 0)
    if isinstance(kind, t.TimeType):
        return 8 + (kind.precision + 1 if kind.precision else 0)
    return _DIGITS.get(type(kind), widest)


def display_width(text: str) -> int:
    """Return how many columns of a terminal a text takes: East Asian characters take two."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def _fit(text: str, width: int) -> str:
    text = text.replace("\n", "\\n") if "\n" in text else text
    if display_width(text) > width:
        kept = ""
        for each in text:
            if display_width(kept) + display_width(each) > width - len(_CUT):
                break
            kept += each
        text = kept + _CUT
    return " " * (width - display_width(text)) + text


class ResultTable:
    """Lines of a table drawn with characters, as Flink prints results.

    With `by_type` the columns are as wide as their types ask, so that rows can be printed as they come; else as wide as the values.
    """

    def __init__(
        self,
        schema: ResolvedSchema,
        *,
        zone: str = "UTC",
        kinds: bool = False,
        by_type: bool = False,
        widest: int = MAX_COLUMN_WIDTH,
        null: str = _NULL,
    ) -> None:
        self._types = schema.get_column_data_types()
        self._names = schema.get_column_names()
        self._zone = zone
        self._kinds = kinds
        self._by_type = by_type
        self._widest = widest
        self._null = null

    def lines(self, rows: Iterable[Row]) -> Iterator[str]:
        """Yield all lines for all rows, the count at the end."""
        if self._by_type:
            texts: Iterable[list[str]] = map(self._texts, rows)
            widths = [
                max(width_by_type(kind, self._widest), display_width(name), len(self._null))
                for kind, name in zip(self._types, self._names, strict=True)
            ]
        else:
            texts = [self._texts(row) for row in rows]
            widths = self._widths(texts)
        if self._kinds:
            widths = [len(_KIND), *widths]
        count = 0
        for each in texts:
            if count == 0:
                yield from self._head(widths)
            count += 1
            yield self._line(each, widths)
        if count == 0:
            yield "Empty set"
            return
        yield self._border(widths)
        yield "1 row in set" if count == 1 else f"{count} rows in set"

    def _widths(self, texts: Sequence[list[str]]) -> list[int]:
        widths = [display_width(name) for name in self._names]
        skip = 1 if self._kinds else 0
        for each in texts:
            for index, text in enumerate(each[skip:]):
                widths[index] = max(widths[index], min(display_width(text), self._widest))
        return widths

    def _texts(self, row: Row) -> list[str]:
        texts = [
            self._null if value is None else text_of(value, kind, self._zone)
            for value, kind in zip(row, self._types, strict=True)
        ]
        return [str(row.get_row_kind()), *texts] if self._kinds else texts

    def _head(self, widths: list[int]) -> Iterator[str]:
        border = self._border(widths)
        yield border
        yield self._line([_KIND, *self._names] if self._kinds else self._names, widths)
        yield border

    def _border(self, widths: list[int]) -> str:
        return "+" + "+".join("-" * (width + 2) for width in widths) + "+"

    def _line(self, texts: list[str], widths: list[int]) -> str:
        cells = (_fit(text, width) for text, width in zip(texts, widths, strict=True))
        return "| " + " | ".join(cells) + " |"


__all__ = ["MAX_COLUMN_WIDTH", "ResultTable", "display_width", "text_of", "width_by_type"]
