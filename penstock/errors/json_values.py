"""JSON values as objects of msgspec types. A value that its type does not allow is reported by the name of its field."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, UnsetType, ValidationError

from penstock.errors import ArgumentError, PenstockError

T = TypeVar("T")

_WORDS: Final[dict[object, str]] = {
    str: "a string",
    bytes: "a string in base64",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def read_json(values: object, wanted: type[T]) -> T:
    """Return JSON values as an object of a type.

    The message for a value that its type refuses takes its words from the description in the type's `Meta`, if it has one.

    >>> class Point(Struct, forbid_unknown_fields=True):
    ...     x: int
    >>> read_json({"x": 1}, Point)
    Point(x=1)
    >>> read_json({"x": "1"}, Point)
    Traceback (most recent call last):
    penstock.errors.ArgumentError: field 'x' must be an integer
    """
    try:
        return msgspec.convert(values, wanted)
    except ValidationError as error:
        if isinstance(error.__cause__, PenstockError):  # of a check that the type itself makes
            raise error.__cause__ from None
        raise _refused(values, wanted, "") from error


class _Plain(NamedTuple):
    """A type without `None`, `UNSET` and annotations, and the words that describe its values."""

    type: Any
    words: str


def _plain(wanted: Any) -> _Plain:
    described = ""
    while True:
        origin = get_origin(wanted)
        if origin is Annotated:
            wanted, *notes = get_args(wanted)
            found = (each.description for each in notes if isinstance(each, Meta))
            described = next((each for each in found if each), described)
        elif origin is Union or origin is types.UnionType:
            wanted = next(each for each in get_args(wanted) if each not in {type(None), UnsetType})
        else:
            return _Plain(wanted, described or _words_of(wanted, origin))


def _words_of(wanted: Any, origin: object) -> str:
    if origin is Literal:
        return " or ".join(map(str, get_args(wanted)))
    return _WORDS.get(origin or wanted, "an object")


def _refused(value: object, wanted: Any, path: str) -> ArgumentError:
    """Return the error for a value that a type does not allow: the one of its first wrong part, if a part is wrong."""
    kind = _plain(wanted)
    if isinstance(kind.type, type) and issubclass(kind.type, Struct) and isinstance(value, Mapping):
        error = _wrong_fields(value, kind.type, path)
        if error is not None:
            return error
    for name, part, type_of_part in _parts(value, kind.type):
        try:
            msgspec.convert(part, type_of_part)
        except ValidationError:
            return _refused(part, type_of_part, f"{path}.{name}" if path else name)
    what = f"field '{path}'" if path else "the body"
    return ArgumentError(f"{what} must be {kind.words}")


def _wrong_fields(
    value: Mapping[str, object], kind: type[Struct], path: str
) -> ArgumentError | None:
    """Return the error for a field that is unknown, which may be misspelt, or for one that is missing."""
    of = f" of '{path}'" if path else ""
    fields = msgspec.structs.fields(kind)
    known = [each.encode_name for each in fields]
    unknown = sorted(set(value) - set(known))
    if unknown and kind.__struct_config__.forbid_unknown_fields:
        hint = f"known fields are {', '.join(known)}" if known else None
        return ArgumentError(f"unknown field '{unknown[0]}'{of}", hint=hint)
    for each in fields:
        if each.required and each.encode_name not in value:
            return ArgumentError(f"missing field '{each.encode_name}'{of}")
    return None


def _parts(value: object, kind: Any) -> Iterator[tuple[str, object, Any]]:
    """Yield the name, the value and the type of each part of a value that a type allows to have parts."""
    if isinstance(value, Mapping):
        if isinstance(kind, type) and issubclass(kind, Struct):
            for each in msgspec.structs.fields(kind):
                if each.encode_name in value:
                    yield each.encode_name, value[each.encode_name], each.type
        elif get_origin(kind) is dict:
            for name, part in value.items():
                yield name, part, get_args(kind)[1]
    elif isinstance(value, list) and get_origin(kind) is list:
        for number, part in enumerate(value):
            yield str(number), part, get_args(kind)[0]
