"""Checks that the functions of a program can be sent to tasks."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from penstock.errors import InvalidProgramError
from penstock.graph.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    Transformation,
)

_MAX_DEPTH = 12


def check_serializable(transformations: Iterable[Transformation]) -> list[type]:
    """Reject functions that cannot be sent to tasks; name the operator and the part that cannot be pickled.

    Return the classes that are sent with them, because tasks cannot import them.
    """
    from penstock.pickling import cloudpickling

    classes: dict[type, None] = {}
    seen: set[int] = set()
    stack = list(transformations)
    while stack:
        step = stack.pop()
        if step.id in seen:
            continue
        seen.add(step.id)
        stack.extend(step.inputs)
        if isinstance(step, OperatorTransformation):
            parts = [step.spec, *step.key_selectors]
        elif isinstance(step, PartitionTransformation):
            parts = [step.partitioning]
        else:
            continue
        for part in parts:
            try:
                classes.update(dict.fromkeys(cloudpickling.classes_in(part)))
            except Exception as error:
                raise _not_serializable(step, part, error) from error
    return list(classes)


def _pickle_error(value: object) -> Exception | None:
    from penstock.pickling import cloudpickling

    try:
        cloudpickling.dumps(value)
    except Exception as error:  # noqa: BLE001 - user objects may raise anything
        return error
    return None


def _not_serializable(step: Transformation, part: object, error: Exception) -> InvalidProgramError:
    path, culprit = _find_culprit(part, "", 0, set())
    where = f"{path} is a {type(culprit).__qualname__}, which cannot be pickled" if path else ""
    cause = f"{type(error).__name__}: {error}"
    return InvalidProgramError(
        f"operator '{step.name}' cannot be sent to tasks",
        detail=f"{where}: {cause}" if where else cause,
        hint="create connections, locks and similar objects in open(), or inside the function that uses them",
    )


def _find_culprit(value: object, path: str, depth: int, seen: set[int]) -> tuple[str, Any]:
    """Find the innermost part that cannot be pickled."""
    if depth < _MAX_DEPTH:
        for name, child in _children(value):
            if id(child) in seen:
                continue
            seen.add(id(child))
            if _pickle_error(child) is not None:
                return _find_culprit(child, f"{path}{name}", depth + 1, seen)
    return path, value


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value with their descriptions."""
    if isinstance(value, types.MethodType):
        yield "the object of the method", value.__self__
    elif isinstance(value, types.FunctionType):
        yield from _captured(value)
    elif isinstance(value, functools.partial):
        yield "the function of the partial", value.func
        yield from ((f", argument {i}", item) for i, item in enumerate(value.args))
        yield from ((f", argument {name}", item) for name, item in value.keywords.items())
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        # a part of the plan: the user does not know its field names
        yield from (("", getattr(value, field.name)) for field in fields(value))
    elif hasattr(value, "__dict__") and not isinstance(value, type | types.ModuleType):
        yield from ((f".{name}", item) for name, item in vars(value).items())


def _captured(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f"variable '{name}' of {function.__qualname__}", cell.cell_contents
        except ValueError:  # an unassigned variable
            continue
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield f"global '{name}' of {function.__qualname__}", function.__globals__[name]
    for index, default in enumerate(function.__defaults__ or ()):
        yield f"default {index} of {function.__qualname__}", default


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)
