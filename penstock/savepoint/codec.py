"""Lossless encoding of Python columns as Arrow arrays: the same values with the same types.

`infer` checks all values of a column and finds the most open type without loss. Values without such a type (objects of
the user's
classes, or values of several types) are pickled, as deep inside as possible: of a list of pairs of a name and an object
only the
objects are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, Final

import pyarrow as pa

from penstock.common.types import Row, RowKind, make_row
from penstock.pickling.portable_pickles import dumps
from penstock.savepoint import scalars
from penstock.savepoint.scalars import Codec, NullCodec, PickleCodec
from penstock.savepoint.sharing import shares_objects

MAX_DEPTH: Final = 12
MAX_FIELDS: Final = 64

NULL: Final = NullCodec()
PICKLED: Final = PickleCodec()
_ROW_KIND: Final = "row_kind"


@dataclass(frozen=True, slots=True)
class TupleCodec(Codec):
    """Tuples of one length, as structs with the fields f0, f1..."""

    fields: tuple[Codec, ...]

    @property
    def arrow_type(self) -> object:
        """A struct."""
        return pa.struct([(f"f{i}", field.arrow_type) for i, field in enumerate(self.fields)])

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        return _struct(self.arrow_type, values, self.fields, values)

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        return _each(array, zip(*_parts(array, self.fields), strict=True), tuple)

    def to_json(self) -> dict[str, Any]:
        """Return the codec as JSON data."""
        return {"type": "tuple", "fields": [field.to_json() for field in self.fields]}

    def merged(self, other: Codec) -> Codec:
        """Return a codec for the values of both."""
        if isinstance(other, SequenceCodec):
            return other.merged(self)
        if not isinstance(other, TupleCodec):
            return PICKLED
        if len(self.fields) == len(other.fields):
            return TupleCodec(tuple(map(merge, self.fields, other.fields)))
        return _tuples_of_any_length(merge_all([*self.fields, *other.fields]))


@dataclass(frozen=True, slots=True)
class RowCodec(Codec):
    """Rows with the same field names, as structs; with `kinds` not all have the row kind INSERT."""

    names: tuple[str, ...] | None
    fields: tuple[Codec, ...]
    kinds: bool

    @property
    def arrow_type(self) -> object:
        """A struct."""
        names = [f"f{i}" for i in range(len(self.fields))] if self.names is None else self.names
        found = [(name, field.arrow_type) for name, field in zip(names, self.fields, strict=True)]
        return pa.struct(found + ([(_ROW_KIND, pa.string())] if self.kinds else []))

    def _all_fields(self) -> tuple[Codec, ...]:
        return (*self.fields, scalars.STR) if self.kinds else self.fields

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        parts: list[Any] = [None if row is None else list(row) for row in values]
        if self.kinds:
            for part, row in zip(parts, values, strict=True):
                if part is not None:
                    part.append(row.get_row_kind().short_string)
        return _struct(self.arrow_type, values, self._all_fields(), parts)

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        names: Any = self.names

        def plain(parts: Any) -> Row:
            return make_row(names, list(parts), RowKind.INSERT)

        def of_kind(parts: Any) -> Row:
            *fields, kind = parts
            return make_row(names, fields, RowKind.from_short_string(kind))

        parts = zip(*_parts(array, self._all_fields()), strict=True)
        return _each(array, parts, of_kind if self.kinds else plain)

    def to_json(self) -> dict[str, Any]:
        """Return the codec as JSON data."""
        return {
            "type": "row",
            "names": None if self.names is None else list(self.names),
            "fields": [field.to_json() for field in self.fields],
            "kinds": self.kinds,
        }

    def merged(self, other: Codec) -> Codec:
        """Return a codec for the values of both."""
        if (
            not isinstance(other, RowCodec)
            or (self.names, len(self.fields)) != (other.names, len(other.fields))
            or ((self.kinds or other.kinds) and _ROW_KIND in (self.names or ()))
        ):
            return PICKLED
        fields = tuple(map(merge, self.fields, other.fields))
        return RowCodec(self.names, fields, self.kinds or other.kinds)


_CONTAINERS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}


@dataclass(frozen=True, slots=True)
class SequenceCodec(Codec):
    """Lists, sets, or tuples of any length, as lists; `kind` is their type."""

    kind: str
    element: Codec

    @property
    def arrow_type(self) -> object:
        """A list."""
        return pa.list_(self.element.arrow_type)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        elements = self.element.encode(
            list(chain.from_iterable(v for v in values if v is not None))
        )
        return pa.ListArray.from_arrays(_offsets(values), elements, type=self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        make = _CONTAINERS[self.kind]
        pieces, (elements,) = _pieces(array, [array.values], [self.element])
        return [None if p is None else make(elements[p]) for p in pieces]

    def to_json(self) -> dict[str, Any]:
        """Return the codec as JSON data."""
        name = "tuple of any length" if self.kind == "tuple" else self.kind
        return {"type": name, "element": self.element.to_json()}

    def merged(self, other: Codec) -> Codec:
        """Return a codec for the values of both."""
        if self.kind == "tuple" and isinstance(other, TupleCodec):
            return _tuples_of_any_length(merge_all([self.element, *other.fields]))
        if not isinstance(other, SequenceCodec) or self.kind != other.kind:
            return PICKLED
        element = merge(self.element, other.element)
        return (
            _tuples_of_any_length(element)
            if self.kind == "tuple"
            else SequenceCodec(self.kind, element)
        )


@dataclass(frozen=True, slots=True)
class DictCodec(Codec):
    """Dictionaries, as maps, in order. Keys are pickled if any is None: a map has no null keys."""

    key: Codec
    value: Codec

    @property
    def arrow_type(self) -> object:
        """A map."""
        key = pa.string() if self.key == NULL else self.key.arrow_type  # NULL: all are empty
        return pa.map_(key, self.value.arrow_type)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return an array of values."""
        present = [value for value in values if value is not None]
        keys = list(chain.from_iterable(present))
        items = self.value.encode(list(chain.from_iterable(d.values() for d in present)))
        if self.key == PICKLED:
            encoded = pa.array([dumps(key) for key in keys], pa.binary())
        else:
            encoded = pa.array([], pa.string()) if self.key == NULL else self.key.encode(keys)
        return pa.MapArray.from_arrays(_offsets(values), encoded, items, type=self.arrow_type)

    def decode(self, array: pa.Array) -> list[Any]:
        """Return the values of an array."""
        pieces, (keys, items) = _pieces(
            array,
            [array.keys, array.items],
            [scalars.STR if self.key == NULL else self.key, self.value],
        )
        return [None if p is None else dict(zip(keys[p], items[p], strict=True)) for p in pieces]

    def to_json(self) -> dict[str, Any]:
        """Return the codec as JSON data."""
        return {"type": "dict", "key": self.key.to_json(), "value": self.value.to_json()}

    def merged(self, other: Codec) -> Codec:
        """Return a codec for the values of both."""
        if not isinstance(other, DictCodec):
            return PICKLED
        return DictCodec(merge(self.key, other.key), merge(self.value, other.value))


