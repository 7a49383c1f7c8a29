"""Tables in event time, as SQLite has them: rows that come out of order and late, watermarks, and what queries over them give by then.

Flink's rules about late rows are columns here, so that a query of SQLite can say them: `wm` is the watermark when a row came, `gone_wm` when it was
taken back, and the table `clock` has the watermark now. Times are whole milliseconds.
"""

from __future__ import annotations

import datetime as dt
import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK
from tests.builders.plan_runs import Change, ChangingTable

BASE = dt.datetime(2024, 1, 1)
BASE_MS = 1_704_067_200_000
STEP_MS = 500
#: How far rows are out of order at most.
SPREAD_MS = 3_000
TABLES = ("bids", "asks", "stock", "rates")
#: Tables whose rows change; the others only grow.
CHANGING = ("stock", "rates")
NEVER = 2**62  # when a row is taken back that is never

WINDOWS: dict[str, tuple[str, int, int, int]] = {
    # name -> kind, size, slide or step, offset; all in seconds
    "tumble_4": ("TUMBLE", 4, 4, 0),
    "tumble_5_1": ("TUMBLE", 5, 5, 1),
    "hop_2_6": ("HOP", 6, 2, 0),
    "hop_2_5": ("HOP", 5, 2, 1),
    "cumulate_2_6": ("CUMULATE", 6, 2, 0),
    "cumulate_3_9": ("CUMULATE", 9, 3, 0),
}
GAPS = (1, 2)  # of sessions, in seconds


def millis(moment: dt.datetime) -> int:
    """A time as the tables of SQLite have it."""
    return BASE_MS + (moment - BASE) // dt.timedelta(milliseconds=1)


def windows_of(name: str) -> list[tuple[int, int]]:
    """All windows of a definition, around the times of rows."""
    kind, size, step, offset = (
        each if isinstance(each, str) else each * 1000 for each in WINDOWS[name]
    )
    first = BASE_MS // size * size + offset - 2 * size  # type: ignore[operator]
    found = []
    for start in range(first, first + 60_000, step if kind == "HOP" else size):  # type: ignore[arg-type]
        sizes = range(step, size + 1, step) if kind == "CUMULATE" else [size]  # type: ignore[arg-type]
        found += [(start, start + each) for each in sizes]  # type: ignore[operator]
    return found


@dataclass
class Row:
    """A row of a table, and what happened to it."""

    values: tuple[Any, ...]
    ts: int
    number: int
    wm: int
    gone_wm: int = NEVER


