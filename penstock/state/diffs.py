"""Compares two snapshots.

State is compared chain by chain: only one subtask's entries of one table are in memory at a time, and chains with the same
files are not read. If the parallelism changed, a whole table is in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.handles import StateChain
from penstock.common.user_types import Key
from penstock.pickling.portable_pickles import dumps
from penstock.runtime.state.table import MISSING
from penstock.state.catalog import TIMERS, OperatorInfo, StateInfo
from penstock.state.tables import RowsPart

if TYPE_CHECKING:
    from penstock.state.snapshot import Snapshot

DIFF_COLUMNS: Final = ("operator", "state", "key", "window", "change", "before", "after")

Change = tuple[str, str, Any, Any, str, Any, Any]


def differences(before: Snapshot, after: Snapshot, *, internal: bool) -> Iterator[Change]:
    """Iterate over all changes."""
    old = {op.id: op for op in before.operators}
    new = {op.id: op for op in after.operators}
    for name in dict.fromkeys([*old, *new]):
        yield from _operator(before, old.get(name), after, new.get(name), internal=internal)
    yield from _offsets(before, after)


def _operator(
    before: Snapshot,
    old: OperatorInfo | None,
    after: Snapshot,
    new: OperatorInfo | None,
    *,
    internal: bool,
) -> Iterator[Change]:
    known = new or old
    assert known is not None
    states = {
        state.table: state
        for operator in (old, new)
        if operator is not None
        for state in operator.states
        if internal or not state.internal
    }
    for table, state in states.items():
        one = _state_of(old, table)
        other = _state_of(new, table)
        if not state.is_keyed:
            yield from _operator_state(known.label, state, (before, old, one), (after, new, other))
            continue
        pairs = _pairs(before, old, one, after, new, other)
        for left, right in pairs:
            held = _entries(before, old, one, left)
            coming = _entries(after, new, other, right)
            yield from _compare(known.label, state, held, coming)


def _state_of(operator: OperatorInfo | None, table: str) -> StateInfo | None:
    if operator is None:
        return None
    return next((state for state in operator.states if state.table == table), None)


def _pairs(
    before: Snapshot,
    old: OperatorInfo | None,
    one: StateInfo | None,
    after: Snapshot,
    new: OperatorInfo | None,
    other: StateInfo | None,
) -> Iterator[tuple[list[StateChain], list[StateChain]]]:
    """Yield chains that cover the same keys on both sides, where both sides have any."""
    left = before.manifest.operators[old.id].subtasks if old is not None and one else ()
    right = after.manifest.operators[new.id].subtasks if new is not None and other else ()
    same_keys = old is not None and new is not None and old.max_parallelism == new.max_parallelism
    if same_keys and len(left) == len(right):
        for mine, its in zip(left, right, strict=True):
            if mine != its:
                yield [mine] if mine else [], [its] if its else []
    else:
        yield [chain for chain in left if chain], [chain for chain in right if chain]


def _entries(
    snapshot: Snapshot,
    operator: OperatorInfo | None,
    state: StateInfo | None,
    chains: list[StateChain],
) -> Iterator[tuple[Any, Any, Any]]:
    """Iterate over (key, window, value); for timers the value is part of the key."""
    if operator is None or state is None:
        return
    scoped = state.scope is not None
    for row in snapshot.table_of(operator, state, chains=chains):
        yield row[0], row[1] if scoped else None, row[1 + scoped]


def _compare(
    label: str,
    state: StateInfo,
    before: Iterator[tuple[Any, Any, Any]],
    after: Iterator[tuple[Any, Any, Any]],
) -> Iterator[Change]:
    is_timer = state.table.startswith(TIMERS)
    held = {(key, window): value for key, window, value in before}
    for key, window, value in after:
        old = held.pop((key, window), MISSING)
        if old is MISSING:
            yield _row(label, state.name, key, window, MISSING, value, timer=is_timer)
        elif not _same(old, value):
            yield _row(label, state.name, key, window, old, value)
    for (key, window), old in held.items():
        yield _row(label, state.name, key, window, old, MISSING, timer=is_timer)


def _row(
    label: str, state: str, key: Key, window: Any, old: Any, new: Any, *, timer: bool = False
) -> Change:
    if timer:
        window, timestamp = window
        old, new = (MISSING if value is MISSING else timestamp for value in (old, new))
    if old is MISSING:
        return label, state, key, window, "added", None, new
    if new is MISSING:
        return label, state, key, window, "removed", old, None
    return label, state, key, window, "changed", old, new


def _same(one: object, other: object) -> bool:
    """Whether two values are the same: equal, or, if a class defines no equality, with the same pickle."""
    if type(one) is not type(other):
        return False
    try:
        if bool(one == other):
            return True
    except Exception:  # noqa: BLE001 - the user's __eq__, or an array's
        return dumps(one) == dumps(other)
    return not isinstance(one, str | int | bytes) and dumps(one) == dumps(other)


def _operator_state(
    label: str,
    state: StateInfo,
    before: tuple[Snapshot, OperatorInfo | None, StateInfo | None],
    after: tuple[Snapshot, OperatorInfo | None, StateInfo | None],
) -> Iterator[Change]:
    old, new = (_rows_of(*side) for side in (before, after))
    if state.kind in {"broadcast", "operator"}:
        yield from _compare(
            label, state, ((key, None, value) for key, value in old), ((k, None, v) for k, v in new)
        )
        return
    held, coming = [row[-1] for row in old], [row[-1] for row in new]
    gone = Counter(map(dumps, held))
    gone.subtract(map(dumps, coming))
    for values, sign, change in ((held, 1, "removed"), (coming, -1, "added")):
        for value in values:
            pickled = dumps(value)
            if gone[pickled] * sign > 0:
                gone[pickled] -= sign
                pair = (value, None) if sign > 0 else (None, value)
                yield label, state.name, None, None, change, *pair


def _rows_of(
    snapshot: Snapshot, operator: OperatorInfo | None, state: StateInfo | None
) -> list[tuple[Any, ...]]:
    if operator is None or state is None:
        return []
    (part,) = snapshot.operator_state(operator.id, state.table).parts
    assert isinstance(part, RowsPart)
    return list(part.held)


def _offsets(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    held = {(row.operator, row.split): row for row in before.offsets()}
    for row in after.offsets():
        old = held.pop((row.operator, row.split), None)
        if old is None:
            yield row.operator, "offsets", row.split, None, "added", None, row.position
        elif not _same((old.position, old.finished), (row.position, row.finished)):
            yield row.operator, "offsets", row.split, None, "changed", old.position, row.position
    for (operator, split), old in held.items():
        yield operator, "offsets", split, None, "removed", old.position, None
