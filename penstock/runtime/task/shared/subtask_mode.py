"""What a subtask does differently in the two execution modes."""

from __future__ import annotations

from typing import Protocol

from penstock.graph.deployment import JobSettings, ResultEdge
from penstock.runtime.task.shared.chain_metrics import ChainMetrics
from penstock.runtime.task.shared.gates import InputGates, WatermarkPolicy
from penstock.runtime.time.decisions import RuntimeDecisions
from penstock.runtime.time.watermark_valve import InputValves


class SubtaskMode(Protocol):
    """The strategy of an execution mode: `EpochMode` or `PipelinedMode`, without state of its own."""

    def watermark_policy(self, valves: InputValves, channels: int) -> WatermarkPolicy:
        """Return when watermarks of the channels reach the operators."""

    def create_decisions(self, settings: JobSettings) -> RuntimeDecisions:
        """Return the decisions of the wall clock, recorded if the job keeps a journal."""

    def is_call(self, edge: ResultEdge) -> bool:
        """Whether an edge calls its receiver, which is in the same slot."""

    def begin_interval(self, metrics: ChainMetrics) -> None:
        """Prepare the metrics for the interval that ends with the next checkpoint."""

    def ends_at_barrier(
        self, gates: InputGates, *, finished: bool, source_finished: bool | None
    ) -> bool:
        """Whether a barrier ends the output of a subtask: `source_finished` is None if it has no source."""
