"""Network buffers: many records as one binary value, and the rows that carry them."""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import PenstockError
from penstock.runtime.records import Batch, RowBatch, load_kinds


class BufferedRow(NamedTuple):
    """One row of the pipe: a buffer or a control message for a gate of a subtask."""

    target: int
    vertex: int
    gate: int
    channel: int
    sequence: int
    kind: int
    payload: bytes


class UnknownBatchError(PenstockError, RuntimeError):
    """A buffer contains an unknown kind of batch."""


_kinds: dict[int, type[Batch]] = {RowBatch.TAG: RowBatch}


def register_kind(kind: type[Batch]) -> None:
    """Register another kind of batch for buffers."""
    known = _kinds.setdefault(kind.TAG, kind)
    if known is not kind:
        raise ValueError(f"tag {kind.TAG:#x} is already used by {known.__name__}")


def decode(payload: bytes) -> Batch:
    """Decode a payload created by `Batch.encode`."""
    kind = _kinds.get(payload[0])
    if kind is None:  # a process may receive a buffer before it has created one
        load_kinds()
        kind = _kinds.get(payload[0])
    if kind is None:
        raise UnknownBatchError(
            f"a buffer holds an unknown kind of batch, {payload[0]:#x}",
            detail=f"known kinds are {', '.join(f'{tag:#x}' for tag in _kinds)}",
        )
    return kind.decode(payload)
