"""Lossless encoding of Python values as JSON: the same values with the same types.

None, booleans, numbers, text, lists, and dictionaries with string keys are plain JSON. Everything else is an object with one
member whose name begins with `$`:

| Member | Value |
|---|---|
| `$float` | `nan`, `inf` or `-inf` |
| `$tuple`, `$set`, `$frozenset` | a list |
| `$dict` | a list of pairs: a dictionary whose keys are not plain text |
| `$bytes` | base64 |
| `$date`, `$time`, `$datetime` | ISO 8601; a datetime in a named zone is a pair with the zone |
| `$timedelta` | a list of days, seconds, microseconds |
| `$decimal`, `$uuid` | text |
| `$row` | an object: `kind` (`+I`, `-U`, `+U`, `-D`), `names` (a list or null), `values` |
| `$window` | a pair of start and end, a number, or null: a time, count or global window |
| `$object` | a pair of a Penstock class and an object with its fields |
| `$pickle` | base64: any other value |
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import importlib
import math
import pickle
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from penstock.common.types import Row, RowKind
from penstock.pickling.portable_pickles import dumps
from penstock.savepoint.sharing import shares_objects
from penstock.windowing import CountWindow, GlobalWindow, TimeWindow

MAX_DEPTH: Final = 100
_OURS: Final = "penstock."


@dataclass(frozen=True, slots=True)
class UnopenedPickle:
    """A pickled value that is not unpickled: pickled again, it is the value itself.

    So metadata can be read, and passed on to tasks, where the classes of the job are not available.
    """

    data: bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.data,)


def to_json(value: object) -> Any:
    """Return a value as JSON data.

    >>> to_json({"window": TimeWindow(0, 5), "names": ("a", None)})
    {'window': {'$window': [0, 5]}, 'names': {'$tuple': ['a', None]}}
    """
    return _pickled(value) if shares_objects(value) else _encode(value, 0)


def from_json(data: object, *, load: Callable[[bytes], Any] = pickle.loads) -> object:
    """Return the value that `to_json` encoded; `load` is called with pickled parts: `UnopenedPickle` keeps them pickled.

    >>> from_json({"$tuple": [1, {"$window": [0, 5]}]})
    (1, TimeWindow(start=0, end=5))
    """
    if isinstance(data, list):
        return [from_json(item, load=load) for item in data]
    if not isinstance(data, dict):
        return data
    if len(data) == 1:
        ((tag, content),) = data.items()
        if tag == "$pickle":
            return load(base64.b64decode(content, validate=True))
        if tag.startswith("$"):
            return _DECODERS[tag](content, lambda part: from_json(part, load=load))
    return {key: from_json(item, load=load) for key, item in data.items()}


def pickled_to_json(data: bytes) -> object:
    """Return the JSON data of a pickled value; it stays pickled if its classes are not available here."""
    try:
        return to_json(pickle.loads(data))
    except Exception:  # noqa: BLE001 - unpickling runs the user's code
        return {"$pickle": base64.b64encode(data).decode()}


def _pickled(value: object) -> object:
    return {"$pickle": base64.b64encode(dumps(value)).decode()}


def _encode(value: object, depth: int) -> object:
    kind = type(value)
    if kind in _NATIVE:
        return value
    encoder = _ENCODERS.get(kind)
    if depth > MAX_DEPTH:
        return _pickled(value)
    if encoder is None:
        encoder = _object if kind.__module__.startswith(_OURS) else _any
    found = encoder(value, lambda part: _encode(part, depth + 1))
    return _pickled(value) if found is NotImplemented else found


Part = Callable[[Any], Any]
_NATIVE: Final = frozenset({type(None), bool})


def _any(*_: object) -> object:
    return NotImplemented


def _float(value: float, _: Part) -> object:
    return value if math.isfinite(value) else {"$float": str(value)}


def _str(value: str, _: Part) -> object:
    try:
        value.encode()
    except (
        UnicodeEncodeError
    ):  # half a surrogate pair: two of them would come back as one character
        return NotImplemented
    return value


def _dict(value: dict[Any, Any], part: Part) -> object:
    if all(type(key) is str and key.isprintable() and not key.startswith("$") for key in value):
        return {key: part(item) for key, item in value.items()}
    return {"$dict": [[part(key), part(item)] for key, item in value.items()]}


def _datetime(value: dt.datetime, _: Part) -> object:
    zone = value.tzinfo
    if value.fold:
        return NotImplemented
    if type(zone) is ZoneInfo and zone.key and ZoneInfo(zone.key) is zone:
        return {"$datetime": [value.replace(tzinfo=None).isoformat(), zone.key]}
    # A fixed zone with its own name would lose it.
    if zone is None or (
        type(zone) is dt.timezone and repr(zone) == repr(dt.timezone(zone.utcoffset(None)))
    ):
        return {"$datetime": value.isoformat()}
    return NotImplemented


def _time(value: dt.time, _: Part) -> object:
    if value.fold or value.tzinfo is not None:
        return NotImplemented
    return {"$time": value.isoformat()}


def _timedelta(value: dt.timedelta, _: Part) -> object:
    return {"$timedelta": [value.days, value.seconds, value.microseconds]}


def _uuid(value: uuid.UUID, _: Part) -> object:
    return {"$uuid": str(value)} if value.is_safe is uuid.SafeUUID.unknown else NotImplemented


def _row(value: Row, part: Part) -> Any:
    names = value.get_field_names()
    content = {
        "kind": str(value.get_row_kind()),
        "names": None if names is None else [part(name) for name in names],
        "values": [part(item) for item in value],
    }
    return {"$row": content}


def _object(value: object, part: Part) -> object:
    """Encode an object of one of Penstock's data classes that has nothing but its fields."""
    kind = type(value)
    path = f"{kind.__module__}:{kind.__qualname__}"
    if not dataclasses.is_dataclass(kind) or "__reduce__" in vars(kind) or _find(path) is not kind:
        return NotImplemented
    names = [field.name for field in dataclasses.fields(kind)]
    if not set(getattr(value, "__dict__", ())) <= set(names):
        return NotImplemented
    return {"$object": [path, {name: part(getattr(value, name)) for name in names}]}


