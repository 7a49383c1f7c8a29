"""Two tables whose rows are inserted, updated and deleted, and what SQLite computes of them."""

from __future__ import annotations

import random
import re
import sqlite3
from collections import Counter
from typing import Any

from tests.builders.plan_runs import Change, ChangingTable

COLUMNS = {"orders": "id, person, price", "people": "id, name, age"}


class Recomputed:
    """The tables as SQLite has them, and what a query gives over them now."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:")
        for name, columns in COLUMNS.items():
            self._connection.execute(f"CREATE TABLE {name} ({columns})")

    def apply(self, table: str, changes: list[Change]) -> None:
        for kind, row in changes:
            if kind in {"+I", "+U"}:
                self._connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", row)
            else:
                self._connection.execute(f"DELETE FROM {table} WHERE id = ?", row[:1])

    def ask(self, query: str) -> Counter[tuple[Any, ...]]:
        # SQLite has no OFFSET without LIMIT.
        theirs = re.sub(r"OFFSET (\d+) ROWS", r"LIMIT -1 OFFSET \1", query)
        found = self._connection.execute(theirs).fetchall()
        # The average of whole numbers is a whole number in Flink.
        return Counter(
            tuple(int(value) if isinstance(value, float) else value for value in row)
            for row in found
        )


def happenings(seed: int, count: int, orders: int = 8) -> list[tuple[str, list[Change]]]:
    """Changes of both tables, each with the rows that say it; there are so many orders at most."""
    rng = random.Random(seed)
    tables = {name: ChangingTable() for name in COLUMNS}
    found = []
    for _ in range(count):
        if rng.random() < 0.7:
            row: tuple[Any, ...] = (
                rng.randrange(1, orders + 1), rng.choice([1, 1, 2, 3, None]), rng.choice([2, 4, 5, 5, 7, None]),
            )  # fmt: skip
            found.append(("orders", tables["orders"].change(rng, row)))
        else:
            row = (rng.randrange(1, 5), rng.choice(["ann", "bob", None]), rng.choice([1, 2, 5]))
            found.append(("people", tables["people"].change(rng, row)))
    return found


def as_given(changes: list[Change], mode: str) -> list[Change]:
    """What a connector tells of a change: one that gives upserts leaves out former rows."""
    return [change for change in changes if mode == "all" or change[0] != "-U"]


def together(rng: random.Random, changes: list[Any]) -> list[Any]:
    """Changes of the same table that follow each other, in batches of random sizes: what a mini-batch does. Watermarks (numbers) stay where they are."""
    batches: list[Any] = []
    for each in changes:
        last = batches[-1] if batches else None
        if isinstance(each, int):
            batches.append(each)
        elif isinstance(last, tuple) and last[0] == each[0] and rng.random() < 0.5:
            last[1].extend(each[1])
        else:
            batches.append((each[0], list(each[1])))
    return batches
