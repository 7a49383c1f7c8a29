"""Markers for what PyFlink has and Penstock does not have."""

from __future__ import annotations

from typing import NoReturn

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

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
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


class NotImplementedType(type):
    """The type of classes that are there in name only: they can be imported, and nothing else."""

    reason: str
    hint: str | None

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        """Refuse to make an object."""
        raise UnsupportedOperationError(
            f"{cls.__name__} is not implemented", detail=cls.reason, hint=cls.hint
        )

    def __getattr__(cls, name: str) -> not_implemented:
        if name.startswith("_"):
            raise AttributeError(name)
        missing = not_implemented(cls.reason, hint=cls.hint)
        missing.qualified_name = f"{cls.__name__}.{name}"
        return missing


def not_implemented_class(name: str, reason: str, *, hint: str | None = None) -> object:
    """Return a class that refuses to be used.

    >>> KafkaSource = not_implemented_class("KafkaSource", "there is no Kafka connector yet")
    >>> KafkaSource.builder()
    Traceback (most recent call last):
    penstock.errors.UnsupportedOperationError: KafkaSource.builder is not implemented
    detail: there is no Kafka connector yet
    """
    return NotImplementedType(
        name, (), {"reason": reason, "hint": hint, "__doc__": f"Not implemented: {reason}."}
    )


__all__ = ["NotImplementedType", "missing_methods", "not_implemented", "not_implemented_class"]