def _find(path: str) -> object:
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for each in name.split("."):
        found = getattr(found, each, None)
    return found


def _text(tag: str) -> Callable[[Any, Part], Any]:
    return lambda value, _: {tag: str(value)}


def _items(tag: str) -> Callable[[Any, Part], Any]:
    return lambda value, part: {tag: [part(item) for item in value]}


_ENCODERS: Final[dict[type, Callable[[Any, Part], Any]]] = {
    int: lambda value, _: value if value.bit_length() < 10_000 else NotImplemented,
    float: _float,
    str: _str,
    bytes: lambda value, _: {"$bytes": base64.b64encode(value).decode()},
    list: lambda value, part: [part(item) for item in value],
    tuple: _items("$tuple"),
    set: _items("$set"),
    frozenset: _items("$frozenset"),
    dict: _dict,
    dt.date: lambda value, _: {"$date": value.isoformat()},
    dt.time: _time,
    dt.datetime: _datetime,
    dt.timedelta: _timedelta,
    Decimal: _text("$decimal"),
    uuid.UUID: _uuid,
    Row: _row,
    TimeWindow: lambda window, part: {"$window": [part(window[0]), part(window[1])]},
    CountWindow: lambda window, part: {"$window": part(window[0])},
    GlobalWindow: lambda _window, _part: {"$window": None},
}


def _decode_datetime(content: Any, _: Part) -> dt.datetime:
    if isinstance(content, str):
        return dt.datetime.fromisoformat(content)
    text, zone = content
    return dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def _decode_row(content: Any, part: Part) -> Row:
    kind = RowKind.from_short_string(content["kind"])
    row = Row.of_kind(kind, *map(part, content["values"]))
    if content["names"] is not None:
        row.set_field_names([part(name) for name in content["names"]])
    return row


def _decode_window(content: object, part: Part) -> object:
    if content is None:
        return GlobalWindow()
    return (
        TimeWindow(*map(part, content)) if isinstance(content, list) else CountWindow(part(content))
    )


def _decode_object(content: Any, part: Part) -> object:
    path, fields = content
    kind = _find(path) if path.startswith(_OURS) else None
    if kind is None or not dataclasses.is_dataclass(kind):
        raise ValueError(f"unknown class {path}")
    found: Any = object.__new__(kind)  # type: ignore[arg-type]  # a class, it was found by name
    for field in dataclasses.fields(kind):
        if field.name in fields:
            value = part(fields[field.name])
        elif field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            raise ValueError(f"{path} has no field {field.name}")
        object.__setattr__(found, field.name, value)
    return found


_DECODERS: Final[dict[str, Callable[[Any, Part], Any]]] = {
    "$float": lambda content, _: float(content),
    "$tuple": lambda content, part: tuple(map(part, content)),
    "$set": lambda content, part: set(map(part, content)),
    "$frozenset": lambda content, part: frozenset(map(part, content)),
    "$dict": lambda content, part: {part(key): part(item) for key, item in content},
    "$bytes": lambda content, _: base64.b64decode(content, validate=True),
    "$date": lambda content, _: dt.date.fromisoformat(content),
    "$time": lambda content, _: dt.time.fromisoformat(content),
    "$datetime": _decode_datetime,
    "$timedelta": lambda content, _: dt.timedelta(*content),
    "$decimal": lambda content, _: Decimal(content),
    "$uuid": lambda content, _: uuid.UUID(content),
    "$row": _decode_row,
    "$window": _decode_window,
    "$object": _decode_object,
}
