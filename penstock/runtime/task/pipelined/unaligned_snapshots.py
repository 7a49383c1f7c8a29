"""Snapshots of unaligned checkpoints, held until their in-flight data is complete."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from penstock.graph.task_id import TaskId
from penstock.pickling.portable_pickles import NotPicklableError
from penstock.runtime.network.channels import BufferOrEvent
from penstock.runtime.network.messages import BarrierMessage
from penstock.runtime.task.pipelined.barrier_handlers import BeginCheckpoint, Channel
from penstock.runtime.task.pipelined.uploads import Upload
from penstock.runtime.task.shared.in_flight import Capture
from penstock.runtime.task.shared.result_edges import ResultEdges


@dataclass(slots=True)
class _Held:
    upload: Upload
    capture: Capture
    first_ms: float  # when its first barrier arrived
    # Until when its barrier may wait in output channels, by the wall clock; None: it does not.
    expedite_at: float | None
    has_inputs: bool  # whether all channels have delivered their barriers
    unaligned: bool
    upstream: dict[TaskId, str] = field(default_factory=dict)
    declined: str | None = None
    waited_ms: float = 0.0  # wait for the last of its barriers
    processed: int = 0  # bytes, until the last of its barriers

    @property
    def is_ready(self) -> bool:
        return self.declined is not None or (self.has_inputs and self.expedite_at is None)

    def finished(self) -> Upload:
        """Return the upload."""
        upload = self.upload
        if self.declined is not None:
            return replace(upload, declined=self.declined)
        found = self.capture.result()
        ack = upload.snapshot.ack
        return replace(
            upload,
            snapshot=replace(
                upload.snapshot,
                ack=replace(ack, upstream={**ack.upstream, **self.upstream}),
                in_flight=None if found is None else found.dump(),
            ),
            figures=replace(
                upload.figures,
                alignment_ms=max(upload.figures.alignment_ms, self.waited_ms),
                processed_in_flight=max(upload.figures.processed_in_flight, self.processed),
                persisted_in_flight=0 if found is None else found.size,
                unaligned=self.unaligned,
            ),
        )


class UnalignedSnapshots:
    """The snapshots of one subtask that cannot be written yet, in order.

    A barrier that was forwarded in order may be stuck in an output channel. When its timeout is over it overtakes, and the
    overtaken records are in flight as well; so its snapshot waits until the barrier was sent.
    """

    def __init__(self, edges: ResultEdges, write: Callable[[Upload], None]) -> None:
        self._edges = edges
        self._write = write
        self._held: deque[_Held] = deque()

    def __bool__(self) -> bool:
        return bool(self._held)

    @property
    def deadline_ms(self) -> float | None:
        """When a barrier in an output channel must overtake."""
        times = [each.expedite_at for each in self._held if each.expedite_at is not None]
        return min(times, default=None)

    def hold(
        self, upload: Upload, capture: Capture, begin: BeginCheckpoint, expedite_at: float | None
    ) -> None:
        """Hold a snapshot until `complete` is called; its barrier may wait in output channels until `expedite_at`."""
        self._held.append(
            _Held(
                upload,
                capture,
                begin.first_ms,
                expedite_at,
                has_inputs=False,
                unaligned=begin.unaligned,
            )
        )
        self.check(begin.last_ms)

    def take(self, checkpoint: int, channel: Channel, items: Sequence[BufferOrEvent]) -> None:
        """Add in-flight records of a checkpoint."""
        held = self._of(checkpoint)
        if held is not None and held.declined is None:
            try:
                held.capture.add_inputs(channel, items)
            except NotPicklableError as error:
                held.declined = f"a record in flight cannot be pickled: {error.message}"

    def barrier(
        self, sender: TaskId, message: BarrierMessage, now_ms: float, processed: int
    ) -> None:
        """Record a barrier of a started checkpoint, and the bytes received since the first."""
        held = self._of(message.checkpoint)
        if held is not None:
            held.upstream[sender] = message.attempt
            held.waited_ms = now_ms - held.first_ms
            held.processed = processed

    def complete(self, checkpoint: int) -> None:
        """All input channels have delivered their barriers."""
        held = self._of(checkpoint)
        if held is not None:
            held.has_inputs = True
        self._release()

    def drop(self, checkpoint: int) -> None:
        """The checkpoint was aborted; its state is still written, since later snapshots build on it."""
        held = self._of(checkpoint)
        if held is not None:
            held.declined = "the checkpoint was aborted"
        self._release()

    def check(self, now_ms: float) -> bool:
        """Check the barriers in output channels; return whether there was anything to do."""
        before = len(self._held)
        for held in self._held:
            message = held.upload.snapshot.barrier
            if held.expedite_at is None or message is None:
                continue
            if not self._edges.holds_barrier(message):
                held.expedite_at = None
            elif now_ms >= held.expedite_at:
                held.expedite_at = None
                held.unaligned = True
                self._expedite(held, message)
        self._release()
        return len(self._held) < before

    def _expedite(self, held: _Held, message: BarrierMessage) -> None:
        try:
            self._edges.expedite_barrier(message, held.capture)
        except NotPicklableError as error:
            held.declined = f"a record in flight cannot be pickled: {error.message}"

    def _release(self) -> None:
        while self._held and self._held[0].is_ready:
            self._write(self._held.popleft().finished())

    def _of(self, checkpoint: int) -> _Held | None:
        return next((each for each in self._held if each.upload.checkpoint == checkpoint), None)
