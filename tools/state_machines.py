"""Finds the states and transitions of the pure cores, by feeding each one every event in every state it can reach.

A core is not copied: it is built again for each path of events, so nothing has to be known about its insides but a
fingerprint that tells its states apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import PenstockError

_LONGEST_PATH = 40


@dataclass(frozen=True, slots=True)
class Transition:
    """One step: in a state, an event leads to a state, and the caller has to carry out instructions."""

    before: str
    event: str
    after: str
    instructions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """A core with everything that may happen to it.

    `events` by label; labels that begin with the same word and a colon are variants of one event. `state` is what the
    picture shows, `fingerprint` what has to be explored. An event that the core rejects leads nowhere.
    """

    create: Callable[[], Any]
    events: Mapping[str, Callable[[Any], Iterable[Any] | None]]
    state: Callable[[Any], str]
    fingerprint: Callable[[Any], Hashable]
    #: What else decides about an event, as a word; shown where it makes a difference
    condition: Callable[[Any], str] = lambda _: ""
    rejects: tuple[type[BaseException], ...] = (PenstockError,)


@dataclass(slots=True)
class Explored:
    """What was found: transitions in the order in which they were reached, without repetitions."""

    first: str
    transitions: dict[Transition, None] = field(default_factory=dict)

    def add(
        self, before: str, label: str, condition: str, after: str, names: tuple[str, ...]
    ) -> None:
        """Note a transition, unless the same event does so without the condition."""
        plain = Transition(before, label, after, names)
        if not condition:
            self.transitions[plain] = None
        elif plain not in self.transitions:
            event, colon, variant = label.partition(": ")
            label = f"{event} [{condition}]{colon}{variant}"
            self.transitions[Transition(before, label, after, names)] = None

    @property
    def states(self) -> list[str]:
        """All states, in the order in which they were reached."""
        found = {self.first: None}
        for each in self.transitions:
            found |= {each.before: None, each.after: None}
        return list(found)


def explore(machine: Machine) -> Explored:
    """Return all transitions that a core can make."""
    start = machine.create()
    explored = Explored(machine.state(start))
    seen = {machine.fingerprint(start)}
    waiting: deque[tuple[str, ...]] = deque([()])
    while waiting:
        path = waiting.popleft()
        for label, event in machine.events.items():
            core = machine.create()
            for earlier in path:
                machine.events[earlier](core)
            before, condition = machine.state(core), machine.condition(core)
            try:
                instructions = event(core)
            except machine.rejects:
                continue
            after, found = machine.state(core), machine.fingerprint(core)
            names = tuple(dict.fromkeys(type(each).__name__ for each in instructions or ()))
            if names or before != after:
                explored.add(before, label, condition, after, names)
            if found not in seen:
                seen.add(found)
                if len(path) == _LONGEST_PATH:
                    raise RuntimeError(f"the core does not come to an end: {path}")
                waiting.append((*path, label))
    return explored


def from_table(first: str, following: Mapping[str, Iterable[str]]) -> Explored:
    """Return the transitions of a table that lists the states after each state."""
    found = Explored(first)
    for before, states in following.items():
        for after in states:
            found.transitions[Transition(before, "", after)] = None
    return found
