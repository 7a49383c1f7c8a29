"""Compiles a pattern to an automaton without epsilon transitions.

A *position* is a place in the pattern that takes one event: `a.times(3)` has three. An *edge* leads from one position to a
possible next one, and determines what may happen to the events in between. So a partial match is a chain of taken events and
the open edges from the last of them; optional parts, loops and groups are just edges.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.runtime.cep.engine.conditions import Condition
from penstock.runtime.cep.engine.plan import Contiguity, PatternNode, PatternPlan

START = -1  # no event taken yet
END = -2  # target of an edge that completes the match on the next event, without taking it
PENDING = -3  # target of an edge that completes the match when its time limit is reached
ALWAYS = -1  # the number of a condition that always holds

_GAPS = {Contiguity.STRICT: 0, Contiguity.RELAXED: 1, Contiguity.ANY: 2}
STRICT, RELAXED, ANY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Edge:
    """A transition from a position to the next; conditions are indexes into the automaton's list.

    An event is taken if `condition` holds and none of `take_unless` does. It may be skipped if the gap is ANY, or RELAXED
    and `condition`
    does not hold, and none of `skip_unless` does. `first_unless` apply to the first event only, and close the edge; so do
    `first_skip_unless`, except for an event that is taken. `closed_by` close it on any event, skipped or taken,
    `closed_first` on the first;
    `stopped_by` do too, except that the event that completes the match may be one of them. If `freed_by` holds for the
    first event,
    neither `closed_by` nor `closed_first` apply.
    """

    target: int
    gap: int
    condition: int | None = None
    take_unless: tuple[int, ...] = ()
    skip_unless: tuple[int, ...] = ()
    first_unless: tuple[int, ...] = ()
    first_skip_unless: tuple[int, ...] = ()
    stopped_by: tuple[int, ...] = ()
    closed_by: tuple[int, ...] = ()
    closed_first: tuple[int, ...] = ()
    freed_by: tuple[int, ...] = ()
    limit: int | None = None  # from the previous event, in milliseconds
    greedy: bool = False  # of a greedy loop, to itself
    head: bool = False  # leads to the first pattern of its sequence
    later: int = -1  # the edge that replaces it after the first event
    freed: int = -1  # the edge that replaces it if it is freed


@dataclass(frozen=True, slots=True)
class _Exit:
    """A position at which a part of the pattern may end, with the constraints on leaving it."""

    position: int
    first_unless: tuple[int, ...] = ()
    stopped_by: tuple[int, ...] = ()
    closed_by: tuple[int, ...] = ()
    closed_first: tuple[int, ...] = ()
    freed_by: tuple[int, ...] = ()
    limit: int | None = None

    def then(self, other: _Exit) -> _Exit:
        """Return this exit combined with the constraints of a following one."""
        return replace(
            self,
            closed_by=self.closed_by + other.closed_by,
            freed_by=self.freed_by + other.freed_by,
        )

    def onto(self, edge: Edge) -> Edge:
        """Return the edge with the constraints of this exit."""
        return replace(
            edge,
            first_unless=self.first_unless + edge.first_unless,
            stopped_by=self.stopped_by + edge.stopped_by,
            closed_by=self.closed_by + edge.closed_by,
            closed_first=self.closed_first + edge.closed_first,
            freed_by=self.freed_by + edge.freed_by,
        )


@dataclass(frozen=True, slots=True)
class _Part:
    entries: list[Edge]
    exits: list[_Exit]
    around: _Exit | None  # the exit that skips it, if it is optional


@dataclass(slots=True)
class Automaton:
    """A compiled pattern."""

    plan: PatternPlan
    names: list[str] = field(default_factory=list)  # of each position
    iteration: list[int] = field(
        default_factory=list
    )  # index of the event within its pattern, from 1
    accepts: list[bool] = field(default_factory=list)  # whether a match may end here
    edges: list[Edge] = field(default_factory=list)
    follow: list[tuple[int, ...]] = field(default_factory=list)  # edges out of each position
    start: tuple[int, ...] = ()  # edges of new matches
    conditions: list[Condition] = field(default_factory=list)
    calls: list[Callable[..., Any]] = field(default_factory=list)
    iterative: list[bool] = field(default_factory=list)
    ambiguous: bool = False  # whether one match might be found in several ways

    @property
    def within(self) -> int | None:
        """The time limit of a match."""
        return self.plan.within

    @property
    def has_limits(self) -> bool:
        """Whether any edge has a time limit."""
        return any(edge.limit is not None for edge in self.edges)

    def start_test(self) -> tuple[int, Callable[[Any], Any]] | None:
        """Return the condition that alone decides whether an event starts a match, and its number.

        None if there are several, or it needs more than the event.
        """
        if len(self.start) != 1:
            return None
        edge = self.edges[self.start[0]]
        closing = edge.stopped_by or edge.closed_by or edge.closed_first
        plain = not (edge.take_unless or edge.first_unless or closing)
        if not plain or edge.condition is None or self.iterative[edge.condition]:
            return None
        return edge.condition, self.calls[edge.condition]


def compile_pattern(plan: PatternPlan) -> Automaton:
    """Compile a checked pattern."""
    return _Compiler(plan).compile()


def _stop_together(edges: list[Edge]) -> list[Edge]:
    """Apply not_next after an event to all edges from it, including loops.

    A greedy loop continues with any event that it can take, so not_next does not apply then. A match that the next event
    completes is ended by not_next only.
    """
    next_ = dict.fromkeys(each for edge in edges for each in edge.first_unless)
    stops = next_ | dict.fromkeys(each for edge in edges for each in edge.stopped_by)
    stopped = []
    for edge in edges:
        known = edge.first_unless + edge.stopped_by
        added = tuple(
            each for each in (next_ if edge.target == END else stops) if each not in known
        )
        if edge.greedy:
            stopped.append(replace(edge, first_skip_unless=added))
        else:
            stopped.append(replace(edge, first_unless=edge.first_unless + added))
    return stopped


def _after_first(edge: Edge, number: int) -> Edge:
    """Return the edge without the constraints on the first event."""
    return replace(
        edge, first_unless=(), first_skip_unless=(), closed_first=(), freed_by=(), later=number
    )


class _Compiler:
    def __init__(self, plan: PatternPlan) -> None:
        self.automaton = Automaton(plan)
        self._numbers: dict[int, int] = {}  # id of a condition -> its number
        self._follow: list[list[Edge]] = []
        self._ended_by: tuple[int, ...] = ()  # `until` conditions of the enclosing groups

    def compile(self) -> Automaton:
        automaton = self.automaton
        whole = self._sequence(automaton.plan.nodes, Contiguity.STRICT)
        end = automaton.plan.nodes[-1].contiguity
        for leaving in whole.exits:
            if end is Contiguity.NOT_NEXT:
                # The next event completes the match, so not_followed_by does not apply.
                end_of_match = replace(leaving, stopped_by=())
                self._connect(leaving.position, end_of_match.onto(Edge(END, STRICT)))
            elif end is Contiguity.NOT_FOLLOW:
                pending = Edge(PENDING, ANY, limit=leaving.limit)
                self._connect(leaving.position, leaving.onto(pending))
            else:
                automaton.accepts[leaving.position] = True
        automaton.follow = [self._register(_stop_together(edges)) for edges in self._follow]
        automaton.start = self._register(whole.entries)
        return automaton

    def _register(self, edges: list[Edge]) -> tuple[int, ...]:
        """Register edges; one with constraints on the first event is followed by the one for the others."""
        registered = self.automaton.edges
        numbers = []
        for edge in edges:
            number = len(registered)
            numbers.append(number)
            if edge.first_unless or edge.first_skip_unless or edge.closed_first or edge.freed_by:
                later = _after_first(edge, number + 1)
                registered += [replace(edge, later=number + 1, freed=number + 2), later]
            else:
                registered.append(replace(edge, later=number))
            if edge.freed_by:
                free = replace(
                    edge, closed_by=(), closed_first=(), freed_by=(), later=number + 3, freed=-1
                )
                registered += [free, _after_first(free, number + 3)]
        return tuple(numbers)

    def _connect(self, position: int, edge: Edge) -> None:
        edges = self._follow[position]
        if edge not in edges:
            edges.append(edge)

    def _number(self, condition: Condition | None) -> int | None:
        if condition is None:
            return None
        automaton = self.automaton
        number = self._numbers.get(id(condition))
        if number is None:
            number = self._numbers[id(condition)] = len(automaton.conditions)
            automaton.conditions.append(condition)
            automaton.calls.append(condition.compiled())
            automaton.iterative.append(condition.iterative)
        return number

    def _always(self, condition: Condition | None) -> tuple[int, ...]:
        """Return the number of a forbidding condition; None forbids always."""
        number = self._number(condition)
        return (ALWAYS,) if number is None else (number,)

    def _position(self, node: PatternNode, iteration: int) -> int:
        automaton = self.automaton
        automaton.names.append(node.name)
        automaton.iteration.append(iteration)
        automaton.accepts.append(False)
        self._follow.append([])
        return len(automaton.names) - 1

    def _sequence(self, nodes: tuple[PatternNode, ...], head_gap: Contiguity) -> _Part:
        entries: list[Edge] = []
        open_ = [_Exit(START)]
        for index, node in enumerate(nodes):
            if node.contiguity.negative:
                open_ = [self._forbid(leaving, node) for leaving in open_]
                continue
            following = nodes[index + 1] if index + 1 < len(nodes) else None
            gap = head_gap if index == 0 else node.contiguity
            part = self._group(node, gap) if node.group else self._single(node, gap, following)
            for leaving in open_:
                for entry in part.entries:
                    edge = leaving.onto(entry)
                    if leaving.position == START:
                        entries.append(replace(edge, head=index == 0))
                    else:
                        self._connect(leaving.position, replace(edge, head=False))
            exits = part.exits
            if part.around is not None:
                exits = exits + [leaving.then(part.around) for leaving in open_]
            open_ = exits
        exits = [leaving for leaving in open_ if leaving.position != START]
        around = [leaving for leaving in open_ if leaving.position == START]
        return _Part(entries, exits, around[0] if around else None)

    def _forbid(self, leaving: _Exit, node: PatternNode) -> _Exit:
        conditions = self._always(node.condition)
        if node.contiguity is Contiguity.NOT_NEXT:
            # The event that is not the forbidden one ends the pattern before, and so its greediness.
            return replace(
                leaving,
                first_unless=leaving.first_unless + conditions,
                closed_by=(),
                closed_first=leaving.closed_first + leaving.closed_by,
            )
        return replace(
            leaving, stopped_by=leaving.stopped_by + conditions, limit=node.within_previous
        )

    def _greedy(self, node: PatternNode) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the conditions that must not hold after a greedy pattern (events it could take), and those that lift them."""
        if not node.greedy or node.least == node.most:
            return (), ()
        return self._always(node.condition), self._until(node)

    def _until(self, node: PatternNode) -> tuple[int, ...]:
        return () if node.until is None else self._always(node.until)

    def _single(self, node: PatternNode, gap: Contiguity, following: PatternNode | None) -> _Part:
        condition = self._number(node.condition)
        until = self._until(node)
        copies = node.least if node.most is None else node.most
        positions = [self._position(node, copy + 1) for copy in range(copies)]
        stops: tuple[int, ...] = ()
        if following is not None and following.contiguity is Contiguity.NOT_FOLLOW:
            stops = self._always(following.condition)

        def inner(target: int) -> Edge:
            return Edge(
                target,
                _GAPS[node.inner],
                condition,
                take_unless=until + self._ended_by,
                skip_unless=until + self._ended_by,
                stopped_by=stops,
                limit=node.within_previous,
                greedy=bool(closed),
            )

        closed, freed = self._greedy(node)
        for here, there in itertools.pairwise(positions):
            self._connect(here, inner(there))
        if node.looping:
            self._connect(positions[-1], inner(positions[-1]))
        entry = Edge(
            positions[0],
            _GAPS[gap],
            condition,
            take_unless=until + self._ended_by,
            skip_unless=self._ended_by,
            limit=node.within_previous,
        )
        exits = [
            _Exit(position, closed_by=closed, freed_by=freed)
            for position in positions[node.least - 1 :]
        ]
        around = _Exit(START, closed_by=closed, freed_by=freed) if node.optional else None
        return _Part([entry], exits, around)

    def _group(self, node: PatternNode, gap: Contiguity) -> _Part:
        """Compile a group; a repeated one takes at least one event in each iteration.

        An event for which `until` holds is neither taken nor skipped by any pattern of the group.
        """
        assert node.group is not None
        before = self._ended_by
        self._ended_by += self._until(node)
        part = self._repeated_group(node, gap)
        self._ended_by = before
        return part

    def _repeated_group(self, node: PatternNode, gap: Contiguity) -> _Part:
        assert node.group is not None
        first = last = self._sequence(node.group, gap)
        exits = list(first.exits) if node.least == 1 else []
        copies = node.least if node.most is None else node.most
        for copy in range(2, copies + 1):
            again = self._sequence(node.group, node.inner)
            self._repeat(last, again.entries)
            if copy >= node.least:
                exits += again.exits
            last = again
        if node.looping:
            inner = _GAPS[node.inner]
            entries = [replace(edge, gap=inner) if edge.head else edge for edge in last.entries]
            self._repeat(last, entries)
        if node.quantified:  # an inner loop could end in one iteration or in the next
            self.automaton.ambiguous = True
        return _Part(first.entries, exits, _Exit(START) if node.optional else first.around)

    def _repeat(self, part: _Part, entries: list[Edge]) -> None:
        for leaving in part.exits:
            for entry in entries:
                self._connect(leaving.position, replace(leaving.onto(entry), head=False))
