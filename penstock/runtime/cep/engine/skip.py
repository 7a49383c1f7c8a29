"""After-match skip strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from penstock.errors import ArgumentError, PenstockError


class SkipError(PenstockError, RuntimeError):
    """A skip strategy with `throw_exception_on_miss` found no event to skip to."""


@dataclass(frozen=True, slots=True)
class AfterMatchSkipStrategy:
    """Which partial matches are dropped when a match is found.

    >>> AfterMatchSkipStrategy.skip_to_first("b").throw_exception_on_miss()
    AfterMatchSkipStrategy(kind='to_first', pattern_name='b', throws=True)

    A match is held back while a partial match that started before it is still alive, except with `no_skip`.
    """

    kind: str = "none"
    pattern_name: str | None = None
    throws: bool = False

    @classmethod
    def no_skip(cls) -> Self:
        """Drop nothing: emit all matches."""
        return cls()

    @classmethod
    def skip_to_next(cls) -> Self:
        """Drop all partial matches that started with the same event."""
        return cls("to_next")

    @classmethod
    def skip_past_last_event(cls) -> Self:
        """Drop all partial matches that started before the match ended."""
        return cls("past_last")

    @classmethod
    def skip_to_first(cls, pattern_name: str) -> Self:
        """Drop all partial matches that started before the first event of a pattern."""
        return cls("to_first", _name(pattern_name))

    @classmethod
    def skip_to_last(cls, pattern_name: str) -> Self:
        """Drop all partial matches that started before the last event of a pattern."""
        return cls("to_last", _name(pattern_name))

    def throw_exception_on_miss(self) -> Self:
        """Fail if the match has no event of the pattern, or if the match itself starts with it."""
        if self.pattern_name is None:
            raise ArgumentError(
                "this skip strategy cannot miss",
                hint="only skip_to_first(name) and skip_to_last(name) can",
            )
        return replace(self, throws=True)

    @property
    def skips(self) -> bool:
        """Whether anything is dropped."""
        return self.kind != "none"

    def survives_from(self, match: Sequence[tuple[str, int]]) -> int | None:
        """Return the number of the first event that a surviving partial match may start with.

        `match` is the (pattern name, event number) pairs of the match, in order. None: all survive.
        """
        first, last = match[0][1], match[-1][1]
        if self.kind == "to_next":
            return first + 1
        if self.kind == "past_last":
            return last + 1
        events = [number for name, number in match if name == self.pattern_name]
        if not events:
            if self.throws:
                raise SkipError(
                    f"could not skip to '{self.pattern_name}'",
                    detail="the match has no event of this pattern",
                )
            return None
        target = events[0] if self.kind == "to_first" else events[-1]
        if self.throws and target == first:
            raise SkipError(
                f"could not skip to '{self.pattern_name}'",
                detail="the match starts with this event, so it would be found again",
            )
        return target


def _name(pattern_name: str) -> str:
    if not isinstance(pattern_name, str) or not pattern_name:
        raise ArgumentError(f"a pattern name is required, got {pattern_name!r}")
    return pattern_name