@dataclass
class Timeline:
    """What has happened to all tables so far."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in TABLES})
    versions: list[tuple[Any, ...]] = field(default_factory=list)
    watermark: int = MIN_WATERMARK
    #: Events in order: a row of a table, or a watermark.
    events: list[tuple[str, Row] | int] = field(default_factory=list)
    _count: int = 0

    def apply(self, table: str, changes: list[Change]) -> None:
        """Take changes; the last value of a row is its time."""
        for kind, values in changes:
            self._count += 1
            ts = millis(values[-1])
            if table == "rates" and kind != "-U":
                k, rate, _ = values
                self.versions.append((k, rate, ts, self._count, kind == "-D", self.watermark))
            if kind in {"-U", "-D"}:
                (found,) = (
                    row for row in self.rows[table] if row.values == values and row.gone_wm == NEVER
                )
                found.gone_wm = self.watermark
                continue
            row = Row(values, ts, self._count, self.watermark)
            self.rows[table].append(row)
            self.events.append((table, row))

    def advance(self, watermark: int) -> None:
        """Let time go on, in all tables."""
        self.watermark = watermark
        self.events.append(watermark)

    # What tables say

    def ask(self, views: dict[str, str], query: str) -> Counter[tuple[Any, ...]]:
        """Return what a query gives over views of the tables as they are now."""
        connection = sqlite3.connect(":memory:")
        for name in TABLES:
            connection.execute(
                f"CREATE TABLE {name} (id, k, v, ts INT, n INT, wm INT, gone_wm INT, late_row INT, version INT)"
            )
            late, versions = self._late_rows(name), self._versions(name)
            connection.executemany(
                f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        *(row.values[:3] if len(row.values) == 4 else (None, *row.values[:2])),
                        row.ts,
                        row.number,
                        row.wm,
                        row.gone_wm,
                        row.number in late,
                        row.number in versions,
                    )
                    for row in self.rows[name]
                ],
            )
        connection.execute("CREATE TABLE versions (k, rate, ts INT, n INT, gone INT, wm INT)")
        connection.executemany("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)", self.versions)
        connection.execute("CREATE TABLE windows (name, s INT, e INT)")
        for name in WINDOWS:
            windows = [(name, *each) for each in windows_of(name)]
            connection.executemany("INSERT INTO windows VALUES (?, ?, ?)", windows)
        connection.execute("CREATE TABLE sessions (name, n INT, s INT, e INT)")
        for table in ("bids", "asks"):
            for gap in GAPS:
                for keyed in (False, True):
                    found = self._sessions(table, gap * 1000, keyed)
                    name = f"{table}_{gap}_{'k' if keyed else 'all'}"
                    named = [(name, *each) for each in found]
                    connection.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?)", named)
        connection.execute("CREATE TABLE clock (wm INT)")
        connection.execute("INSERT INTO clock VALUES (?)", (self.watermark,))
        for name, text in views.items():
            connection.execute(f"CREATE VIEW {name} AS {text}")
        return Counter(connection.execute(query).fetchall())

    def _late_rows(self, table: str) -> set[int]:
        """Return the rows that are not newer than the last one of their key that has left."""
        late: set[int] = set()
        last: dict[Any, int] = {}
        waiting: list[Row] = []
        for event in self.events:
            if isinstance(event, int):
                for row in [row for row in waiting if row.ts <= event]:
                    waiting.remove(row)
                    key = row.values[1]
                    last[key] = max(last.get(key, MIN_WATERMARK), row.ts)
            elif event[0] == table:
                row = event[1]
                if row.ts <= last.get(row.values[1], MIN_WATERMARK):
                    late.add(row.number)
                else:
                    waiting.append(row)
        return late

    def _versions(self, table: str) -> set[int]:
        """Return the rows that were the last of their key by time when they came."""
        found: set[int] = set()
        newest: dict[Any, int] = {}
        for row in self.rows[table]:
            key = row.values[1]
            if row.ts >= newest.get(key, MIN_WATERMARK):
                newest[key] = row.ts
                found.add(row.number)
        return found

    def _sessions(self, table: str, gap: int, keyed: bool) -> list[tuple[int, int, int]]:
        """Return the sessions of rows that were not late: number of the row, start, end."""
        found: list[tuple[int, int, int]] = []
        there: dict[Any, list[tuple[int, int, list[int]]]] = {}
        watermark = MIN_WATERMARK
        for event in [*self.events, MAX_WATERMARK]:
            if isinstance(event, int):
                watermark = event
                for key, sessions in there.items():
                    for start, end, numbers in sessions:
                        if end - 1 <= watermark:
                            found += [(number, start, end) for number in numbers]
                    there[key] = [each for each in sessions if each[1] - 1 > watermark]
            elif event[0] == table:
                row = event[1]
                mine = there.setdefault(row.values[1] if keyed else None, [])
                start, end, numbers = row.ts, row.ts + gap, [row.number]
                touched = [each for each in mine if each[0] <= end and each[1] >= start]
                for each in touched:
                    start, end = min(start, each[0]), max(end, each[1])
                    numbers = numbers + each[2]
                if end - 1 <= watermark:
                    continue  # late
                mine[:] = [each for each in mine if each not in touched] + [(start, end, numbers)]
        return found


def happenings(
    seed: int, count: int, names: Sequence[str] = TABLES, *, late: bool
) -> list[tuple[str, list[Change]] | int]:
    """Changes of these tables, and watermarks of all. Without `late` rows, no watermark is ahead of a row that comes after it."""
    rng = random.Random(seed)
    tables = {name: ChangingTable() for name in CHANGING}
    found: list[tuple[str, list[Change]] | int] = []
    newest = 0
    for number in range(count):
        ts = number * STEP_MS + rng.randrange(0, SPREAD_MS, STEP_MS)
        newest = max(newest, ts)
        moment = BASE + dt.timedelta(milliseconds=ts)
        k, v = rng.choice([1, 1, 2, 3, None]), rng.choice([1, 2, 4, 5, 5, 7, None])
        name = rng.choice(names)
        if name == "rates":
            found.append((name, tables[name].change(rng, (rng.choice([1, 2, 3]), v, moment))))
        elif name == "stock":
            found.append((name, tables[name].change(rng, (rng.randrange(1, 9), k, v, moment))))
        else:
            found.append((name, [("+I", (number, k, v, moment))]))
        if rng.random() < 0.3:
            sure = (number + 1) * STEP_MS - 1
            found.append(BASE_MS + (max(sure, newest - STEP_MS - 1) if late else sure))
    return found
