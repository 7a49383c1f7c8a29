"""Handles records that an external system permanently rejects.

A sink has no side output. It fails the job, which is the default, calls a function, or writes rejected records to another sink,
which keeps its delivery guarantee: its committables are part of the rejecting sink's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.common.user_types import Record, StateValue
from penstock.connectors.base.sink import (
    CheckpointContext,
    Sink,
    SinkWriter,
    WriterContext,
)
from penstock.errors import ArgumentError, RecordError
from penstock.metrics.metricbase import Counter

FAIL = "fail"
OnRejected = str | Sink | Callable[["RejectedRecord"], Any]


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that an external system permanently rejected.

    `target` is its destination, `status` and `reason` are the response. As text it is a line of JSON.

    >>> str(RejectedRecord({"n": 1}, "http://host/in", 422, "n is too small"))
    '{"target": "http://host/in", "status": 422, "reason": "n is too small", "record": {"n": 1}}'
    """

    record: Record
    target: str
    status: int | None
    reason: str

    def __str__(self) -> str:
        fields = {
            "target": self.target,
            "status": self.status,
            "reason": self.reason,
            "record": self.record,
        }
        return json.dumps(fields, default=str)


def check_on_rejected(value: Any) -> OnRejected:
    """Return the value of `on_rejected` after checking it."""
    if value == FAIL or isinstance(value, Sink) or callable(value):
        checked: OnRejected = value
        return checked
    raise ArgumentError(
        "invalid on_rejected",
        detail=f"got {value!r}",
        hint='use "fail", a function of a RejectedRecord, or another sink',
    )


class Rejections:
    """Handles rejected records in a task. Its methods are those of the writer that it belongs to."""

    def __init__(
        self, on_rejected: OnRejected, context: WriterContext, restored: StateValue
    ) -> None:
        self._on_rejected = on_rejected
        self._context = context
        self._restored = restored
        self._writer: SinkWriter | None = None
        self._checkpoint: CheckpointContext | None = None
        self._begun = False
        metrics = context.metrics
        self._count: Counter | None = (
            None if metrics is None else metrics.counter("numRecordsRejected")
        )

    def begin(self, checkpoint: CheckpointContext) -> None:
        """Keep the context of the next checkpoint."""
        self._checkpoint = checkpoint

    def take(self, rejected: Sequence[RejectedRecord]) -> None:
        """Fail, or pass the records on."""
        if self._count is not None:
            self._count.inc(len(rejected))
        if self._on_rejected == FAIL:
            first = rejected[0]
            raise RecordError(
                f"{first.target} rejected a record",
                detail=f"{'' if first.status is None else f'{first.status}: '}{first.reason}; record: {_short(first.record)}",
                hint="fix the record upstream, or set on_rejected to a function or to another sink",
            )
        if isinstance(self._on_rejected, Sink):
            self._begun_writer(self._on_rejected).write(list(rejected), None, -(2**63))
            return
        assert callable(self._on_rejected)
        for each in rejected:
            self._on_rejected(each)

    def _begun_writer(self, sink: Sink) -> SinkWriter:
        if self._writer is None:
            self._writer = sink.create_writer(self._context, self._restored)
            self._restored = None
        if not self._begun:
            assert self._checkpoint is not None
            self._writer.begin(self._checkpoint)
            self._begun = True
        return self._writer

    def prepare_commit(self) -> list[Any]:
        """Return the committables of the other sink."""
        if self._writer is None or not self._begun:
            return []
        self._begun = False
        return self._writer.prepare_commit()

    def snapshot(self) -> StateValue:
        """Return the state of the other sink's writer."""
        return self._restored if self._writer is None else self._writer.snapshot()

    def next_wakeup(self) -> int | None:
        """Return the next wake-up time of the other sink's writer."""
        return None if self._writer is None or not self._begun else self._writer.next_wakeup()

    def wake_up(self) -> None:
        """Wake up the other sink's writer if it is due."""
        if self._writer is not None and self._begun:
            self._writer.wake_up()

    def close(self) -> None:
        """Close the other sink's writer."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _short(record: Record, most: int = 300) -> str:
    text = repr(record)
    return text if len(text) <= most else f"{text[:most]}..."
