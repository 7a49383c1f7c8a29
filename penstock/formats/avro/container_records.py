"""Avro files that Polars cannot read or write, record by record: with maps, with fields of type null, with unions, or compressed otherwise."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Final

import polars as pl

from penstock.formats.avro.schema import AvroSchema, fastavro
from penstock.formats.avro.values import datum_maker
from penstock.runtime.columnar.values import series_of
from penstock.sql import types as t

Convert = Callable[[Any], Any]
PolarsType = pl.DataType | pl.datatypes.DataTypeClass

_MAGIC: Final = b"Obj\x01"
_CODECS: Final = frozenset({"null", "deflate", "snappy"})
_PRIMITIVES: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})


def needs_records(data: bytes) -> bool:
    """Whether a file is Avro, and has something that Polars does not read. A map would end the process."""
    if not data.startswith(_MAGIC):
        return False
    try:
        header = _header(data)
        codec, schema = (
            header.get("avro.codec", b"null").decode(),
            json.loads(header["avro.schema"]),
        )
    except (ValueError, KeyError):
        return False  # it is damaged, as Polars will say
    return codec not in _CODECS or not _is_plain(schema)


def _header(data: bytes) -> dict[str, bytes]:
    """Return the metadata of a container file."""
    stream = io.BytesIO(data)
    stream.seek(len(_MAGIC))
    found = {}
    while count := _number(stream):
        if count < 0:  # the size of the block follows
            count = -count
            _number(stream)
        for _ in range(count):
            key = stream.read(_number(stream)).decode()
            found[key] = stream.read(_number(stream))
    return found


def _number(stream: io.BytesIO) -> int:
    """Read a number as Avro writes it: seven bits in a byte, the sign in the last bit."""
    found = shift = 0
    while True:
        (byte,) = stream.read(1)
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1)
        shift += 7


def _is_plain(schema: object) -> bool:
    """Whether Polars reads values of a schema.

    >>> _is_plain(["null", "int"]), _is_plain(["int", "long"]), _is_plain({"type": "map", "values": "int"})
    (True, False, False)
    """
    match schema:
        case str():
            return schema in _PRIMITIVES
        case [one, other]:
            others = [each for each in (one, other) if each != "null"]
            return len(others) == 1 and _is_plain(others[0])
        case {"type": "record", "fields": fields}:
            return all(_is_plain(each["type"]) for each in fields)
        case {"type": "array", "items": items}:
            return _is_plain(items)
        case {"type": "enum" | "fixed"}:
            return True
        case {"type": inner}:
            return _is_plain(inner)
    return False


def read_records(
    data: bytes, types: Mapping[str, t.DataType], columns: Sequence[str], rows: int
) -> Iterator[pl.DataFrame]:
    """Yield frames of these columns, as far as the file has them."""
    reader = fastavro().reader(io.BytesIO(data))
    there = {each["name"] for each in reader.writer_schema["fields"]}
    wanted = [name for name in columns if name in there]
    convert = {name: _converter(types[name]) for name in wanted}
    while records := _following(reader, rows):
        yield pl.DataFrame(
            [
                series_of(
                    name,
                    [_changed(each[name], convert[name]) for each in records],
                    types[name],
                    name,
                )
                for name in wanted
            ]
        )


def write_records(
    frame: pl.DataFrame,
    maps: Mapping[str, pl.DataType],
    compression: str,
    stream: IO[bytes],
) -> None:
    """Write a file with maps; the schema is the one that Polars gives it, but for the maps."""
    buffer = io.BytesIO()
    frame.clear().write_avro(buffer)
    schema = json.loads(_header(buffer.getvalue())["avro.schema"])
    schema["name"] = "record"  # Polars gives it none
    for field in schema["fields"]:
        if field["name"] in maps:
            field["type"] = _with_maps(field["type"], maps[field["name"]])
    parsed = AvroSchema(schema)
    make = datum_maker(parsed)
    rows = _dictionaries(frame, maps)
    fastavro().writer(stream, parsed.parsed, map(make, rows), codec=_codec(compression))


def _dictionaries(frame: pl.DataFrame, maps: Mapping[str, pl.DataType]) -> Iterator[Any]:
    changed = {name: _entries_to_map(kind) for name, kind in maps.items()}
    for row in frame.iter_rows(named=True):
        for name, change in changed.items():
            row[name] = _changed(row[name], change)
        yield row


def _entries_to_map(kind: PolarsType) -> Convert | None:
    """Return a converter from lists of keys and values to dictionaries; None if the type has no maps."""
    match kind:
        case pl.Map():
            inner = _entries_to_map(kind.value)
            return lambda entries: {each["key"]: _changed(each["value"], inner) for each in entries}
        case pl.List():
            inner = _entries_to_map(kind.inner)
            return inner and (lambda values: [_changed(each, inner) for each in values])
        case pl.Struct():
            fields = {each.name: _entries_to_map(each.dtype) for each in kind.fields}
            return lambda value: {name: _changed(value[name], fields[name]) for name in value}
    return None


def _with_maps(schema: Any, kind: PolarsType) -> object:
    """Return the schema of a type in which arrays of keys and values are maps."""
    match schema:
        case ["null", inner]:
            return ["null", _with_maps(inner, kind)]
        case {"type": "array", "items": items} if isinstance(kind, pl.Map):
            _, record = items  # null or a record of a key and a value
            value = record["fields"][1]["type"]
            return {"type": "map", "values": _with_maps(value, kind.value)}
        case {"type": "array", "items": items} if isinstance(kind, pl.List):
            return {"type": "array", "items": _with_maps(items, kind.inner)}
        case {"type": "record", "fields": fields} if isinstance(kind, pl.Struct):
            kinds = {each.name: each.dtype for each in kind.fields}
            changed = [
                {**each, "type": _with_maps(each["type"], kinds[each["name"]])} for each in fields
            ]
            return {**schema, "fields": changed}
    return schema


def merge_records(files: Sequence[bytes], compression: str, out: IO[bytes]) -> None:
    """Write the records of files that have the same schema into one."""
    readers = [fastavro().reader(io.BytesIO(each)) for each in files]
    records = itertools.chain.from_iterable(readers)
    fastavro().writer(out, readers[0].writer_schema, records, codec=_codec(compression))


def _codec(compression: str) -> str:
    return "null" if compression == "uncompressed" else compression


def _following(reader: Iterator[Any], rows: int) -> list[Any]:
    try:
        return list(itertools.islice(reader, rows))
    except Exception as error:  # fastavro raises errors of many classes on damaged bytes
        raise pl.exceptions.ComputeError(str(error)) from error


def _changed(value: Any, convert: Convert | None) -> object:
    return value if convert is None or value is None else convert(value)


def _converter(kind: t.DataType) -> Convert | None:
    """Return a converter for values that fastavro returns; None if they need no conversion."""
    match kind:
        case t.TimestampType():
            return _without_zone
        case t.CharType() | t.VarCharType():
            return str  # a UUID is an object
        case t.TimeType():
            return _time_of_day
        case t.ArrayType():
            inner = _converter(kind.element_type)
            return inner and (lambda value: [_changed(each, inner) for each in value])
        case t.MapType():
            inner = _converter(kind.value_type)
            return inner and (
                lambda value: {key: _changed(each, inner) for key, each in value.items()}
            )
        case t.RowType():
            fields = {each.name: _converter(each.data_type) for each in kind.fields}
            return lambda value: {
                name: _changed(value.get(name), each) for name, each in fields.items()
            }
    return None


def _time_of_day(value: object) -> object:
    """Return the time of a number of milliseconds, which is how Flink and this project write it."""
    if isinstance(value, int):
        return (dt.datetime.min + dt.timedelta(milliseconds=value)).time()
    return value


def _without_zone(value: object) -> object:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value
