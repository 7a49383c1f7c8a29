"""Replacement for sinks in a replay: collects the records in memory."""

from __future__ import annotations

import dataclasses
import pickle
import uuid
from collections.abc import Sequence
from typing import Any

from penstock.common.user_types import StateValue
from penstock.connectors.base.sink import (
    CheckpointContext,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.graph.deployment import VertexCode, VertexDeployment
from penstock.graph.operator_specs import SinkSpec
from penstock.pickling import cloudpickling
from penstock.pickling.portable_pickles import dumps
from penstock.replay.result import SinkRecord

_collected: dict[str, dict[tuple[str, int], list[SinkRecord]]] = {}


class CollectedOutput:
    """The records for the sinks of one replay, by operator id and subtask."""

    def __init__(self) -> None:
        self.token = uuid.uuid4().hex
        _collected[self.token] = {}

    def records(self) -> dict[tuple[str, int], list[SinkRecord]]:
        """Return the records so far."""
        return _collected[self.token]

    def clear(self) -> None:
        """Discard the records."""
        _collected[self.token].clear()

    def close(self) -> None:
        """Unregister the collection."""
        _collected.pop(self.token, None)


class CollectingSink(Sink):
    """Replaces a sink. Tasks get a copy of it, so it holds only the collection's name."""

    def __init__(self, token: str) -> None:
        self._token = token

    def create_writer(self, context: WriterContext, restored: StateValue = None) -> SinkWriter:
        """Create a writer; writer state of the real sink is ignored."""
        return _Writer(self._token, (context.operator_id, context.subtask))

    def merge_writer_states(self, states: Sequence[Any]) -> StateValue:
        """Return nothing: there is no state to merge."""
        return None


class _Writer(SinkWriter):
    def __init__(self, token: str, place: tuple[str, int]) -> None:
        self._token = token
        self._place = place

    def begin(self, checkpoint: CheckpointContext) -> None:
        self._records = _collected[self._token].setdefault(self._place, [])

    def write(self, values: list[Any], timestamps: list[int | None] | None, watermark: int) -> None:
        times: Any = timestamps or [None] * len(values)
        # A function may modify a value after emitting it.
        copies = pickle.loads(dumps(values))
        self._records.extend(map(SinkRecord, copies, times))

    def prepare_commit(self) -> list[Any]:
        return []


def switch_off_sinks(
    vertex: VertexDeployment, code: VertexCode, collection: CollectedOutput
) -> VertexDeployment:
    """Return a vertex with collecting sinks."""
    if all(spec.writes_to is None for spec in code.specs):
        return vertex
    collecting = SinkSpec(CollectingSink(collection.token))
    specs = tuple(collecting if spec.writes_to is not None else spec for spec in code.specs)
    return dataclasses.replace(
        vertex, code=cloudpickling.dumps(dataclasses.replace(code, specs=specs), 5)
    )
