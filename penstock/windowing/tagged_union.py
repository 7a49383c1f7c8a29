"""Elements of two streams in one window."""

from __future__ import annotations

from typing import NamedTuple

from penstock.common.user_types import Record


class TaggedUnion(NamedTuple):
    """An element with its stream: the elements of a join or coGroup, as seen by triggers and evictors.

    >>> TaggedUnion(1, "b").is_one(), TaggedUnion(1, "b").get_two()
    (False, 'b')
    """

    input_index: int
    value: Record

    def is_one(self) -> bool:
        """Whether the element belongs to the first stream."""
        return self.input_index == 0

    def is_two(self) -> bool:
        """Whether the element belongs to the second stream."""
        return self.input_index == 1

    def get_one(self) -> Record:
        """Return the element of the first stream, or None if it belongs to the second."""
        return self.value if self.input_index == 0 else None

    def get_two(self) -> Record:
        """Return the element of the second stream, or None if it belongs to the first."""
        return self.value if self.input_index == 1 else None