# Inference.


def infer(values: Sequence[Any]) -> Codec:
    """Return the codec of a column: the most open lossless one.

    >>> infer([1, None, 2]).to_json(), infer([1, 2.0]).to_json()
    ({'type': 'int'}, {'type': 'pickle'})
    """
    if any(map(shares_objects, values)):
        return PICKLED
    return _infer(values, 0)


def merge(one: Codec, other: Codec) -> Codec:
    """Return a codec for the values of both: one of the two if it covers the other."""
    if other in (one, NULL):
        return one
    if one == NULL:
        return other
    return PICKLED if PICKLED in (one, other) else one.merged(other)


def merge_all(codecs: Sequence[Codec]) -> Codec:
    """Return a codec for the values of all."""
    found: Codec = NULL
    for codec in codecs:
        found = merge(found, codec)
    return found


def _infer(values: Sequence[Any], depth: int) -> Codec:
    kinds = set(map(type, values))
    kinds.discard(type(None))
    if not kinds:
        return NULL
    kind = kinds.pop()
    if kinds or depth > MAX_DEPTH:
        return PICKLED
    present = [value for value in values if value is not None]
    scalar = scalars.INFERRED.get(kind)
    if scalar is not None:
        return scalar(present) or PICKLED
    nested = _NESTED.get(kind)
    return PICKLED if nested is None else nested(present, depth + 1)


def _infer_tuples(values: list[Any], depth: int) -> Codec:
    lengths = set(map(len, values))
    if len(lengths) == 1 and 0 < len(values[0]) <= MAX_FIELDS:
        return TupleCodec(tuple(_infer(column, depth) for column in zip(*values, strict=True)))
    return _tuples_of_any_length(_infer(list(chain.from_iterable(values)), depth))


def _tuples_of_any_length(element: Codec) -> Codec:
    return PICKLED if element == PICKLED else SequenceCodec("tuple", element)


