"""Conversion of Protobuf messages to Rows or dicts, and of Rows, dicts or objects to messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.common.types import Row, RowKind, make_row
from penstock.formats.base.field_types import INTEGER_KINDS, FieldType
from penstock.formats.base.rows import field_values
from penstock.formats.protobuf.types import is_map

Convert = Callable[[Any], Any]
Make = Callable[[tuple[str, ...], list[Any]], Any]


def as_row(names: tuple[str, ...], values: list[Any]) -> Row:
    """Create a Row."""
    return make_row(names, values, RowKind.INSERT)


def as_dict(names: tuple[str, ...], values: list[Any]) -> dict[str, Any]:
    """Create a dict."""
    return dict(zip(names, values, strict=True))


class MessageReader:
    """Builds converters from messages to Rows or dicts; recursive types are resolved when they are used."""

    def __init__(self, make: Make, *, defaults: bool) -> None:
        self._make = make
        self._defaults = defaults
        self._known: dict[str, Convert] = {}

    def of(self, descriptor: Any, row: FieldType | None) -> Convert:
        """Return the converter for messages of a type; with a row type, for its fields only."""
        declared = row is not None and row.kind == "ROW"
        if not declared and descriptor.full_name in self._known:
            return self._known[descriptor.full_name]
        fields: list[tuple[str, bool, Convert]] = []
        names: list[str] = []

        def convert(message: Any) -> Any:
            has = message.HasField
            return make(
                all_names,
                [
                    None if asks and not has(name) else each(getattr(message, name))
                    for name, asks, each in fields
                ],
            )

        make = self._make
        if not declared:
            self._known[descriptor.full_name] = convert
        wanted = dict(row.fields) if declared and row is not None else None
        for name in wanted or [each.name for each in descriptor.fields]:
            field = descriptor.fields_by_name[name]
            kind = None if wanted is None else wanted[name]
            is_message = field.message_type is not None
            asks = field.has_presence and (is_message or not self._defaults)
            fields.append((name, asks, self._field(field, kind)))
            names.append(name)
        all_names = tuple(names)
        return convert

    def _field(self, field: Any, kind: FieldType | None) -> Convert:
        inner = kind.fields[-1][1] if kind is not None and kind.kind in {"ARRAY", "MAP"} else None
        if is_map(field):
            value = self._single(field.message_type.fields_by_name["value"], inner)
            return lambda items: {key: value(item) for key, item in items.items()}
        if field.is_repeated:
            element = self._single(field, inner)
            return list if element is _same else lambda items: list(map(element, items))
        return self._single(field, kind)

    def _single(self, field: Any, kind: FieldType | None) -> Convert:
        if field.message_type is not None:
            return self.of(field.message_type, kind)
        if field.enum_type is not None and (kind is None or kind.kind not in INTEGER_KINDS):
            names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
            return lambda number: names.get(
                number, str(number)
            )  # open enums may have numbers without a name
        return _same


def fill(message: Any, record: object, row: FieldType | None = None) -> Any:
    """Set the fields of a message from a Row, a dict, a tuple or an object; None leaves a field unset."""
    descriptor = message.DESCRIPTOR
    declared = row is not None and row.kind == "ROW"
    kinds = dict(row.fields) if declared and row is not None else {}
    names = list(kinds) or [each.name for each in descriptor.fields]
    if isinstance(record, Mapping) and (unknown := record.keys() - set(names)):
        raise ValueError(f"{descriptor.full_name} has no field {min(map(str, unknown))!r}")
    for name, value in zip(names, field_values(record, names), strict=True):
        if value is not None:
            try:
                _set(message, descriptor.fields_by_name[name], value, kinds.get(name))
            except (TypeError, ValueError, AttributeError) as error:
                raise ValueError(f"field {name!r}: {error}") from error
    return message


def _set(message: Any, field: Any, value: Any, kind: FieldType | None) -> None:
    inner = kind.fields[-1][1] if kind is not None and kind.kind in {"ARRAY", "MAP"} else None
    target = getattr(message, field.name)
    if is_map(field):
        holds = field.message_type.fields_by_name["value"]
        for key, item in value.items():
            if item is None:
                raise ValueError(f"the value of key {key!r} is None: a map cannot contain None")
            if holds.message_type is not None:
                fill(target[key], item, inner)
            else:
                target[key] = _number(holds, item)
    elif field.is_repeated:
        for item in value:
            if item is None:
                raise ValueError("a repeated field cannot contain None")
            if field.message_type is not None:
                fill(target.add(), item, inner)
            else:
                target.append(_number(field, item))
    elif field.message_type is not None:
        target.SetInParent()
        fill(target, value, kind)
    else:
        setattr(message, field.name, _number(field, value))


def _number(field: Any, value: Any) -> Any:
    """Return an enum's number for its name; other values are unchanged."""
    if field.enum_type is None or not isinstance(value, str):
        return value
    named = field.enum_type.values_by_name.get(value)
    if named is not None:
        return named.number
    if value.lstrip("-").isdecimal():  # that is how a number without a name was read
        return int(value)
    raise ValueError(f"{field.enum_type.full_name} has no value {value!r}")


def _same(value: object) -> Any:
    return value
