"""Pattern plans: frozen data, created by the API and read by the compiler."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.runtime.cep.engine.conditions import Condition
from penstock.runtime.cep.engine.skip import AfterMatchSkipStrategy


class Contiguity(enum.Enum):
    """The contiguity between an event and the previous one of a match."""

    STRICT = "strict"  # no events in between
    RELAXED = "relaxed"  # events that do not match
    ANY = "any"  # any events
    NOT_NEXT = "not next"  # the pattern must not match the next event
    NOT_FOLLOW = "not followed by"  # the pattern must not match any event

    @property
    def negative(self) -> bool:
        """Whether it is a negative pattern."""
        return self in {Contiguity.NOT_NEXT, Contiguity.NOT_FOLLOW}


@dataclass(frozen=True, slots=True)
class PatternNode:
    """One pattern of a sequence: a single one, or a quantified group of patterns.

    It takes at least `least` events (iterations of the group) and at most `most`; without `most` it loops. `counted` says that
    the user set the numbers, including `times(1)`. `inner` is the contiguity between its own events. Times are in
    milliseconds.
    """

    name: str
    contiguity: Contiguity = Contiguity.STRICT
    condition: Condition | None = None
    until: Condition | None = None
    least: int = 1
    most: int | None = 1
    counted: bool = False
    optional: bool = False
    greedy: bool = False
    inner: Contiguity = Contiguity.RELAXED
    group: tuple[PatternNode, ...] | None = None
    within: int | None = None  # from the first event of the match to its last
    within_previous: int | None = None  # from the previous event

    @property
    def quantified(self) -> bool:
        """Whether the pattern may take other than one event."""
        return (self.least, self.most) != (1, 1)

    @property
    def looping(self) -> bool:
        """Whether the number of events is unbounded."""
        return self.most is None

    def quantifier(self) -> str:
        """Return the quantifier as in a regular expression."""
        if not self.quantified:
            text = ""
        elif self.looping:
            text = "+" if self.least == 1 else f"{{{self.least},}}"
        elif self.least == self.most:
            text = f"{{{self.least}}}"
        else:
            text = f"{{{self.least},{self.most}}}"
        if self.optional:
            text = {"": "?", "+": "*"}.get(text, f"({text})?")
        return text


def walk(nodes: tuple[PatternNode, ...]) -> Iterator[PatternNode]:
    """Iterate over all nodes, including those inside groups."""
    for node in nodes:
        yield node
        if node.group is not None:
            yield from walk(node.group)


@dataclass(frozen=True, slots=True)
class PatternPlan:
    """A whole pattern, ready to be compiled."""

    nodes: tuple[PatternNode, ...]
    skip: AfterMatchSkipStrategy

    @property
    def within(self) -> int | None:
        """The time limit of a match: the shortest of its patterns."""
        times = [node.within for node in walk(self.nodes) if node.within is not None]
        return min(times, default=None)

    def names(self) -> list[str]:
        """Return the names of all single patterns that take events, in order."""
        return [
            node.name
            for node in walk(self.nodes)
            if node.group is None and not node.contiguity.negative
        ]

    def conditions(self) -> list[Any]:
        """Return the user's functions in all conditions."""
        found: list[Any] = []
        for node in walk(self.nodes):
            for condition in (node.condition, node.until):
                if condition is not None:
                    found.extend(condition.functions())
        return found
