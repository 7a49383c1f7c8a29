"""The unit of work between operators: a batch of records."""

from __future__ import annotations

from typing import Any

MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1


class Batch:
    """Records in order, as columns.

    `timestamps` is None when no record has one; a single record without a timestamp among others has None there. `keys`
    is set on keyed inputs only. The lists belong to the receiver: it may keep or change them.
    """

    __slots__ = ("keys", "timestamps", "values")

    def __init__(
        self,
        values: list[Any],
        timestamps: list[int | None] | None = None,
        keys: list[Any] | None = None,
    ) -> None:
        self.values = values
        self.timestamps = timestamps
        self.keys = keys

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Batch({self.values!r}, timestamps={self.timestamps!r}, keys={self.keys!r})"
