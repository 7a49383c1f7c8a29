"""The input gates of a subtask: its channels, their order, barriers and watermarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from penstock.errors import PenstockError
from penstock.graph.deployment import InputGate
from penstock.graph.task_id import TaskId
from penstock.runtime.network.messages import WATERMARK, BarrierMessage
from penstock.runtime.network.routing import connected_sources
from penstock.runtime.records import MIN_WATERMARK
from penstock.runtime.time.watermark_valve import NOTHING, InputValves, ValveOutput

Channel = tuple[int, int]  # gate, source subtask


class ChannelError(PenstockError, RuntimeError):
    """A channel violated the protocol: records in order, then the barrier."""


class WatermarkPolicy(Protocol):
    """Decides when watermarks and status changes of the channels reach the operators."""

    def on_watermark(self, channel: int, watermark: int) -> Iterator[ValveOutput]:
        """Handle a channel's watermark."""

    def on_status(self, channel: int, idle: bool) -> Iterator[ValveOutput]:
        """Handle a channel's status."""

    def on_barriers(self) -> Iterator[ValveOutput]:
        """All channels have delivered their barrier."""


class ImmediateWatermarks:
    """Applies watermarks immediately: for channels that are read concurrently, and for a single channel."""

    def __init__(self, valve: InputValves) -> None:
        self._valve = valve

    def on_watermark(self, channel: int, watermark: int) -> Iterator[ValveOutput]:
        """Apply the watermark between the records of the channel."""
        yield self._valve.on_watermark(channel, watermark)

    def on_status(self, channel: int, idle: bool) -> Iterator[ValveOutput]:
        """Apply the status."""
        yield self._valve.on_status(channel, idle)

    def on_barriers(self) -> Iterator[ValveOutput]:
        """Return nothing: no watermarks are pending."""
        return iter(())


PolicyOf = Callable[[InputValves, int], WatermarkPolicy]  # valves, number of channels


class BarrierAlignment:
    """The channels that have delivered the barrier of the current checkpoint."""

    def __init__(self, channels: Sequence[Channel], where: str) -> None:
        self._channels = channels
        self._where = where
        self.barriers: dict[Channel, BarrierMessage] = {}

    def on_barrier(self, channel: Channel, message: BarrierMessage) -> None:
        """Record a channel's barrier: later records belong to the next checkpoint."""
        self.barriers[channel] = message

    def blocks(self, channel: Channel) -> bool:
        """Whether a channel has to wait for the others."""
        return channel in self.barriers

    @property
    def complete(self) -> bool:
        """Whether no channel's barrier is missing."""
        return len(self.barriers) == len(self._channels)

    @property
    def finished(self) -> bool:
        """Whether all channels have ended."""
        return all(message.finished for message in self.barriers.values())

    def check(self, checkpoint: int, *, all_there: bool = True) -> None:
        """Raise ChannelError if a barrier is missing (and may not be), or belongs to another checkpoint."""
        missing = [channel for channel in self._channels if channel not in self.barriers]
        if missing and all_there:
            raise ChannelError(
                f"{len(missing)} of {len(self._channels)} input channels ended without a barrier",
                detail=f"{self._where}, (gate, channel) {missing[:5]}",
            )
        for channel, message in self.barriers.items():
            if message.checkpoint != checkpoint:
                raise ChannelError(
                    f"received the barrier of checkpoint {message.checkpoint} instead of {checkpoint}",
                    detail=f"{self._where}, (gate, channel) {channel}",
                )


class InputGates:
    """All channels of one subtask. Their combined watermark is for the head of the chain."""

    def __init__(
        self,
        name: str,
        gates: Sequence[InputGate],
        subtask: int,
        parallelism: int,
        policy_of: PolicyOf,
    ) -> None:
        self._name = name
        self._numbers: dict[Channel, int] = {}
        self._sources: dict[Channel, TaskId] = {}
        inputs: list[int] = []  # input index of each channel
        for gate in gates:
            for source in connected_sources(
                gate.partitioning, subtask, gate.source_parallelism, parallelism
            ):
                self._numbers[gate.gate, source] = len(self._numbers)
                self._sources[gate.gate, source] = TaskId(gate.source_id, source)
                inputs.append(gate.input_index)
        self.input_of = {gate.gate: gate.input_index for gate in gates}
        self._valve = InputValves(inputs)
        self._policy = policy_of(self._valve, len(self._numbers))
        self._sequences: dict[Channel, int] = {}
        self.barrier_alignment = BarrierAlignment(
            list(self._numbers), f"vertex '{name}', subtask {subtask}"
        )
        # The watermark before a restore: the valve starts again, but the watermark never decreases.
        self._floor = MIN_WATERMARK

    def __len__(self) -> int:
        return len(self._numbers)

    def renumber(self) -> None:
        """Expect the next buffer of each channel to have number 0."""
        self._sequences.clear()

    def check_sequence(self, gate: int, channel: int, sequence: int) -> None:
        """Raise ChannelError if a buffer of a channel was lost, duplicated or reordered."""
        expected = self._sequences.get((gate, channel), 0)
        if sequence != expected:
            raise ChannelError(
                f"received row {sequence} instead of row {expected}",
                detail=f"vertex '{self._name}', gate {gate}, channel {channel}",
            )
        self._sequences[gate, channel] = expected + 1

    @property
    def channels(self) -> Mapping[Channel, TaskId]:
        """All channels, and their senders."""
        return self._sources

    # Barriers.

    def start_barrier_alignment(self) -> None:
        """Wait for the barriers of the next checkpoint."""
        self.barrier_alignment.barriers = {}

    def upstream_attempts(self) -> dict[TaskId, str]:
        """Return the attempts of the upstream tasks that sent the received data."""
        barriers = self.barrier_alignment.barriers
        return {self._sources[channel]: message.attempt for channel, message in barriers.items()}

    # Time.

    @property
    def watermark(self) -> int:
        """The combined watermark of all channels."""
        return max(self._valve.watermark, self._floor)

    @property
    def timers_watermark(self) -> int:
        """The initial watermark of timers that have none restored."""
        return self._valve.watermark

    def on_time(self, channel: Channel, kind: int, content: Any) -> Iterator[ValveOutput]:
        """Handle a watermark or a status; return the output for the operator."""
        number = self._numbers[channel]
        policy = self._policy
        outputs = (policy.on_watermark if kind == WATERMARK else policy.on_status)(number, content)
        return self._above_floor(outputs)

    def on_barriers(self) -> Iterator[ValveOutput]:
        """Return the output for the operator when all barriers have arrived."""
        return self._above_floor(self._policy.on_barriers())

    def _above_floor(self, outputs: Iterator[ValveOutput]) -> Iterator[ValveOutput]:
        for output in outputs:
            if output.watermark is not None:
                yield replace(output, watermark=max(output.watermark, self._floor))
            elif output != NOTHING:
                yield output

    def snapshot(self) -> dict[str, Any]:
        """Return the watermark state for a snapshot."""
        return {"valve": self._valve.snapshot(), "floor": self._floor}

    def restore(self, local: dict[str, Any]) -> None:
        """Restore what `snapshot` returned, or a part of it."""
        if "valve" in local:
            self._valve.restore(local["valve"])
        self._floor = local.get("floor", MIN_WATERMARK)
