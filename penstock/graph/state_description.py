"""What the state of an operator was made for: kept in every checkpoint, and compared with the program when it is restored.

A query that has changed may keep the id of its operator, while the state of the old query means something else to the new one, or has
another layout. A description holds everything that decides one of the two, and nothing else: names of columns, filters before the
operator and the shape of its output may change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

# Of the way in which descriptions are written. State with another one is restored without a comparison: raise it when the
# same query is described in other words than before.
VERSION: Final = 2
_LONGEST: Final = 600  # letters of one text


class ColumnOrigin(NamedTuple):
    """A column of a table that a query reads, or the whole table."""

    table: str
    column: str = ""

    def __str__(self) -> str:
        return f"{self.table}.{self.column}" if self.column else self.table


# Words, and the columns that they are about: a column that was renamed is still the same.
Text = tuple[str | ColumnOrigin, ...]


def text_of(*parts: str | ColumnOrigin | Text) -> Text:
    """Put texts together.

    >>> text_of("SUM(", (ColumnOrigin("bids", "price"),), ")")
    ('SUM(', ColumnOrigin(table='bids', column='price'), ')')
    """
    found: list[str | ColumnOrigin] = []
    for part in parts:
        pieces = (part,) if isinstance(part, str | ColumnOrigin) else part
        for piece in pieces:
            if isinstance(piece, str) and found and isinstance(found[-1], str):
                found[-1] += piece
            elif piece != "":
                found.append(piece)
    return tuple(found)


def joined(texts: Sequence[Text], separator: str = ", ") -> Text:
    """Return texts as a list."""
    parts: list[str | Text] = []
    for at, text in enumerate(texts):
        parts += [separator, text] if at else [text]
    return text_of(*parts)


def shown(text: Text) -> str:
    """Return a text for people."""
    return "".join(map(str, text))


def shortened(text: Text) -> Text:
    """Return a text that does not grow without bounds: of a long one, a digest of its words, and its columns.

    >>> long = text_of("(", *[ColumnOrigin("t", "a"), " + "] * 200, ")")
    >>> shown(shortened(long)).startswith("expression "), shown(shortened(long))[-5:]
    (True, '(t.a)')
    """
    if sum(len(part) if isinstance(part, str) else 8 for part in text) <= _LONGEST:
        return text
    places: dict[ColumnOrigin, int] = {}
    words = [
        part if isinstance(part, str) else f"\0{places.setdefault(part, len(places))}"
        for part in text
    ]
    digest = hashlib.blake2b("".join(words).encode(), digest_size=8).hexdigest()
    return text_of(f"expression {digest}(", joined([(column,) for column in places]), ")")


@dataclass(frozen=True, slots=True)
class StateDescription:
    """What the state of an operator was made for.

    `parts` are named texts, such as `keys` and `aggregates`. `tables` are the tables that the columns in them belong to, with all their
    columns: a name that is gone from its table was renamed, one that is still there was exchanged for another.
    """

    operator: str
    parts: Mapping[str, Text]
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    version: int = VERSION

    def __str__(self) -> str:
        texts = [f"{name}=[{shown(text)}]" for name, text in self.parts.items()]
        return f"{self.operator}({', '.join(texts)})"

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON values."""
        return {
            "version": self.version,
            "operator": self.operator,
            # Pairs: manifests sort the members of objects.
            "parts": [
                [name, [part if isinstance(part, str) else list(part) for part in text]]
                for name, text in self.parts.items()
            ],
            "tables": {name: list(columns) for name, columns in self.tables.items()},
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> StateDescription:
        """Return what `to_json` has written."""
        return cls(
            value["operator"],
            {
                name: tuple(part if isinstance(part, str) else ColumnOrigin(*part) for part in text)
                for name, text in value["parts"]
            },
            {name: tuple(columns) for name, columns in value["tables"].items()},
            value["version"],
        )


def changed_parts(old: StateDescription, new: StateDescription) -> list[str]:
    """Return the names of the parts in which two descriptions differ; none if the state of the old one fits the new one."""
    if old.operator != new.operator:
        return ["operator"]
    names = dict.fromkeys([*old.parts, *new.parts])
    return [name for name in names if not _same_part(name, old, new)]


def _same_part(name: str, old: StateDescription, new: StateDescription) -> bool:
    before, after = old.parts.get(name, ()), new.parts.get(name, ())
    return len(before) == len(after) and all(
        one == other
        or (
            isinstance(one, ColumnOrigin)
            and isinstance(other, ColumnOrigin)
            and _is_renamed(one, other, old.tables, new.tables)
        )
        for one, other in zip(before, after, strict=True)
    )


def _is_renamed(
    old: ColumnOrigin,
    new: ColumnOrigin,
    before: Mapping[str, tuple[str, ...]],
    after: Mapping[str, tuple[str, ...]],
) -> bool:
    """Whether a column or its table may have got the other name: the old one is gone, and the new one was not there before."""
    if old.table != new.table:
        return old.column == new.column and old.table not in after and new.table not in before
    return old.column not in after.get(new.table, ()) and new.column not in before.get(
        old.table, ()
    )
