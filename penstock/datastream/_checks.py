"""Checks of arguments, made where the program is written."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from penstock.datastream.basic_functions import Function
from penstock.errors import ArgumentError, ArgumentTypeError

MAX_PARALLELISM_LIMIT = 32768


def describe(value: Any) -> str:
    """Describe a wrong argument for a message.

    >>> describe(3), describe("a"), describe(int), describe(None)
    ('3 of type int', "'a' of type str", 'the class int', 'None')
    """
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    if len(text) > 60:
        text = text[:57] + "..."
    return f"{text} of type {type(value).__name__}"


def named(kind: type) -> str:
    """Return the name of a class with its article.

    >>> named(int), named(str)
    ('an int', 'a str')
    """
    return f"{'an' if kind.__name__[0] in 'AEIOaeio' else 'a'} {kind.__name__}"


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


def check_object(value: Any, kind: type, methods: tuple[str, ...], *, hint: str) -> None:
    """Reject a value that is not an object with the methods of `kind`; the hint names a class passed instead of its object."""
    if isinstance(value, type):
        better = f"create an object of it: {value.__name__}()" if issubclass(value, kind) else hint
        raise ArgumentTypeError(
            f"{named(kind)} object is required, got {describe(value)}", hint=better
        )
    if isinstance(value, kind):
        return
    missing = [method for method in methods if not callable(getattr(value, method, None))]
    if missing:
        raise ArgumentTypeError(
            f"{named(kind)} is required, got {describe(value)}",
            hint=hint,
        )


def check_instance(value: Any, kind: type, what: str, *, hint: str | None = None) -> None:
    """Reject a value that is not an instance of this class."""
    if not isinstance(value, kind):
        if isinstance(value, type) and issubclass(value, kind):
            hint = f"create an object of it: {value.__name__}(...)"
        raise ArgumentTypeError(f"{what} must be {named(kind)}, got {describe(value)}", hint=hint)


def check_int(value: Any, what: str, *, minimum: int | None = None) -> int:
    """Reject a value that is not an int, or is too small."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentTypeError(f"{what} must be an int, got {describe(value)}")
    if minimum is not None and value < minimum:
        raise ArgumentError(f"{what} must be at least {minimum}, got {value}")
    return value


def check_text(value: Any, what: str) -> str:
    """Reject a value that is not a str, or is empty."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{what} must be a str, got {describe(value)}")
    if not value:
        raise ArgumentError(f"{what} must not be empty")
    return value


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
