"""Conversion of values for fastavro: Rows become dicts when writing, and dicts become Rows when reading."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable
from typing import Any

from penstock.common.types import Row
from penstock.common.user_types import Record
from penstock.formats.avro.schema import AvroSchema
from penstock.formats.base.rows import field_values, row_of
from penstock.time.durations import Instant

Maker = Callable[[Any], Any]

_PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def datum_maker(schema: AvroSchema) -> Maker:
    """Return the function that converts a record to a value that fastavro writes."""
    numbers = {
        "int": _integer_of(32),
        "long": _integer_of(64),
    }  # fastavro does not check their range
    return _Makers(_record_datum, _datum_scalar, numbers).of(schema.parsed)


def row_maker(schema: AvroSchema) -> Maker:
    """Return the function that converts a value read by fastavro to a Row, with the value types of Flink's rows.

    Timestamps are datetimes without a time zone, in UTC.
    """
    return _Makers(_row, _row_scalar, {}).of(schema.parsed)


class _Makers:
    """Builds converters for a schema; recursive types are resolved when they are used."""

    def __init__(
        self,
        record: Callable[[tuple[str, ...], list[Maker]], Maker],
        scalar: Callable[[str | None], Maker],
        plain: dict[str, Maker],
    ) -> None:
        self._record = record
        self._scalar = scalar
        self._plain = plain  # by the name of a primitive type
        self._named: dict[str, Maker] = {}

    def of(self, schema: Any) -> Maker:
        """Return the converter for values of a type."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in _PRIMITIVE:
                return self._plain.get(schema, _same)
            return functools.partial(self._by_name, schema)
        kind = schema["type"]
        if kind in {"record", "error"}:
            fields = schema["fields"]
            made = self._record(
                tuple(field["name"] for field in fields), [self.of(f["type"]) for f in fields]
            )
            self._named[schema["name"]] = made
            return made
        if kind == "array":
            item = self.of(schema["items"])
            return lambda values: list(map(item, values))
        if kind == "map":
            item = self.of(schema["values"])
            return lambda values: {key: item(value) for key, value in values.items()}
        return self._scalar(schema.get("logicalType"))

    def _by_name(self, name: str, value: Any) -> object:
        """Convert a value of a named record type; values of other named types are unchanged."""
        return self._named.get(name, _same)(value)

    def _union(self, schema: list[Any]) -> Maker:
        others = [each for each in schema if each != "null"]
        if len(others) == 1:
            only = self.of(others[0])
            return lambda value: None if value is None else only(value)
        records = [each for each in others if isinstance(each, dict) and each["type"] == "record"]
        makers = [self.of(each) for each in others]
        if len(records) != 1:
            return _same
        record = makers[others.index(records[0])]
        return lambda value: record(value) if isinstance(value, (Row, dict)) else value


def _record_datum(names: tuple[str, ...], makers: list[Maker]) -> Maker:
    def make(record: Record) -> dict[str, Any]:
        values = field_values(record, names)
        return {name: each(value) for name, each, value in zip(names, makers, values, strict=True)}

    return make


def _integer_of(bits: int) -> Maker:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)

    def check(value: Any) -> Any:
        if isinstance(value, int) and not low <= value < high:
            raise ValueError(f"{value} does not fit into {bits} bits")
        return value

    return check


def _datum_scalar(logical: str | None) -> Maker:
    if logical is not None and "timestamp" in logical:
        return _moment
    return _same


def _moment(value: object) -> object:
    """Return an Instant as a datetime; one without a time zone is in UTC."""
    if isinstance(value, Instant):
        return _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    return value


def _row(names: tuple[str, ...], makers: list[Maker]) -> Maker:
    def make(record: dict[str, Any]) -> Row:
        return row_of(names, [each(record[name]) for name, each in zip(names, makers, strict=True)])

    return make


def _row_scalar(logical: str | None) -> Maker:
    if logical is not None and "timestamp" in logical:
        return lambda value: value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value
    return _same


def _same(value: Any) -> Any:
    return value
