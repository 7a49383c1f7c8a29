"""Converts records to the parameters of a statement."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.type_information import BasicType, BasicTypeInfo, TypeInformation
from penstock.common.typeinfo import MapTypeInfo, RowTypeInfo, TupleTypeInfo, check_type
from penstock.common.types import Row
from penstock.errors import ArgumentError, ArgumentTypeError, RecordError
from penstock.time.durations import Instant

Setter = Callable[[Any], Sequence[Any]]


class Parameters:
    """Returns the parameters of each record: the fields of a row or tuple, one value, or the result of a user function."""

    def __init__(
        self, count: int, type_info: TypeInformation | None, setter: Setter | None = None
    ) -> None:
        if setter is not None and not callable(setter):
            raise ArgumentTypeError(
                "the parameter setter is not callable",
                detail=f"got {setter!r}",
                hint="pass a function of the record that returns the parameters in order",
            )
        self.count = count
        self._setter = setter
        self._converters: list[Callable[[Any], Any] | None] | None = None
        self._single = False
        if type_info is not None:
            self._use(check_type(type_info, "type_info"))

    def _use(self, kind: TypeInformation) -> None:
        if self._setter is not None:
            return
        if isinstance(kind, RowTypeInfo | TupleTypeInfo):
            types = list(kind.get_field_types())
        else:
            types, self._single = [kind], True
        if len(types) != self.count:
            raise ArgumentError(
                "the statement's parameters do not match the type of the records",
                detail=f"the statement has {self.count} parameters (?), the type has {len(types)} fields: {kind}",
                hint="use one ? for each field of the type, in order; the operator ? of PostgreSQL is written ??",
            )
        converters = [_converter(each) for each in types]
        if any(converters):
            self._converters = converters

    def of(self, values: list[Any]) -> list[Sequence[Any]]:
        """Return the parameters of records."""
        if self._setter is not None:
            rows = [self._checked(self._setter(value), value) for value in values]
        elif self._single:
            rows = [(value,) for value in values]
        else:
            rows = [self._fields(value) for value in values]
        if self._converters is not None:
            rows = [self._converted(row, self._converters) for row in rows]
        return rows

    def _fields(self, value: object) -> Sequence[Any]:
        if isinstance(value, Row):
            return self._checked(tuple(value), value)
        return self._checked(value, value)

    def _checked(self, row: Any, value: object) -> Sequence[Any]:
        if isinstance(row, tuple | list) and len(row) == self.count:
            return row
        if self.count == 1 and not isinstance(row, tuple | list):
            return (row,)
        found = (
            f"has {len(row)} fields" if isinstance(row, tuple | list) else "is not a row or a tuple"
        )
        raise RecordError(
            "a record does not match the statement",
            detail=f"record: {value!r} {found}, the statement has {self.count} parameters",
            hint="map the stream to rows or tuples with one field for each ?, or pass a parameter setter",
        )

    @staticmethod
    def _converted(
        row: Sequence[Any], converters: list[Callable[[Any], Any] | None]
    ) -> tuple[Any, ...]:
        return tuple(
            value if convert is None or value is None else convert(value)
            for value, convert in zip(row, converters, strict=True)
        )


def _converter(kind: TypeInformation) -> Callable[[Any], Any] | None:
    """Return the converter to a value that drivers accept; None if they accept the value unchanged."""
    if isinstance(kind, MapTypeInfo):
        return _json
    if isinstance(kind, BasicTypeInfo) and kind == BasicTypeInfo(BasicType.INSTANT):
        return _moment
    return None


def _json(value: object) -> str:
    return json.dumps(value, default=str)


def _moment(value: object) -> object:
    if isinstance(value, Instant):
        begin = dt.datetime.fromtimestamp(value.seconds, dt.UTC)
        return begin.replace(microsecond=value.nanos // 1000)
    return value
