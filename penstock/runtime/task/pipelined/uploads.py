"""Writes snapshots in the background of a slot's event loop."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import PenstockError, RecordError
from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import BarrierFigures, TaskAck
from penstock.runtime.task.pipelined.slot_messages import AcknowledgeCheckpoint, DeclineCheckpoint
from penstock.runtime.task.shared.snapshots import PendingSnapshot
from penstock.runtime.task.shared.subtask import Subtask

_JOIN_S = 5.0  # how long a slot that ends waits for a snapshot that is being written


@dataclass(frozen=True, slots=True)
class Upload:
    """A snapshot that was taken and must be written."""

    checkpoint: int
    subtask: Subtask
    snapshot: PendingSnapshot
    figures: BarrierFigures
    declined: str | None = (
        None  # why the checkpoint is declined: then only state is written, because later ones build on it
    )

    @property
    def task(self) -> TaskId:
        """The owner of the snapshot."""
        return self.subtask.id


class Uploads:
    """A thread that writes one snapshot after another, and reports each when it is durable.

    A snapshot that cannot be written is declined, and the job continues. State that cannot be pickled would fail again:
    it fails the slot.
    """

    def __init__(self, report: Callable[[Any], None], wake: Callable[[], None]) -> None:
        self._report = report
        self._wake = wake
        self._queue: queue.SimpleQueue[Upload | None] = queue.SimpleQueue()
        self._closed = False
        self.failed: tuple[Subtask, PenstockError] | None = None
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        self._thread.start()

    def submit(self, upload: Upload) -> None:
        """Write a snapshot after the earlier ones."""
        self._queue.put(upload)

    def close(self) -> None:
        """Stop writing."""
        self._closed = True
        self._queue.put(None)
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while (upload := self._queue.get()) is not None and not self._closed:
            try:
                ack = self._write(upload)
                if upload.declined is None:
                    self._report(AcknowledgeCheckpoint(upload.checkpoint, ack))
                else:
                    self._report(DeclineCheckpoint(upload.checkpoint, upload.task, upload.declined))
            except RecordError as error:
                self.failed = (upload.subtask, error)
                self._wake()
            except Exception as error:  # noqa: BLE001 - storage may fail in any way
                reason = f"{type(error).__name__}: {error}"
                self._report(DeclineCheckpoint(upload.checkpoint, upload.task, reason))

    def _write(self, upload: Upload) -> TaskAck:
        begun = time.perf_counter()
        ack = upload.snapshot.finish()
        took = (time.perf_counter() - begun) * 1000
        return replace(ack, figures=replace(upload.figures, async_ms=took))
