"""State schemas: stored with the entries of a state, and compared with the program on restore.

Values are Python objects, so most changes of a type would go unnoticed until user code reads an unexpected value. So a change
is rejected when the state is accessed, unless every value of the old type is also one of the new type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from penstock.common.type_information import BasicTypeInfo, PickledBytesTypeInfo
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.errors import RestoreRefusedError
from penstock.runtime.state import class_shapes
from penstock.runtime.state.class_shapes import ClassShape

VERSION: Final = 1  # of the storage format of values

# A type to the types whose values it can also hold: as Python objects they are the same.
_WIDER: Final = {
    "Byte": {"Short", "Integer", "Long", "BigInteger"},
    "Short": {"Integer", "Long", "BigInteger"},
    "Integer": {"Long", "BigInteger"},
    "Long": {"BigInteger"},
    "Float": {"Double"},
    "Character": {"String"},
}

Shape = tuple[Any, ...]  # name of the type, then its parts


@dataclass(frozen=True, slots=True)
class StateSchema:
    """The kind of a state, the type of its values (None: any), whether it has a TTL, and the classes of objects in it."""

    kind: str
    shape: Shape | None
    text: str
    ttl: bool
    version: int = VERSION
    classes: tuple[ClassShape, ...] = ()

    def __setstate__(self, state: list[Any]) -> None:
        """Restore the fields in order; older state has no classes."""
        for each, value in zip(fields(self), [*state, ()], strict=False):
            object.__setattr__(self, each.name, value)

    @property
    def holds_objects(self) -> bool:
        """Whether values may be objects of any class: their type is not declared, or not completely."""
        return _is_open(self.shape)

    @classmethod
    def of(cls, descriptor: Any) -> StateSchema:
        """Return the schema of a descriptor."""
        type_info = getattr(descriptor, "type_info", None)
        return cls(
            kind=descriptor.kind,
            shape=None if type_info is None else shape_of(type_info),
            text="any type" if type_info is None else repr(type_info),
            ttl=getattr(descriptor, "ttl_config", None) is not None,
        )


def shape_of(type_info: object) -> Shape | None:
    """Return a type as plain data; None for the type of any object."""
    if isinstance(type_info, PickledBytesTypeInfo):
        return None
    if isinstance(type_info, BasicTypeInfo):
        return (repr(type_info),)
    if isinstance(type_info, RowTypeInfo):
        pairs = zip(type_info.get_field_names(), type_info.get_field_types(), strict=True)
        return ("Row", *((name, shape_of(kind)) for name, kind in pairs))
    if isinstance(type_info, TupleTypeInfo):
        return ("Tuple", *map(shape_of, type_info.get_field_types()))
    if isinstance(type_info, MapTypeInfo):
        return ("Map", shape_of(type_info.key_type_info), shape_of(type_info.value_type_info))
    if isinstance(
        type_info, ListTypeInfo | BasicArrayTypeInfo | ObjectArrayTypeInfo | PrimitiveArrayTypeInfo
    ):
        return (type(type_info).__name__, shape_of(type_info.elem_type))
    return (repr(type_info),)


def _is_open(shape: object) -> bool:
    return shape is None or (isinstance(shape, tuple) and any(map(_is_open, shape)))


def difference(old: Shape | None, new: Shape | None) -> str | None:
    """Return why values of the old type are not compatible with the new one, or None if they are.

    >>> difference(("Integer",), ("Long",)) is None
    True
    >>> difference(("Long",), ("Integer",))
    'Long became Integer'
    """
    if old is None or new is None or old == new:
        return None
    if old[0] != new[0]:
        return None if new[0] in _WIDER.get(old[0], ()) else f"{old[0]} became {new[0]}"
    if len(old) != len(new):
        return f"{old[0]} had {len(old) - 1} fields and has {len(new) - 1}"
    for position, (before, after) in enumerate(zip(old[1:], new[1:], strict=True)):
        if old[0] == "Row":
            if before[0] != after[0]:
                return f"field {position} was '{before[0]}' and is '{after[0]}'"
            found = difference(before[1], after[1])
            where = f"field '{before[0]}'"
        else:
            found = difference(before, after)
            where = f"part {position} of {old[0]}"
        if found is not None:
            return f"{where}: {found}"
    return None


def combined(operator: str, state: str, one: StateSchema, other: StateSchema) -> StateSchema:
    """Return the combined schema of a state whose entries come from two subtasks with different schemas.

    It is the one whose type can hold the values of both. The TTL setting is that of `one`.
    """
    if one.kind == other.kind:
        classes = class_shapes.merged(other.classes, one.classes)
        if one.shape is None or difference(other.shape, one.shape) is None:
            return replace(one, classes=classes)
        if other.shape is None or difference(one.shape, other.shape) is None:
            return replace(other, ttl=one.ttl, classes=classes)
    raise RestoreRefusedError(
        f"state '{state}' of operator '{operator}' is {one.kind} state of {one.text} in one subtask and {other.kind} "
        f"state of {other.text} in another",
        detail="the program changed the state before all subtasks had used it, and now their entries are merged",
        hint="restore without changing the parallelism, or from a checkpoint or savepoint before the change",
    )


def ttl_converter(expires: bool, now: int) -> Callable[[Any], Any]:
    """Return a function that adds or removes the TTL timestamp of a value. New timestamps are `now`."""
    if expires:
        return lambda value: (value, now)
    return lambda value: value[0]


def check(operator: str, state: str, old: StateSchema, new: StateSchema) -> None:
    """Reject a state that the program accesses with an incompatible schema."""
    reason = None
    if old.version > new.version:
        reason = f"it was written in format {old.version}, but this version of Penstock supports format {new.version}"
    elif old.kind != new.kind:
        reason = f"{old.kind} state became {new.kind} state"
    else:
        reason = difference(old.shape, new.shape)
    if reason is not None:
        raise RestoreRefusedError(
            f"state '{state}' of operator '{operator}' was {old.kind} state of {old.text}, but the program declares "
            f"{new.kind} state of {new.text}",
            detail=reason,
            hint="restore the old type, or rename the state descriptor: the state then starts empty",
        )
    class_shapes.check(operator, state, old.classes)
