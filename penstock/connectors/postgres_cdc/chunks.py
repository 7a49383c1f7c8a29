"""Parts of a table by ranges of keys: found on the driver, read in tasks, matched again in the log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connectors.postgres_cdc.catalog import CdcTable, escaped, quoted
from penstock.connectors.postgres_cdc.positions import Segment, TableSnapshot, Visibility
from penstock.connectors.postgres_cdc.values import comparable


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """The rows of a table with keys after `lower` and up to `upper`; None is unbounded.

    `started_ms` is when the snapshot of the tables began: changes in the log are not older.
    """

    table: CdcTable
    lower: tuple[str, ...] | None
    upper: tuple[str, ...] | None
    started_ms: int

    def query(self, after: tuple[str, ...] | None) -> tuple[str, list[str]]:
        """Return the statement, with its parameters, that reads the rows after a key, ordered by key.

        The columns of the key come first, in the form in which they are compared.
        """
        table = self.table
        key = ", ".join(column.expression for column in table.key)
        values = ", ".join(column.parameter for column in table.key)
        conditions: list[str] = []
        parameters: list[str] = []
        if after is not None:
            conditions.append(f"({key}) > ({values})")
            parameters += after
        if self.upper is not None:
            conditions.append(f"({key}) <= ({values})")
            parameters += self.upper
        if table.row_filter:
            conditions.append(f"({escaped(table.row_filter)})")
        selected = ", ".join(
            [
                *(column.expression for column in table.key),
                *(escaped(quoted(name)) for name in table.columns),
            ]
        )
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"SELECT {selected} FROM {escaped(table.sql)}{where} ORDER BY {key}"  # noqa: S608 - quoted names
        return query, parameters


def boundary_query(table: CdcTable, after: tuple[str, ...] | None) -> tuple[str, list[str]]:
    """Return the statement that finds the key that is N rows after another one; N is its last parameter."""
    key = ", ".join(column.expression for column in table.key)
    texts = ", ".join(f"{column.expression}::text" for column in table.key)
    where = ""
    parameters: list[str] = []
    if after is not None:
        where = f" WHERE ({key}) > ({', '.join(column.parameter for column in table.key)})"
        parameters = list(after)
    query = (
        f"SELECT {texts} FROM {escaped(table.sql)}{where} ORDER BY {key} LIMIT 1 OFFSET %s::bigint"  # noqa: S608 - quoted names
    )
    return query, parameters


def table_snapshot(
    table: CdcTable, chunks: Iterable[tuple[SnapshotChunk, Sequence[Segment]]]
) -> TableSnapshot:
    """Return the snapshots that the chunks of a table were read with, in the order of keys."""
    parts: list[tuple[tuple[str, ...] | None, str]] = []
    for chunk, segments in chunks:
        for segment in segments:
            upto = chunk.upper if segment.upto is None else segment.upto
            if parts and parts[-1][1] == segment.snapshot:
                parts.pop()
            parts.append((upto, segment.snapshot))
    return TableSnapshot(
        table.schema,
        table.name,
        tuple(column.name for column in table.key),
        tuple(column.kind for column in table.key),
        tuple(parts),
    )


class SnapshotFilter:
    """Says which transactions' changes are already in the snapshot of a table, row by row."""

    def __init__(self, snapshot: TableSnapshot) -> None:
        self.key = snapshot.key
        self._kinds = snapshot.kinds
        known = {text: Visibility.parse(text) for _, text in snapshot.parts}
        self._parts = [known[text] for _, text in snapshot.parts]
        self._ends: list[tuple[Any, ...]] = [
            comparable(snapshot.kinds, upto) for upto, _ in snapshot.parts if upto is not None
        ]

    def has(self, key: Sequence[str], xid: int) -> bool:
        """Whether the part of the table that a key is in was read after the transaction's end."""
        part = 0
        if self._ends:
            part = bisect_left(self._ends, comparable(self._kinds, key))
        return self._parts[part].sees(xid)

    def has_all(self, xid: int) -> bool:
        """Whether all parts were read after the transaction's end."""
        return all(part.sees(xid) for part in self._parts)
