"""Bounds of memory that a few rows reach, so that small tests go the ways of large state: spilled rows, slots that move, parts, compaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.runtime.columnar import (
    accumulator_columns,
    session_store,
    slice_store,
    state,
)
from penstock.runtime.columnar.aggregates import distinct, marked
from penstock.runtime.columnar.joins import memory, pairs, timed
from penstock.runtime.columnar.operators import (
    final_table,
    group_aggregate,
    over_time,
    rank,
    window_rank,
)
from penstock.runtime.columnar.over import calls
from penstock.runtime.columnar.store import key_index, rows, spilled

_FEW = 2
_CONSTANTS: tuple[tuple[Any, str, int], ...] = (
    (memory, "RESIDENT_BYTES", 0),
    (memory, "LOOK_EVERY", 1),
    (rows, "_WORTH_IT", 0),
    (rows, "_FEW", _FEW),
    (rows, "_ALIKE", _FEW),
    (spilled, "_KEYS_AT_ONCE", 1),
    (key_index, "MOST_PAIRS", _FEW),
    (pairs, "_AT_ONCE", _FEW),
    (timed, "_MOST_SLOTS", _FEW),
    (rank, "_MANY", _FEW),
    (window_rank, "_ENOUGH", _FEW),
    (final_table, "_FEW", _FEW),
    (final_table, "_BATCH", _FEW),
    (group_aggregate, "_EMIT_AT", _FEW),
    (over_time, "BOUND", _FEW),
    (calls, "_AT_ONCE", 1),
    (slice_store, "_MERGE_AT", _FEW),
    (session_store, "_MERGE_AT", _FEW),
)
_BOUNDED = (
    accumulator_columns.SlotStore,
    slice_store.SliceStore,
    distinct.SeenValues,
    marked.MarkedValues,
    state.KeyedCache,
)


@contextmanager
def tight_bounds() -> Iterator[None]:
    """Let all bounds be a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in _CONSTANTS:
            assert hasattr(module, name), (module, name)
            patch.setattr(module, name, value)
        for kind in _BOUNDED:
            patch.setattr(kind, "__init__", _bounded(kind))
        yield


def _bounded(kind: type) -> Any:
    original = kind.__init__  # type: ignore[misc]

    def made(self: Any, *args: Any, **more: Any) -> None:
        more.setdefault("bound", _FEW)
        original(self, *args, **more)

    return made
