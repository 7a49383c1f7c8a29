"""What a running query is shown from: its current rows, or its latest changes."""

from __future__ import annotations

from collections import deque
from typing import Final

_MOST_ROWS: Final = 100_000


class TableModel:
    """The current rows of the result: applies the changelog. An updated row keeps its position."""

    def __init__(self, most: int = _MOST_ROWS) -> None:
        self._places: dict[
            int, tuple[str, ...] | None
        ] = {}  # in order; None: a -U was applied and its +U is still to come
        self._of_row: dict[tuple[str, ...], list[int]] = {}
        self._holes: deque[int] = deque()
        self._next = 0
        self._most = most
        self.changes = 0

    def add(self, kind: str, row: tuple[str, ...]) -> None:
        """Apply a change."""
        self.changes += 1
        if kind in ("+I", "+U"):
            self._put(row, self._holes.popleft() if kind == "+U" and self._holes else None)
            return
        places = self._of_row.get(row)
        if not places:
            return  # it was dropped as one of the oldest rows
        place = places.pop()
        if not places:
            del self._of_row[row]
        if kind == "-U":
            self._places[place] = None
            self._holes.append(place)
        else:
            del self._places[place]

    def _put(self, row: tuple[str, ...], place: int | None) -> None:
        if place is None:
            place = self._next
            self._next += 1
        self._places[place] = row
        self._of_row.setdefault(row, []).append(place)
        if len(self._places) > self._most:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        place = next(iter(self._places))
        row = self._places.pop(place)
        if row is None:
            self._holes.remove(place)
            return
        places = self._of_row[row]
        places.remove(place)
        if not places:
            del self._of_row[row]

    def rows(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return all rows, with an empty row kind."""
        return [("", row) for row in self._places.values() if row is not None]


class ChangesModel:
    """The latest changes."""

    def __init__(self, most: int = _MOST_ROWS) -> None:
        self._rows: deque[tuple[str, tuple[str, ...]]] = deque(maxlen=most)
        self.changes = 0

    def add(self, kind: str, row: tuple[str, ...]) -> None:
        """Add a change."""
        self.changes += 1
        self._rows.append((kind, row))

    def rows(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the changes with their row kinds."""
        return list(self._rows)
