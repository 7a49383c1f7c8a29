"""The state per key: partial matches that share their beginnings.

A taken event is a link `(previous link, position, event, timestamp, number)`. Partial matches with the same beginning share
links, so an event is stored once however many partial matches contain it; unreferenced links are garbage collected.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Link = tuple[Any, int, Any, int, int]  # previous link or None, position, event, timestamp, number


class PartialMatch(NamedTuple):
    """A partial match: its last link, the open edges from there, and its start."""

    link: Link
    edges: tuple[int, ...]
    start_time: int
    start_number: int


class KeyRuns:
    """All partial matches of a key, oldest first, and matches that a skip strategy holds back."""

    __slots__ = ("completed", "number", "runs")

    def __init__(
        self,
        runs: list[PartialMatch] | None = None,
        completed: list[PartialMatch] | None = None,
        number: int = 0,
    ) -> None:
        self.runs: list[PartialMatch] = [] if runs is None else runs
        self.completed: list[PartialMatch] = [] if completed is None else completed  # edges are ()
        self.number = number  # of the next event

    def __bool__(self) -> bool:
        return bool(self.runs or self.completed)

    def events(self) -> int:
        """Return the number of stored events."""
        return len({link[4] for run in (*self.runs, *self.completed) for link in chain(run.link)})

    # Links are flattened for pickling: each once, after the previous one, whatever the depth.

    def __reduce__(self) -> tuple[Any, ...]:
        places: dict[int, int] = {}
        links: list[tuple[int, int, Any, int, int]] = []

        def place(link: Link) -> int:
            waiting: list[Link] = []
            each: Link | None = link
            while each is not None and id(each) not in places:
                waiting.append(each)
                each = each[0]
            before = -1 if each is None else places[id(each)]
            for each in reversed(waiting):
                links.append((before, *each[1:]))
                before = places[id(each)] = len(links) - 1
            return before

        runs = [(place(run.link), *run[1:]) for run in self.runs]
        completed = [(place(run.link), *run[1:]) for run in self.completed]
        return restore, (links, runs, completed, self.number)


def restore(
    flat: list[tuple[int, int, Any, int, int]],
    runs: list[tuple[int, tuple[int, ...], int, int]],
    completed: list[tuple[int, tuple[int, ...], int, int]],
    number: int,
) -> KeyRuns:
    """Rebuild the partial matches of a key from their pickled form."""
    links: list[Link] = []
    for before, *rest in flat:
        link: Any = (None if before < 0 else links[before], *rest)
        links.append(link)
    return KeyRuns(
        [PartialMatch(links[run[0]], *run[1:]) for run in runs],
        [PartialMatch(links[run[0]], *run[1:]) for run in completed],
        number,
    )


def chain(link: Link | None) -> list[Link]:
    """Return a link and all previous ones, the first one first."""
    links = []
    while link is not None:
        links.append(link)
        link = link[0]
    links.reverse()
    return links
