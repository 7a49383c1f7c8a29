"""Checks of arguments, made where the program is written: each raises an error that names the argument."""

from __future__ import annotations

from penstock.errors import ArgumentError, ArgumentTypeError


def describe(value: object) -> str:
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


def check_object(value: object, kind: type, methods: tuple[str, ...], *, hint: str) -> None:
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


def check_instance(value: object, kind: type, what: str, *, hint: str | None = None) -> None:
    """Reject a value that is not an instance of this class."""
    if not isinstance(value, kind):
        if isinstance(value, type) and issubclass(value, kind):
            hint = f"create an object of it: {value.__name__}(...)"
        raise ArgumentTypeError(f"{what} must be {named(kind)}, got {describe(value)}", hint=hint)


def check_int(value: object, what: str, *, minimum: int | None = None) -> int:
    """Reject a value that is not an int, or is too small."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentTypeError(f"{what} must be an int, got {describe(value)}")
    if minimum is not None and value < minimum:
        raise ArgumentError(f"{what} must be at least {minimum}, got {value}")
    return value


def check_text(value: object, what: str) -> str:
    """Reject a value that is not a str, or is empty."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{what} must be a str, got {describe(value)}")
    if not value:
        raise ArgumentError(f"{what} must not be empty")
    return value
