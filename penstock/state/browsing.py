"""Tables of a snapshot for display: selected by name, a page at a time, with JSON values."""

from __future__ import annotations

import ast
import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from penstock.checkpoint.manifest_store import CheckpointDeletedError
from penstock.errors import ArgumentError
from penstock.state.columns import fields_of
from penstock.state.reading import read
from penstock.state.snapshot import Snapshot
from penstock.state.tables import KeyedStateTable, SnapshotTable

_TRIES: Final = 20
_LONGEST_CELL: Final = 20_000  # characters of JSON

T = TypeVar("T")


def latest(directory: str, look: Callable[[Snapshot], T]) -> T:
    """Call a function with the newest snapshot of a job's directory, again if the job deletes it in the meantime."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(CheckpointDeletedError):
            return _look(directory, look)
    return _look(directory, look)


def _look(directory: str, look: Callable[[Snapshot], T]) -> T:
    snapshot = read(directory)
    with snapshot.databases:
        return look(snapshot)


def choose(
    snapshot: Snapshot, operator: str, state: str | None, *, explode: bool = False
) -> SnapshotTable:
    """Return the table of a state of any kind."""
    found = snapshot.operator(operator)
    if state is None:
        states = ", ".join(f"'{each.name}'" for each in found.states) or "none"
        raise ArgumentError("no state selected", hint=f"operator '{found.label}' has {states}")
    own = [each for each in found.states if state in {each.name, each.table}]
    if own and not own[0].is_keyed:
        return snapshot.operator_state(found.id, state)
    return snapshot.state(found.id, state, explode=explode)


def rows_of(table: SnapshotTable, key: str | None) -> Iterator[Any]:
    """Yield the rows of a table, or those of one key: a Python literal, or its text."""
    if key is None:
        yield from table
        return
    if "key" not in table.columns:
        raise ArgumentError(f"{table.name} has no column 'key'", hint="omit the key")
    wanted: list[Any] = [key]
    with contextlib.suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        wanted.append(ast.literal_eval(key))
    if isinstance(table, KeyedStateTable) and table.columns[0] == "key":
        # Only the state of the subtasks that may own the key is read.
        with contextlib.suppress(TypeError, ValueError):  # values that cannot be keys: a list, NaN
            found = [row for each in wanted for row in table.get(each)]
            if found:
                yield from found
                return
    for row in table:
        if row.key in wanted or str(row.key) == key:
            yield row


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of a table. `more` says that there are further ones; `incomplete` that the time limit was reached."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    more: bool
    incomplete: bool


def page(
    table: SnapshotTable,
    *,
    offset: int = 0,
    limit: int = 50,
    key: str | None = None,
    seconds: float = 10.0,
) -> Page:
    """Read a page of a table, as JSON values, within a time limit."""
    until = time.monotonic() + seconds
    found: list[list[Any]] = []
    rows = rows_of(table, key)
    for number, row in enumerate(rows):
        if number >= offset + limit:
            return Page(table.columns, found, more=True, incomplete=False)
        if number >= offset:
            found.append([_cell(value) for value in row])
        elif number % 1000 == 0 and time.monotonic() > until:
            return Page(table.columns, found, more=True, incomplete=True)
    return Page(table.columns, found, more=False, incomplete=False)


def _cell(value: object) -> Any:
    plain = as_json(value)
    if plain is None or isinstance(plain, bool | int | float):
        return plain
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return plain if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}..."


def as_json(value: Any) -> Any:
    """Convert a value to JSON types; other values become their repr.

    >>> as_json({"a": (1, 2.5), 3: b"x", "n": float("nan")})
    {'a': [1, 2.5], '3': "b'x'", 'n': 'nan'}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, dict):
        return {
            key if isinstance(key, str) else repr(key): as_json(item) for key, item in value.items()
        }
    if isinstance(value, list) or type(value) is tuple:
        return [as_json(item) for item in value]
    fields = fields_of(value)
    return repr(value) if not fields else as_json(fields)


def describe(snapshot: Snapshot) -> dict[str, Any]:
    """Return the contents of a snapshot as JSON values: operators with their states."""
    return {
        "checkpoint": {
            "id": snapshot.checkpoint_id,
            "created": snapshot.manifest.created_ms,
            "kind": snapshot.kind,
        },
        "operators": [
            {
                "id": operator.id,
                "uid": operator.uid,
                "name": operator.name,
                "parallelism": operator.parallelism,
                "max-parallelism": operator.max_parallelism,
                "size": operator.size,
                "states": [
                    {
                        "name": state.name,
                        "table": state.table,
                        "kind": state.kind,
                        "type": state.type,
                        "expires": state.ttl,
                        "scope": state.scope,
                        "keyed": state.is_keyed,
                        "entries": state.entries,
                        "size": state.size,
                        "internal": state.internal,
                    }
                    for state in operator.states
                ],
            }
            for operator in snapshot.operators
        ],
    }


__all__ = ["Page", "as_json", "choose", "describe", "latest", "page", "rows_of"]
