"""State descriptions: kept in every checkpoint, and compared with the program on restore.

A changed query may keep the id of its operator, while the state of the old query means something else to the new one, or has
another layout. A description contains everything that determines meaning and layout, and nothing else: column names, filters
before the operator and the shape of its output may change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

# Version of the description format. State with another version is restored without a comparison: increase it when the
# same query
# is described differently than before.
VERSION: Final = 2
_LONGEST: Final = 600  # characters of one text


class ColumnOrigin(NamedTuple):
    """A column of a table that a query reads, or the whole table."""

    table: str
    column: str = ""

    def __str__(self) -> str:
        return f"{self.table}.{self.column}" if self.column else self.table


# Text fragments and the columns they refer to: a renamed column still counts as the same.
Text = tuple[str | ColumnOrigin, ...]


def text_of(*parts: str | ColumnOrigin | Text) -> Text:
    """Concatenate texts.

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
    """Join texts with a separator."""
    parts: list[str | Text] = []
    for at, text in enumerate(texts):
        parts += [separator, text] if at else [text]
    return text_of(*parts)


def shown(text: Text) -> str:
    """Return a text for display."""
    return "".join(map(str, text))


def shortened(text: Text) -> Text:
    """Return a text of bounded length: a long one becomes a digest of its words, and its columns.

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
    """The operator, and the query parts, that state was created for.

    `parts` are named texts, such as `keys` and `aggregates`. `tables` are the tables of the columns in them, with all
    their columns: a
    name that is missing from its table was renamed, one that still exists was replaced by another.
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
            # Pairs, because manifests sort the members of objects.
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
    """Return the names of the parts in which two descriptions differ; empty if the old state fits the new operator."""
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
    """Whether a column or its table may have been renamed: the old name is gone, and the new one did not exist before."""
    if old.table != new.table:
        return old.column == new.column and old.table not in after and new.table not in before
    return old.column not in after.get(new.table, ()) and new.column not in before.get(
        old.table, ()
    )
