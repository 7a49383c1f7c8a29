"""A reader of savepoints that knows docs/how-to/savepoints.md, pyarrow and JSON, and nothing of Penstock."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import uuid
import zlib
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq


def read_metadata(savepoint):
    """The metadata of a savepoint, as JSON data."""
    first, _, rest = Path(savepoint, "_metadata").read_bytes().partition(b"\n")
    assert json.loads(first) == {
        "format": "penstock-savepoint",
        "sha256": hashlib.sha256(rest).hexdigest(),
    }
    return json.loads(rest)


TAGS = {
    "$float": float,
    "$tuple": lambda content: tuple(map(value_of, content)),
    "$set": lambda content: set(map(value_of, content)),
    "$frozenset": lambda content: frozenset(map(value_of, content)),
    "$dict": lambda content: {value_of(key): value_of(item) for key, item in content},
    "$bytes": base64.b64decode,
    "$date": dt.date.fromisoformat,
    "$time": dt.time.fromisoformat,
    "$datetime": lambda content: (
        dt.datetime.fromisoformat(content)
        if isinstance(content, str)
        else dt.datetime.fromisoformat(content[0]).replace(tzinfo=ZoneInfo(content[1]))
    ),
    "$timedelta": lambda content: dt.timedelta(*content),
    "$decimal": Decimal,
    "$uuid": uuid.UUID,
    "$row": lambda content: row(content["kind"], content["names"], content["values"], value_of),
    "$window": lambda content: window(*content if isinstance(content, list) else [content]),
    "$object": lambda content: (content[0], value_of(content[1])),
    "$pickle": lambda content: ("pickle", base64.b64decode(content)),
}


def value_of(data):
    """The value that JSON data of the metadata stands for."""
    if isinstance(data, list):
        return [value_of(item) for item in data]
    if not isinstance(data, dict):
        return data
    if len(data) == 1 and next(iter(data)).startswith("$"):
        ((tag, content),) = data.items()
        return TAGS[tag](content)
    return {key: value_of(item) for key, item in data.items()}


def row(kind, names, values, read):
    return "row", kind, names and tuple(names), tuple(map(read, values))


def window(*parts):
    return ("window", *(part for part in parts if part is not None))


def column_value(value, column):
    """A value of a column, from what pyarrow gives; `column` is its description."""
    if value is None:
        return None
    match column["type"]:
        case "tuple":
            return tuple(
                column_value(value[f"f{at}"], kind) for at, kind in enumerate(column["fields"])
            )
        case "row":
            fields, names = column["fields"], column["names"]
            keys = names or [f"f{at}" for at in range(len(fields))]
            parts = [column_value(value[key], kind) for key, kind in zip(keys, fields, strict=True)]
            return row(value["row_kind"] if column["kinds"] else "+I", names, parts, lambda x: x)
        case "list" | "set" | "frozenset" | "tuple of any length" as kind:
            make = {"list": list, "set": set, "frozenset": frozenset}.get(kind, tuple)
            return make(column_value(item, column["element"]) for item in value)
        case "dict":
            return {
                column_value(key, column["key"]): column_value(item, column["value"])
                for key, item in value
            }
        case "decimal text":
            return Decimal(value)
        case "uuid":
            return uuid.UUID(bytes=value)
        case "time window":
            return window(value["start"], value["end"])
        case "count window":
            return window(value["id"])
        case "global window":
            return window()
        case "pickle":
            return "pickle", value
    return value


def read_tables(savepoint, operator):
    """The entries of an operator's tables, by name: (key, namespace, value) or (key, namespace, timestamp)."""
    found = {}
    for tables in operator["tables"]:
        for name, table in tables.items():
            rows = [row for file in table["files"] for row in read_file(savepoint, name, file)]
            assert len(rows) == table["rows"]
            found.setdefault(name, []).extend(rows)
    return found


def read_file(savepoint, name, file):
    path = Path(savepoint, file["file"])
    data = path.read_bytes()
    assert (len(data), zlib.crc32(data)) == (file["size"], file["crc32"])
    table = pq.read_table(path)
    described = json.loads(table.schema.metadata[b"penstock"])
    assert described["table"]["name"] == name
    groups = table.column("key_group").to_pylist()
    assert file["key_groups"] == [min(groups), max(groups) + 1]
    columns = {
        column: [column_value(value, kind) for value in table.column(column).to_pylist()]
        for column, kind in described["columns"].items()
    }
    nothing = [None] * table.num_rows
    last = columns["timestamp" if name.startswith("timers/") else "value"]
    return list(zip(columns["key"], columns.get("namespace", nothing), last, strict=True))
