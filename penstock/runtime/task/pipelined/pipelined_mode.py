"""Pipelined mode, as a strategy of subtasks: channels are read concurrently, and the input ends when it ends."""

from __future__ import annotations

from penstock.graph.deployment import JobSettings, ResultEdge
from penstock.runtime.task.shared.chain_metrics import ChainMetrics
from penstock.runtime.task.shared.gates import ImmediateWatermarks, InputGates, WatermarkPolicy
from penstock.runtime.time.decisions import (
    PIPELINED_MAX_RUNS,
    RecordedDecisions,
    RuntimeDecisions,
    WallClockDecisions,
    wall_clock,
)
from penstock.runtime.time.watermark_valve import InputValves


class PipelinedMode:
    """A subtask for the life of an attempt."""

    def watermark_policy(self, valves: InputValves, channels: int) -> WatermarkPolicy:
        """Apply watermarks immediately."""
        return ImmediateWatermarks(valves)

    def create_decisions(self, settings: JobSettings) -> RuntimeDecisions:
        """Use the wall clock."""
        if settings.journal:
            return RecordedDecisions(wall_clock, PIPELINED_MAX_RUNS)
        return WallClockDecisions(wall_clock)

    def is_call(self, edge: ResultEdge) -> bool:
        """Return False: a subtask must not be called while its own outputs have no capacity."""
        return False

    def begin_interval(self, metrics: ChainMetrics) -> None:
        """Keep counting: metrics are those of the attempt."""

    def ends_at_barrier(
        self, gates: InputGates, *, finished: bool, source_finished: bool | None
    ) -> bool:
        """Whether the subtask has finished: it does so as soon as its input ends, before the next barrier."""
        return finished
