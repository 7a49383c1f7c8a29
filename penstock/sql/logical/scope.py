"""Names that an expression may use, and the columns that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from penstock.sql.expr.nodes import Rex
from penstock.sql.logical.nodes import Field, Schema
from penstock.sql.types import RowType


@dataclass(frozen=True, slots=True)
class OuterRef(Rex):
    """A column of a query around this one. It is in plans only while a query is converted: a join takes its place.

    `level` is the number of the block whose column it is.
    """

    index: int
    level: int

    def __str__(self) -> str:
        return f"$outer{self.level}.{self.index}"


@dataclass(frozen=True, slots=True)
class Relation:
    """A part of FROM: columns from `start` on. `path` is the full name of a table without alias.

    `hidden`: columns that USING or NATURAL merged into others; they are there by `relation.column` only.
    """

    name: str | None
    start: int
    fields: Schema
    path: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()
    # Columns that the query does not see at all, such as those that a subquery was joined for.
    secret: bool = False

    def shifted(self, by: int) -> Relation:
        """The same, further to the right."""
        return replace(self, start=self.start + by)

    def answers_to(self, names: Sequence[str]) -> bool:
        """Whether it is called that."""
        if len(names) == 1:
            return self.name == names[0]
        return tuple(names) == self.path[-len(names) :] and len(names) <= len(self.path)


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """A resolved name: a column, and the remaining parts of the name, which are fields of rows."""

    index: int
    field: Field
    rest: tuple[str, ...] = ()


class AmbiguousNameError(Exception):
    """A name stands for several columns."""


@dataclass(slots=True)
class NameScope:
    """The relations that names are looked up in."""

    relations: list[Relation] = field(default_factory=list)

    @property
    def width(self) -> int:
        """How many columns there are."""
        return max((each.start + len(each.fields) for each in self.relations), default=0)

    def columns(self) -> Iterator[tuple[int, Field]]:
        """All columns that `*` means, in order."""
        for relation in self.relations:
            if not relation.secret:
                for index, each in enumerate(relation.fields, relation.start):
                    if each.name not in relation.hidden:
                        yield index, each

    def find(self, parts: Sequence[str]) -> ResolvedName | None:
        """The column of a name: first as relation.column, then as a column; None if there is none."""
        for length in range(min(len(parts) - 1, 3), 0, -1):
            relations = [r for r in self.relations if r.answers_to(parts[:length])]
            matches = [
                ResolvedName(index, each, tuple(parts[length + 1 :]))
                for relation in relations
                for index, each in enumerate(relation.fields, relation.start)
                if each.name == parts[length]
            ]
            if len(matches) > 1:
                raise AmbiguousNameError(".".join(parts[: length + 1]))
            if matches:
                return matches[0]
        plain = [
            ResolvedName(index, each, tuple(parts[1:]))
            for index, each in self.columns()
            if each.name == parts[0]
        ]
        if len(plain) > 1:
            raise AmbiguousNameError(parts[0])
        return plain[0] if plain else self._inside_of_rows(parts)

    def _inside_of_rows(self, parts: Sequence[str]) -> ResolvedName | None:
        """The field of a ROW column, which Flink finds by its name alone, too."""
        found = [
            ResolvedName(index, each, (parts[0], *parts[1:]))
            for index, each in self.columns()
            if isinstance(each.type, RowType)
            and parts[0] in each.type.names
            and (len(parts) == 1 or isinstance(each.type[parts[0]].data_type, RowType))
        ]
        if len(found) > 1:
            raise AmbiguousNameError(parts[0])
        return found[0] if found else None

    def find_relation(self, parts: Sequence[str]) -> Relation | None:
        """The relation of that name."""
        return next((r for r in self.relations if r.answers_to(parts) and not r.secret), None)

    def names(self) -> list[str]:
        """Return the valid column names, qualified where needed."""
        found = []
        for relation in self.relations:
            if not relation.secret:
                found += [each.name for each in relation.fields]
                if relation.name:
                    found += [f"{relation.name}.{each.name}" for each in relation.fields]
        return found


def scope_of(schema: Schema, name: str | None = None) -> NameScope:
    """A scope of one relation."""
    return NameScope([Relation(name, 0, schema)])
