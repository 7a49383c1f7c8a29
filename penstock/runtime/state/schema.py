"""What a state is: kept with its entries, and compared with what the program says when it is restored.

Values are Python objects, so most changes of a type would go unnoticed until user code reads something it does not
expect. So a change is refused when the state is asked for, unless every value of the old type is one of the new type.
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

VERSION: Final = 1  # of the way in which values are kept

# A type to the ones whose values it may hold as well: as Python objects they are the same.
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
    """The kind of a state, the type of its values (None: any), whether they expire, and the classes of objects among them."""

    kind: str
    shape: Shape | None
    text: str
    ttl: bool
    version: int = VERSION
    classes: tuple[ClassShape, ...] = ()

    def __setstate__(self, state: list[Any]) -> None:
        """Take the fields in their order; state that was written before there were classes has none."""
        for each, value in zip(fields(self), [*state, ()], strict=False):
            object.__setattr__(self, each.name, value)

    @property
    def holds_objects(self) -> bool:
        """Whether values may be objects of any class: their type is not declared, or not in all its parts."""
        return _is_open(self.shape)

    @classmethod
    def of(cls, descriptor: Any) -> StateSchema:
        """Return the schema that a descriptor asks for."""
        type_info = getattr(descriptor, "type_info", None)
        return cls(
            kind=descriptor.kind,
            shape=None if type_info is None else shape_of(type_info),
            text="any type" if type_info is None else repr(type_info),
            ttl=getattr(descriptor, "ttl_config", None) is not None,
        )


def shape_of(type_info: Any) -> Shape | None:
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


def _is_open(shape: Any) -> bool:
    return shape is None or (isinstance(shape, tuple) and any(map(_is_open, shape)))


def difference(old: Shape | None, new: Shape | None) -> str | None:
    """Say why values of the old type cannot stand for the new one, or return None: they can.

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
    """Return the schema of a state whose entries come from two subtasks, which knew it at different times.

    It is the one whose type holds the values of both. Whether they expire is what `one` says.
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
        detail="the program has changed the state before all subtasks had used it, and their entries come together now",
        hint="restore without changing the parallelism, or from a checkpoint or savepoint before the change",
    )


def ttl_converter(expires: bool, now: int) -> Callable[[Any], Any]:
    """Return what makes a value one that expires, or no longer does. What did not expire is as old as `now`."""
    if expires:
        return lambda value: (value, now)
    return lambda value: value[0]


def check(operator: str, state: str, old: StateSchema, new: StateSchema) -> None:
    """Refuse a state that the program wants to read as something else than it is."""
    reason = None
    if old.version > new.version:
        reason = f"it was written in format {old.version}, this Penstock knows format {new.version}"
    elif old.kind != new.kind:
        reason = f"{old.kind} state became {new.kind} state"
    else:
        reason = difference(old.shape, new.shape)
    if reason is not None:
        raise RestoreRefusedError(
            f"state '{state}' of operator '{operator}' was {old.kind} state of {old.text}, the program asks for "
            f"{new.kind} state of {new.text}",
            detail=reason,
            hint="go back to the old type, or give the state descriptor another name: the state then starts empty",
        )
    class_shapes.check(operator, state, old.classes)
