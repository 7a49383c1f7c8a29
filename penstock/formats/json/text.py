"""JSON text of values, like Flink's JSON rows: decimals with all their digits, timestamps in ISO format."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from penstock.common.types import Row
from penstock.common.user_types import Record
from penstock.formats.base.decimals import decimal_fitter, to_decimal
from penstock.formats.base.field_types import FieldType
from penstock.formats.base.rows import field_values
from penstock.time.durations import Instant

Writer = Callable[[Any], str]


def json_writer(kind: FieldType) -> Writer:
    """Return the function that writes values of a type as JSON."""
    write = _writer(kind)
    return lambda value: "null" if value is None else write(value)


def _writer(kind: FieldType) -> Writer:
    name = kind.kind
    if name == "ROW":
        return _row_writer(kind)
    if name == "ARRAY":
        element = json_writer(kind.fields[0][1])
        return lambda values: f"[{','.join(map(element, values))}]"
    if name == "MAP":
        item = json_writer(kind.fields[1][1])
        return lambda values: _object(
            f"{_text(str(key))}:{item(value)}" for key, value in values.items()
        )
    if name == "DECIMAL" and kind.precision is not None:
        fit = decimal_fitter(kind.precision, kind.scale or 0)
        return lambda value: "null" if (found := fit(value)) is None else _decimal(found)
    if name in {"DECIMAL", "DECIMAL0"}:
        return lambda value: _decimal(to_decimal(value))
    if name == "TIME":
        return lambda value: _text(f"{value.isoformat()}Z" if isinstance(value, dt.time) else value)
    if name == "TIMESTAMP":
        return lambda value: _text(_moment(value) if isinstance(value, dt.datetime) else value)
    return json_text


def _row_writer(kind: FieldType) -> Writer:
    names = kind.names
    fields = [(f"{_text(name)}:", json_writer(inner)) for name, inner in kind.fields]

    def write(record: Record) -> str:
        values = zip(fields, field_values(record, names), strict=True)
        return _object([label + each(value) for (label, each), value in values])

    return write


def _object(members: Iterable[str]) -> str:
    return f"{{{','.join(members)}}}"


def json_text(value: object) -> str:
    """Write a value by its Python class."""
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if isinstance(value, Row):
        return _text(value.as_dict(recursive=True))
    if isinstance(value, decimal.Decimal):
        return _decimal(value)
    if isinstance(value, Instant):
        fraction = f"{value.nanos:09d}".rstrip("0")
        moment = f"{dt.datetime.fromtimestamp(value.seconds, dt.UTC):%Y-%m-%dT%H:%M:%S}"
        return _text(f"{moment}.{fraction}Z" if fraction else f"{moment}Z")
    if isinstance(value, dt.datetime):
        return _text(_moment(value))
    if isinstance(value, (dt.date, dt.time)):
        return _text(value.isoformat())
    if isinstance(value, (bytes, bytearray)):
        return _text(base64.b64encode(value).decode("ascii"))
    return _text(value)


def _decimal(number: decimal.Decimal) -> str:
    exponent = number.as_tuple().exponent
    return f"{number:f}" if isinstance(exponent, int) and exponent > 0 else str(number)


def _moment(value: dt.datetime) -> str:
    """Return a datetime in ISO format; one without a time zone is in UTC."""
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return f"{value.isoformat()}Z"


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
