"""Checks of arguments, made where the program is written."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from penstock.datastream.basic_functions import Function
from penstock.errors import ArgumentError, ArgumentTypeError
from penstock.errors.argument_checks import check_int, describe, named

MAX_PARALLELISM_LIMIT = 32768


def check_function(function: Any, kind: type, method: str, arguments: tuple[str, ...]) -> None:
    """Reject a value that is neither a callable nor an object with the method of its kind.

    `arguments` are the names of the function's arguments.
    """
    if isinstance(function, type) and issubclass(function, Function):
        raise ArgumentTypeError(
            f"{named(kind)} object is required, got {describe(function)}",
            hint=f"create an object of it: {function.__name__}()",
        )
    if isinstance(function, Function) and not callable(getattr(function, method, None)):
        raise ArgumentTypeError(
            f"{named(kind)} or a callable is required, got an object of {type(function).__name__}",
            detail=f"{type(function).__name__} has no method '{method}'",
            hint=f"derive {type(function).__name__} from {kind.__name__}, or call the method that takes it",
        )
    has_method = not isinstance(function, type) and callable(getattr(function, method, None))
    if not has_method and not callable(function):
        raise ArgumentTypeError(
            f"{named(kind)} or a callable is required, got {describe(function)}",
            hint=f"pass a function or lambda that takes ({', '.join(arguments)})",
        )
    target = getattr(function, method) if has_method else function
    _check_arity(target, kind, arguments)


def _check_arity(target: Callable[..., Any], kind: type, arguments: tuple[str, ...]) -> None:
    if isinstance(target, type):
        return  # signatures of classes are often wrong, such as those of int and str
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # builtins without a signature
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        name = getattr(target, "__qualname__", type(target).__name__)
        raise ArgumentTypeError(
            f"{name}{signature} cannot be called as {kind.__name__}: {error}",
            hint=f"it is called with ({', '.join(arguments)})",
        ) from None


def check_parallelism(parallelism: Any, max_parallelism: int | None = None) -> int:
    """Reject a parallelism that no operator can have."""
    check_int(parallelism, "parallelism")
    if parallelism < 1:
        raise ArgumentError(
            f"parallelism must be at least 1, got {parallelism}",
            hint="leave it unset to use the environment's default",
        )
    if parallelism > MAX_PARALLELISM_LIMIT:
        raise ArgumentError(
            f"parallelism must be at most {MAX_PARALLELISM_LIMIT}, got {parallelism}"
        )
    if max_parallelism is not None and parallelism > max_parallelism:
        raise ArgumentError(
            f"parallelism {parallelism} is greater than max parallelism {max_parallelism}",
            hint="max parallelism is the number of key groups; increase it first",
        )
    return int(parallelism)


def check_max_parallelism(max_parallelism: Any, parallelism: int | None = None) -> int:
    """Reject a max parallelism that no operator can have."""
    check_int(max_parallelism, "max parallelism")
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        raise ArgumentError(
            f"max parallelism must be between 1 and {MAX_PARALLELISM_LIMIT}, got {max_parallelism}"
        )
    if parallelism is not None and max_parallelism < parallelism:
        raise ArgumentError(
            f"max parallelism {max_parallelism} is less than parallelism {parallelism}",
            hint="max parallelism is the number of key groups: every subtask needs at least one",
        )
    return int(max_parallelism)
