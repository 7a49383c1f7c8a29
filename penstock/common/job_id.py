"""JobID: the identity of a job."""

from __future__ import annotations

import re
import uuid

from penstock.errors import ArgumentError

_HEX = re.compile(r"[0-9a-f]{32}")


class JobID:
    """The identity of a job: 32 hexadecimal digits; new ones where none are given."""

    __slots__ = ("_hex",)

    def __init__(self, hex_string: str | None = None) -> None:
        if hex_string is None:
            hex_string = uuid.uuid4().hex
        lowered = hex_string.lower() if isinstance(hex_string, str) else ""
        if not _HEX.fullmatch(lowered):
            raise ArgumentError(
                f"{hex_string!r} is not a job id", hint="a job id is 32 hexadecimal digits"
            )
        self._hex = lowered

    @staticmethod
    def generate() -> JobID:
        """Create a new identity."""
        return JobID()

    @staticmethod
    def from_hex_string(hex_string: str) -> JobID:
        """Create an identity from its text."""
        return JobID(hex_string)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._hex == other._hex

    def __hash__(self) -> int:
        return hash(self._hex)

    def __str__(self) -> str:
        return self._hex

    def __repr__(self) -> str:
        return f"JobID('{self._hex}')"


__all__ = ["JobID"]
