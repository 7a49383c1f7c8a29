"""How a pipelined task reads its input channels."""

from __future__ import annotations

import pickle
import time
from typing import Final

from penstock.runtime.inspection.key_sample import KeySample
from penstock.runtime.network.buffers import decode
from penstock.runtime.network.channels import BufferOrEvent, InputChannel, Inputs, Outputs
from penstock.runtime.network.messages import BARRIER, DATA, END, LATENCY, LatencyMarker
from penstock.runtime.records import Batch
from penstock.runtime.task.pipelined.barrier_handlers import Channel
from penstock.runtime.task.pipelined.gate_debloating import GateDebloating
from penstock.runtime.task.pipelined.portion_size import PortionSize
from penstock.runtime.task.pipelined.task_checkpoints import TaskCheckpoints
from penstock.runtime.task.pipelined.task_end import TaskEnd
from penstock.runtime.task.pipelined.task_state import TaskState
from penstock.runtime.task.shared.subtask import Subtask
from penstock.runtime.task.shared.task_metrics import LatencyHistogram
from penstock.time.clock import now

# How much a subtask reads before the next one of the slot runs.
_BUFFERS_PER_TURN: Final = 16
_SECONDS_PER_TURN: Final = 0.005


class ChannelReading:
    """Takes items from the channels of a subtask while its outputs have capacity, in portions of some milliseconds."""

    def __init__(
        self,
        subtask: Subtask,
        inputs: Inputs,
        outputs: Outputs,
        checkpoints: TaskCheckpoints,
        debloating: GateDebloating,
        state: TaskState,
        end: TaskEnd,
    ) -> None:
        #: Latencies since the last report, by source.
        self.latencies: dict[str, LatencyHistogram] = {}
        #: Counts keys while frequent keys are being sampled; another thread sets and removes it.
        self.key_sample: KeySample | None = None
        self._subtask = subtask
        self._inputs = inputs
        self._outputs = outputs
        self._checkpoints = checkpoints
        self._debloating = debloating
        self._state = state
        self._end = end
        self._portion = PortionSize()
        #: The channels that have not ended. When it becomes empty the subtask finishes, once.
        self._unended: set[Channel] = set(subtask.gates.channels)

    def take_latencies(self) -> dict[str, LatencyHistogram]:
        """Return the latencies since the last call."""
        found, self.latencies = self.latencies, {}
        return found

    def read(self) -> bool:
        """Take items from the channels, one channel after another; return whether there were any."""
        channel = self._inputs.next()
        if channel is None:
            self._debloating.starve()
            return False
        self._debloating.feed()
        self._state.enter_busy()
        outputs, inputs, chain = self._outputs, self._inputs, self._subtask.chain
        deadline = time.monotonic() + _SECONDS_PER_TURN
        left = _BUFFERS_PER_TURN
        while channel is not None:
            self.take(channel)
            channel.offer()
            left -= 1
            if self._end.finishing or not (left and outputs.has_room and chain.has_room):
                break
            # A channel that is taken out of the queue is read.
            channel = inputs.next() if time.monotonic() < deadline else None
        self._debloating.adapt()
        self._state.leave_busy()
        return True

    def take(self, channel: InputChannel) -> None:
        """Take the next item of a channel."""
        overtakes = channel.is_urgent
        item = channel.take()
        kind, content, size, _ = item
        name = channel.id[2:]
        if type(content) is bytes:
            content = decode(content) if kind == DATA else pickle.loads(content)
        self._inputs.bytes_in += max(size, 0)
        if kind == DATA:
            self._take_records(channel, item, content)
        elif kind == BARRIER:
            self._checkpoints.on_barrier(channel, content, overtakes)
        elif kind == END:
            self._end_of(name)
        elif kind == LATENCY:
            self._on_marker(content)
        else:
            self._subtask.receive(*name, kind, content)

    def _take_records(self, channel: InputChannel, item: BufferOrEvent, records: Batch) -> None:
        """Take as many records as can be processed in some milliseconds; the rest stays queued."""
        name, size = channel.id[2:], max(self._portion.size, records.LEAST_PORTION)
        kept = item
        if len(records) > size:
            channel.put_back(records.slice(size), item)
            records = records.slice(0, size)
            kept = BufferOrEvent(DATA, records, 0)
        if name in self._checkpoints.in_flight:
            self._checkpoints.keep(name, kept)
        if (sample := self.key_sample) is not None:
            sample.add(records)
        begun = time.monotonic()
        self._subtask.receive(*name, DATA, records)
        self._portion.took(len(records), time.monotonic() - begun)
        self._debloating.took(name, len(records))
        channel.processed(item, len(records))

    def _end_of(self, channel: Channel) -> None:
        self._unended.discard(channel)
        if not self._unended:
            self._end.begin()

    def _on_marker(self, marker: LatencyMarker) -> None:
        histogram = self.latencies.setdefault(marker.source.vertex, LatencyHistogram())
        histogram.add(now() * 1000 - marker.emitted_ms)
        self._subtask.edges.send_latency(marker)
