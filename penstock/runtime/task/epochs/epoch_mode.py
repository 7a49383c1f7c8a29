"""Epoch mode, as a strategy of subtasks: input is one sequence of rows, which ends with the barrier."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.graph.deployment import JobSettings, ResultEdge
from penstock.runtime.task.shared.chain_metrics import ChainMetrics
from penstock.runtime.task.shared.gates import ImmediateWatermarks, InputGates, WatermarkPolicy
from penstock.runtime.time.decisions import (
    RecordedDecisions,
    RuntimeDecisions,
    WallClockDecisions,
    wall_clock,
)
from penstock.runtime.time.watermark_valve import InputValves, ValveOutput


class BarrierTime:
    """Applies watermarks at the barrier: for channels that arrive one after another but cover the same span of time."""

    def __init__(self, valve: InputValves) -> None:
        self._valve = valve
        self._clear()

    def _clear(self) -> None:
        self._watermarks: dict[int, int] = {}
        self._active: dict[int, None] = {}
        self._idle: dict[int, None] = {}

    def on_watermark(self, channel: int, watermark: int) -> Iterator[ValveOutput]:
        """Store it."""
        self._watermarks[channel] = watermark
        return iter(())

    def on_status(self, channel: int, idle: bool) -> Iterator[ValveOutput]:
        """Store it."""
        if idle:
            self._idle[channel] = None
        else:
            # Active for some time before the barrier: its watermarks count, even if it ends idle.
            self._active[channel] = None
            self._idle.pop(channel, None)
        return iter(())

    def on_barriers(self) -> Iterator[ValveOutput]:
        """Apply the stored watermarks and statuses to the valve."""
        for channel in self._active:
            yield self._valve.on_status(channel, idle=False)
        for channel, watermark in self._watermarks.items():
            yield self._valve.on_watermark(channel, watermark)
        for channel in self._idle:
            yield self._valve.on_status(channel, idle=True)
        self._clear()


class EpochMode:
    """A subtask of one epoch, which may stay in this process for the next one."""

    def watermark_policy(self, valves: InputValves, channels: int) -> WatermarkPolicy:
        """Apply watermarks at the barrier, because channel follows channel; those of a single channel at once."""
        return ImmediateWatermarks(valves) if channels == 1 else BarrierTime(valves)

    def create_decisions(self, settings: JobSettings) -> RuntimeDecisions:
        """Use the wall clock."""
        if settings.journal:
            return RecordedDecisions(wall_clock)
        return WallClockDecisions(wall_clock)

    def is_call(self, edge: ResultEdge) -> bool:
        """Whether both ends are in the same slot: nothing has to wait there."""
        return edge.local

    def begin_interval(self, metrics: ChainMetrics) -> None:
        """Count from zero: the driver adds up epochs."""
        metrics.reset()

    def ends_at_barrier(
        self, gates: InputGates, *, finished: bool, source_finished: bool | None
    ) -> bool:
        """Whether all channels end with this barrier, or the source has nothing more."""
        return gates.barrier_alignment.finished if source_finished is None else source_finished
