"""A marker for methods that PyFlink has and Penstock does not have yet."""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.errors import UnsupportedOperationError


class not_implemented:  # noqa: N801 - reads like the decorator-style marker it is
    """A class attribute in the place of a method: raises when called, and can be listed.

    >>> class Stream:
    ...     cache = not_implemented("Spark has no place to keep a stream", hint="write it to files")
    >>> Stream().cache()
    Traceback (most recent call last):
    penstock.errors.UnsupportedOperationError: Stream.cache is not implemented
    detail: Spark has no place to keep a stream
    hint: write it to files
    >>> missing_methods(Stream)
    {'cache': 'Spark has no place to keep a stream'}
    """

    def __init__(self, reason: str, *, hint: str | None = None) -> None:
        self.reason = reason
        self.hint = hint
        self.qualified_name = "this"
        self.__doc__ = f"Not implemented: {reason}."

    def __set_name__(self, owner: type, name: str) -> None:
        self.qualified_name = f"{owner.__name__}.{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse."""
        raise UnsupportedOperationError(
            f"{self.qualified_name} is not implemented", detail=self.reason, hint=self.hint
        )

    def __repr__(self) -> str:
        return f"not_implemented({self.reason!r})"


def missing_methods(kind: type) -> dict[str, str]:
    """Return the names of a class that are marked as not implemented, with the reasons."""
    return {
        name: value.reason
        for base in reversed(kind.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, not_implemented)
    }
