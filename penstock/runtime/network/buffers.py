"""Network buffers: many records as one binary value, and the rows that carry them."""

from __future__ import annotations

import importlib
from typing import Final, NamedTuple

from penstock.errors import PenstockError
from penstock.runtime.records import COLUMNS, Batch, RowBatch


class Row(NamedTuple):
    """One row of the pipe: a buffer or a control message on its way to a gate of a subtask."""

    target: int
    vertex: int
    gate: int
    channel: int
    sequence: int
    kind: int
    payload: bytes


class UnknownBatchError(PenstockError, RuntimeError):
    """A buffer does not hold a batch of a kind that is known here."""


_kinds: dict[int, type[Batch]] = {RowBatch.TAG: RowBatch}
# Kinds that register themselves when their module is loaded: a process may get a buffer before it has made one.
_MODULES: Final = {0x43: COLUMNS}


def register_kind(kind: type[Batch]) -> None:
    """Let buffers carry batches of another kind."""
    known = _kinds.setdefault(kind.TAG, kind)
    if known is not kind:
        raise ValueError(f"{known.__name__} has the tag {kind.TAG:#x}, too")


def decode(payload: bytes) -> Batch:
    """Turn a payload back into records: `Batch.encode` made it."""
    kind = _kinds.get(payload[0])
    if kind is None and payload[0] in _MODULES:
        importlib.import_module(_MODULES[payload[0]])
        kind = _kinds.get(payload[0])
    if kind is None:
        raise UnknownBatchError(
            f"a buffer holds an unknown kind of batch, {payload[0]:#x}",
            detail=f"known kinds are {', '.join(f'{tag:#x}' for tag in _kinds)}",
        )
    return kind.decode(payload)
