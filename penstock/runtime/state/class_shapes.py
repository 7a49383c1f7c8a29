"""The fields of classes in state: stored with the state, and compared on restore.

Pickle restores the attributes that an object had. If the program's class has other fields by now, user code fails later, at a
missing field. Shapes are known of dataclasses, NamedTuples, attrs classes, classes with __slots__, and the members of enums.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from penstock.errors import RestoreRefusedError
from penstock.pickling import program_classes

_DEPTH: Final = 6  # nesting depth of objects
_PLAIN: Final = frozenset({bool, int, float, complex, str, bytes, type(None)})
_CONTAINERS: Final = frozenset({list, tuple, set, frozenset})
# Pickle methods that libraries generate: they restore fields by name or by position.
_GENERATED: Final = ("dataclasses", "attr", "attrs")


class ClassShape(NamedTuple):
    """A class by its address, and its parts: fields, or the enum members in use."""

    name: str  # module:qualified name
    kind: str  # fields, positions (restored by position), members
    parts: tuple[str, ...]


def shapes_in(values: Collection[Any], depth: int = _DEPTH) -> dict[str, ClassShape]:
    """Return the shapes of the classes of some objects, and of those nested in them, by name.

    All objects are inspected; of the fields of a class, those of one object.
    """
    # 10 ns per value, which is all that state of plain values pays.
    if _PLAIN.issuperset(map(type, values)):
        return {}
    found: dict[str, ClassShape] = {}
    samples: dict[type, Any] = {}
    nested: list[Iterable[Any]] = []
    kinds = dict.fromkeys(map(type, values))
    for kind in kinds:
        if kind in _PLAIN:
            continue
        # Values of one type, the usual case, are not looked at one by one: that takes 100 ns each.
        same: Collection[Any] = values
        if len(kinds) > 1:
            same = [value for value in values if type(value) is kind]
        if kind in _CONTAINERS:
            nested.extend(same)
        elif kind is dict:
            nested.extend(part for each in same for part in (each.keys(), each.values()))
        elif issubclass(kind, enum.Enum):
            shape = _members(kind, set(same))
            if shape is not None:
                found[shape.name] = shape
        else:
            samples[kind] = next(iter(same))
    if not depth:
        return found
    for kind, sample in samples.items():
        shape = shape_of(kind)
        if shape is not None:
            found[shape.name] = shape
            nested.append([getattr(sample, part, None) for part in shape.parts])
    return {**shapes_in(list(chain.from_iterable(nested)), depth - 1), **found}


def shape_of(kind: type) -> ClassShape | None:
    """Return the shape of a class, if it is known and the class is the user's; None for others."""
    if kind.__module__.partition(".")[0] in {"penstock", "builtins"}:
        return None
    name = f"{kind.__module__}:{kind.__qualname__}"
    if issubclass(kind, tuple):
        fields = getattr(kind, "_fields", None)
        return None if fields is None else ClassShape(name, "positions", tuple(fields))
    if dataclasses.is_dataclass(kind):
        setter = getattr(kind, "__setstate__", None)
        by_position = getattr(setter, "__name__", "") == "_dataclass_setstate"
        parts = tuple(field.name for field in dataclasses.fields(kind))
        return ClassShape(name, "positions" if by_position else "fields", parts)
    attributes = getattr(kind, "__attrs_attrs__", None)
    if attributes is not None:
        return ClassShape(name, "fields", tuple(each.name for each in attributes))
    slots = [_slots(each) for each in reversed(kind.__mro__) if "__slots__" in vars(each)]
    parts = tuple(chain.from_iterable(slots))
    return ClassShape(name, "fields", parts) if parts else None


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind)["__slots__"]
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in {"__weakref__", "__dict__"})


def _members(kind: type, used: Iterable[enum.Enum]) -> ClassShape | None:
    if kind.__module__.partition(".")[0] == "penstock":
        return None
    # Pickle finds a member by its value.
    texts = sorted(f"{each.name} = {each.value!r}" for each in used)
    return ClassShape(f"{kind.__module__}:{kind.__qualname__}", "members", tuple(texts))


def merged(known: Sequence[ClassShape], found: Iterable[ClassShape]) -> tuple[ClassShape, ...]:
    """Merge shapes: the newer shape of a class counts, and all members in use."""
    shapes = {shape.name: shape for shape in known}
    for shape in found:
        before = shapes.get(shape.name)
        if before is not None and shape.kind == before.kind == "members":
            shape = shape._replace(parts=tuple(sorted({*before.parts, *shape.parts})))  # noqa: PLW2901
        shapes[shape.name] = shape
    return tuple(shapes.values())


def check(operator: str, state: str, shapes: Iterable[ClassShape]) -> None:
    """Reject state with objects whose class has other fields, or lacks members, by now."""
    for old in shapes:
        kind = _find(old.name)
        if kind is None or _restores_itself(kind):
            continue
        problem = _difference(old, kind)
        if problem is not None:
            raise RestoreRefusedError(
                f"state '{state}' of operator '{operator}' has objects of the class {old.name.replace(':', '.')}, which has changed",
                detail=problem,
                hint="restore the old names; give new fields a plain default value; add a __setstate__ to the class that handles the old "
                "fields; or rewrite the state with penstock.state",
            )


def _find(name: str) -> type | None:
    """Return the program's class of a name; None if it does not exist, which pickle will report."""
    module, _, path = name.partition(":")
    program = program_classes.current()
    by_value = None if program is None else program.find(module, path)
    if by_value is not None:
        return by_value
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) else None


def _restores_itself(kind: type) -> bool:
    """Whether a class has its own pickle methods: it handles old objects itself."""
    for name in ("__setstate__", "__reduce__", "__reduce_ex__"):
        method = getattr(kind, name, None)
        if method is None or method in (object.__reduce__, object.__reduce_ex__):
            continue
        module = getattr(method, "__module__", None) or ""
        if module.partition(".")[0] not in {*_GENERATED, "enum"}:
            return True
    return False


def _difference(old: ClassShape, kind: type) -> str | None:
    if old.kind == "members":
        if not issubclass(kind, enum.Enum):
            return "it was an enum and no longer is"
        values = {repr(each.value) for each in kind}
        gone = [each for each in old.parts if each.partition(" = ")[2] not in values]
        there = ", ".join(f"{each.name} = {each.value!r}" for each in kind)
        return f"missing members: {', '.join(gone)}; members: {there}" if gone else None
    new = shape_of(kind)
    if new is None:
        return None
    if "positions" in {old.kind, new.kind}:
        fits = new.parts[: len(old.parts)] == old.parts
    else:
        fits = set(old.parts) <= set(new.parts)
    added = [part for part in new.parts if part not in old.parts]
    missing = [part for part in added if not _has_default(kind, part)]
    if fits and not missing:
        return None
    problem = f"fields in the state: {', '.join(old.parts)}; fields of the program: {', '.join(new.parts)}"
    if fits:
        problem += f"; new ones without a value in old objects: {', '.join(missing)}"
    return problem


def _has_default(kind: type, field: str) -> bool:
    """Whether objects pickled without a field have a value for it: pickle does not call __init__."""
    if field in getattr(kind, "_field_defaults", {}):
        return True
    value = getattr(kind, field, _MISSING)
    return value is not _MISSING and not hasattr(value, "__set__")


_MISSING: Final = object()
