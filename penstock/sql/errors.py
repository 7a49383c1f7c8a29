"""Errors of SQL, with a position in the statement and suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Self

from penstock.errors import InvalidProgramError, PenstockError

Position = tuple[int, int]  # line and column, both from 1


class SqlError(InvalidProgramError):
    """Base of the errors about a statement.

    With a position and the statement, the detail shows the line with the offending text underlined.

    >>> print(SqlError("column 'b' not found", position=(1, 8), statement="SELECT b FROM t"))
    column 'b' not found (line 1, column 8)
    detail:
      SELECT b FROM t
             ^
    """

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: Position | None = None,
        length: int = 1,
        statement: str | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.position = position
        self.length = length
        self.statement = statement

    def at(
        self, position: Position | None, statement: str | None = None, length: int | None = None
    ) -> Self:
        """Say where it is, unless that is known already; return the error itself."""
        if self.position is None and position is not None:
            self.position = position
            self.length = self.length if length is None else length
        if self.statement is None:
            self.statement = statement
        return self

    def __str__(self) -> str:
        message = self.message
        if self.position is not None:
            message = f"{message} (line {self.position[0]}, column {self.position[1]})"
        parts = [message]
        if self.detail:
            parts.append(f"detail: {self.detail}")
        if self.position is not None and self.statement is not None:
            shown = underlined(self.statement, self.position, self.length)
            if shown:
                parts.append(shown if self.detail else f"detail:\n{shown}")
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        kind = type(self)
        state = {"position": self.position, "length": self.length, "statement": self.statement}
        return _rebuild, (kind.variant_of or kind, self.message, self.detail, self.hint, state)


class SqlParseError(SqlError):
    """A statement has a syntax error."""


class ValidationError(SqlError):
    """A statement refers to unknown objects, or its types do not match."""


class UnsupportedQueryError(ValidationError):
    """A query is valid, but cannot run on a stream or is not supported (yet)."""


def _rebuild(
    kind: type[PenstockError],
    message: str,
    detail: str | None,
    hint: str | None,
    state: dict[str, object],
) -> PenstockError:
    error = kind(message, detail=detail, hint=hint)
    error.__dict__.update(state)
    return error


def underlined(statement: str, position: Position, length: int = 1, width: int = 100) -> str:
    """Return the line of the position with marks under `length` characters, cut to about `width`.

    >>> print(underlined("SELECT a FORM t", (1, 10), 4))
      SELECT a FORM t
               ^^^^
    """
    lines = statement.split("\n")
    line, column = position
    if not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1].replace("\t", " ").rstrip("\r")
    start = min(max(column - 1, 0), len(text))
    end = max(min(start + length, len(text)), start + 1)
    first = 0
    if len(text) > width and start > width // 2:
        first = start - width // 2
        text = "..." + text[first + 3 :]
    if len(text) > width:
        text = text[: width - 3] + "..."
    marks = " " * (start - first) + "^" * min(end - start, width)
    return f"  {text}\n  {marks}"


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most like `name`, ignoring case, if any is near.

    >>> nearest("bidder_nme", ["bidder_name", "price"])
    'bidder_name'
    """
    by_fold: dict[str, str] = {}
    for candidate in known:
        by_fold.setdefault(candidate.casefold(), candidate)
    found = difflib.get_close_matches(name.casefold(), by_fold, n=1, cutoff=cutoff)
    return by_fold[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the hint that offers the nearest name, if any is near."""
    found = nearest(name, known)
    return None if found is None else f"did you mean '{found}'?"