def _infer_rows(values: list[Any], depth: int) -> Codec:
    first = values[0]
    names = first.get_field_names()
    if any(len(row) != len(first) or row.get_field_names() != names for row in values):
        return PICKLED
    if not 0 < len(first) <= MAX_FIELDS or (names is not None and not _are_good(names)):
        return PICKLED
    kinds = any(row.get_row_kind() is not RowKind.INSERT for row in values)
    if kinds and _ROW_KIND in (names or ()):
        return PICKLED
    fields = tuple(_infer(column, depth) for column in zip(*values, strict=True))
    return RowCodec(None if names is None else tuple(names), fields, kinds)


def _are_good(names: list[Any]) -> bool:
    """Whether names are valid column names."""
    texts = all(type(name) is str and name and scalars.is_text(name) for name in names)
    return texts and len(set(names)) == len(names)


def _infer_sequences(kind: str) -> Callable[[list[Any], int], Codec]:
    return lambda values, depth: SequenceCodec(
        kind, _infer(list(chain.from_iterable(values)), depth)
    )


def _infer_dicts(values: list[Any], depth: int) -> Codec:
    keys = list(chain.from_iterable(values))
    key = PICKLED if any(key is None for key in keys) else _infer(keys, depth)
    return DictCodec(key, _infer(list(chain.from_iterable(d.values() for d in values)), depth))


_NESTED: Final[dict[type, Callable[[list[Any], int], Codec]]] = {
    tuple: _infer_tuples,
    Row: _infer_rows,
    list: _infer_sequences("list"),
    set: _infer_sequences("set"),
    frozenset: _infer_sequences("frozenset"),
    dict: _infer_dicts,
}


def from_json(value: dict[str, Any]) -> Codec:
    """Read what `Codec.to_json` returned."""
    kind = value["type"]
    if kind == "tuple":
        return TupleCodec(tuple(map(from_json, value["fields"])))
    if kind == "row":
        names = value["names"]
        fields = tuple(map(from_json, value["fields"]))
        return RowCodec(None if names is None else tuple(names), fields, value["kinds"])
    if kind == "dict":
        return DictCodec(from_json(value["key"]), from_json(value["value"]))
    if "element" in value:
        name = "tuple" if kind == "tuple of any length" else kind
        return SequenceCodec(name, from_json(value["element"]))
    return scalars.from_json(value)


# Nested arrays.


def _struct(
    kind: Any, values: Sequence[Any], fields: Sequence[Codec], parts: Sequence[Any]
) -> object:
    """Return a struct array: null where a value is None, else of the items of its part."""
    absent = (None,) * len(fields)
    columns = zip(*(absent if part is None else part for part in parts), strict=True)
    # Without rows there are no columns to transpose.
    lists: list[Any] = list(columns) if parts else [() for _ in fields]
    arrays = [field.encode(list(column)) for field, column in zip(fields, lists, strict=True)]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def _parts(array: pa.Array, fields: Sequence[Codec]) -> list[list[Any]]:
    return [field.decode(array.field(i)) for i, field in enumerate(fields)]


def _each(array: pa.Array, parts: Any, make: Callable[[Any], Any]) -> list[Any]:
    if array.null_count == 0:
        return [make(part) for part in parts]
    valid = array.is_valid().to_pylist()
    return [make(part) if there else None for part, there in zip(parts, valid, strict=True)]


def _offsets(values: Sequence[Any]) -> object:
    """Return the start of each value's elements; null means that the value is None."""
    ends = list(accumulate((0 if v is None else len(v) for v in values), initial=0))
    starts = [None if v is None else start for v, start in zip(values, ends, strict=False)]
    return pa.array([*starts, ends[-1]], pa.int32())


def _pieces(
    array: pa.Array, children: Sequence[Any], codecs: Sequence[Codec]
) -> tuple[list[slice | None], list[list[Any]]]:
    """Return the element ranges of each value, and the elements."""
    offsets = array.offsets.to_pylist()
    first, last = (offsets[0], offsets[-1]) if len(array) else (0, 0)
    pieces: list[Any] = [slice(start - first, end - first) for start, end in pairwise(offsets)]
    if array.null_count:
        valid = array.is_valid().to_pylist()
        pieces = [piece if there else None for piece, there in zip(pieces, valid, strict=True)]
    elements = [
        codec.decode(child.slice(first, last - first))
        for codec, child in zip(codecs, children, strict=True)
    ]
    return pieces, elements


__all__ = ["NULL", "PICKLED", "Codec", "from_json", "infer", "merge"]
