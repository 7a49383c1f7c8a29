"""TypeSerializer: how values of one type are written to and read from streams of bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes and reads values of one type."""

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Write one value."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Read one value."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self).__qualname__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


__all__ = ["TypeSerializer"]
