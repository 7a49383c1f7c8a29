"""The nodes of a physical plan: operators, with the properties of their rows.

Most of them are operators: a spec of `penstock.graph.operator_specs.columnar`, which contains everything that a task needs. Properties that
depend on the whole plan (whether -U rows are needed downstream) are filled in at the end, see `changes.settle`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.graph.operator_specs import OperatorSpec
from penstock.sql.expr.nodes import Rex
from penstock.sql.logical.nodes import Schema

Key = frozenset[int]
Keys = frozenset[Key]


@dataclass(frozen=True, slots=True)
class ChangelogTraits:
    """The kinds of rows besides inserts. `before`: updates come with -U rows."""

    updates: bool = False
    deletes: bool = False
    before: bool = True

    @property
    def retracts(self) -> bool:
        """Whether there are rows other than inserts."""
        return self.updates or self.deletes

    def __str__(self) -> str:
        update = (["UB"] if self.before else []) + ["UA"] if self.updates else []
        return f"[{','.join(['I', *update, *(['D'] if self.deletes else [])])}]"


INSERTS = ChangelogTraits()
EVERYTHING = ChangelogTraits(updates=True, deletes=True)


@dataclass(frozen=True, slots=True)
class WindowAttributes:
    """Where rows carry the window that they belong to. `zone`: the session time zone if windows are over TIMESTAMP_LTZ.

    `starts_differ`, `ends_differ`: two windows never have the same start, or end. Those of CUMULATE share starts; sessions of different keys may share either.
    """

    start: int
    end: int
    zone: str | None = None
    rowtime: bool = True
    starts_differ: bool = True
    ends_differ: bool = True

    def keys(self, key: Key) -> list[Key]:
        """Return the keys of rows that are identified by a key and their window."""
        bounds = ((self.start, self.starts_differ), (self.end, self.ends_differ))
        found = [key | {bound} for bound, differs in bounds if differs]
        return found or [key | {self.start, self.end}]


@dataclass(frozen=True, slots=True)
class PhysicalTraits:
    """Properties of the rows of a node.

    `keys`: each is a set of columns by which changes of a row are known and in order (Flink's upsert keys). The empty set: there is one row at most.
    """

    changes: ChangelogTraits = INSERTS
    keys: Keys = frozenset()
    bounded: bool = False
    window: WindowAttributes | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalNode:
    """Base of all nodes. A node that two others read is one object."""

    schema: Schema
    traits: PhysicalTraits
    inputs: tuple[PhysicalNode, ...] = ()

    @property
    def types(self) -> tuple[Any, ...]:
        """The types of all columns."""
        return tuple(each.type for each in self.schema)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalTableScan(PhysicalNode):
    """Reads a table of a catalog. `scanned` is a penstock.sql.connector.providers.ScanProvider.

    `spec`: what reads it if it makes watermarks of the table's columns; None: the connector's source, as it is.
    """

    table: Any
    scanned: Any
    detail: str = ""  # descriptions of push-downs
    spec: OperatorSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalStreamScan(PhysicalNode):
    """Reads a DataStream."""

    transformation: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalValues(PhysicalNode):
    """Rows that the query has."""

    rows: tuple[tuple[Rex, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalOperator(PhysicalNode):
    """One operator. `single`: it runs with parallelism 1."""

    spec: OperatorSpec
    single: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalExchange(PhysicalNode):
    """Rows go to the subtask of their key; without columns, all go to one."""

    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalUnion(PhysicalNode):
    """The rows of all inputs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalTableSink(PhysicalNode):
    """Writes to a table of a catalog. `written` is a penstock.sql.connector.providers.SinkProvider; `takes_before`: -U rows are written, too.

    `deletes_by`: an update may have another primary key (these columns) than its former row, which is deleted by it then.
    """

    table: Any
    written: Any
    takes_before: bool = True
    deletes_by: tuple[int, ...] | None = None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalResult(PhysicalNode):
    """The end of a query whose rows are asked for. `before`: -U rows are asked for, too."""

    before: bool = True
