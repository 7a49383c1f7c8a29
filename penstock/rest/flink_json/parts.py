"""Types and values that several answers have: ids, times, states of subtasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

Id = Annotated[
    str, Meta(pattern="^[0-9a-fA-F]{32}$", max_length=32, description="32 hexadecimal digits")
]
Index = Annotated[int, Meta(ge=0)]

TASK_STATES: Final = (
    "CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELING", "CANCELED",
    "FAILED", "RECONCILING",
)  # fmt: skip
NOWHERE: Final = "(unassigned)"  # Flink's host of a subtask that is not scheduled


class Empty(Struct, frozen=True):
    """An object without fields."""


class NoFields(Struct, frozen=True, forbid_unknown_fields=True):
    """A request without fields."""


#: A string in a request. A path or an argument with a NUL character reaches neither a file system nor a process.
Text = Annotated[str, Meta(pattern="^[^\\u0000]*$", description="a string without NUL characters")]
#: A string in a request that must say something.
Name = Annotated[
    str,
    Meta(
        min_length=1,
        pattern="^[^\\u0000]*$",
        description="a string without NUL characters that is not empty",
    ),
]


class Span(NamedTuple):
    """When something began and ended, and how long it took so far; -1 is unknown."""

    start: int
    end: int
    duration: int

    @classmethod
    def of(cls, start: int | None, end: int | None, now: int) -> Span:
        """Return the span from `start` to `end`, or to now.

        >>> Span.of(10, None, 25)
        Span(start=10, end=-1, duration=15)
        """
        duration = -1 if start is None else (now if end is None else end) - start
        return cls(-1 if start is None else start, -1 if end is None else end, duration)


def count_states(states: Iterable[str]) -> dict[str, int]:
    """Return the number of subtasks in each state, including states with none."""
    counts = Counter(states)
    return {state: counts[state] for state in TASK_STATES}
