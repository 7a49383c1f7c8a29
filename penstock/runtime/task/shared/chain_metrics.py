"""Metrics of a subtask, and of each operator of its chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.graph.deployment import VertexDeployment
from penstock.runtime.metrics import Measured, OperatorMetricGroup
from penstock.runtime.network.edges import BufferedEdge
from penstock.runtime.operators.base import OperatorContext
from penstock.runtime.operators.connectors.source import SourceOperator
from penstock.runtime.records import MIN_WATERMARK
from penstock.runtime.task.shared import task_metrics as names
from penstock.runtime.task.shared.operator_chain import OperatorChain
from penstock.runtime.task.shared.snapshots import KeyedSnapshots

Operators = dict[str, dict[str, Measured]]  # by operator id, in the order of the chain


class ChainMetrics:
    """The metrics of one subtask: of one epoch or, in pipelined mode, of the whole attempt."""

    def __init__(
        self,
        deployment: VertexDeployment,
        chain: OperatorChain,
        edges: Sequence[BufferedEdge],
        keyed: KeyedSnapshots,
    ) -> None:
        outputs = chain.outputs
        #: The metrics of users' functions, one group per operator, from before they are opened.
        self.groups = [OperatorMetricGroup() for _ in outputs]
        self.times = chain.times
        #: What the channels have delivered; a source counts its records itself.
        self.records_in = 0
        self.bytes_in = 0
        #: In epoch mode only; pipelined mode has TimeShares.
        self.busy_s = 0.0
        self._ids = [info.operator_id for info in deployment.operators]
        self._outputs = outputs
        #: The edges with a writer. They are added when the subtask is opened.
        self._edges = edges
        #: Bytes that the edges had sent before this epoch: their counts go on as long as the subtask lives.
        self._sent_before = 0
        self._keyed = keyed
        self._source = chain.source
        #: Of the operators that are open; they are added one by one.
        self._contexts = chain.contexts
        #: The positions of operators with an edge: their records leave the chain.
        self._ends = {edge.operator for edge in deployment.edges}
        #: The operator and output that each operator of the chain reads; the head reads the input.
        self._upstream: dict[int, tuple[int, str | None]] = {
            target: (position, tag)
            for position, info in enumerate(deployment.operators)
            for target, tag in info.chained
        }

    def reset(self) -> None:
        """Start an epoch: reset all counts."""
        self.records_in = self.bytes_in = 0
        self.busy_s = 0.0
        self._sent_before = sum(edge.bytes_out for edge in self._edges)
        if self._source is not None:
            self._source.reader.records = 0
        for group, output in zip(self.groups, self._outputs, strict=True):
            group.reset()
            output.records_out = 0
            output.side_out = {}

    def io(self) -> dict[str, int]:
        """Return the I/O metrics, under Flink's names."""
        return {
            names.RECORDS_IN: self._received,
            names.RECORDS_OUT: sum(self._outputs[position].records_out for position in self._ends),
            names.BYTES_OUT: sum(edge.bytes_out for edge in self._edges) - self._sent_before,
        }

    @property
    def _received(self) -> int:
        return self.records_in if self._source is None else self._source.reader.records

    def totals(self) -> dict[str, dict[str, Any]]:
        """Return the counts of each operator for the totals of a checkpoint."""
        reports: dict[str, dict[str, Any]] = {}
        for position, operator in enumerate(self._ids):
            report = self.groups[position].report()
            report[names.RECORDS_OUT] = ("counter", self._outputs[position].records_out)
            if position == 0:
                report[names.RECORDS_IN] = ("counter", self._received)
            reports[operator] = report
        return reports

    def measure(self, watermark: int, now_ms: int) -> dict[str, Any]:
        """Return all current values. `watermark` is that of the input, for a source the last one emitted."""
        operators = self._operators(watermark, now_ms)
        report: dict[str, Any] = {
            **self.io(),
            names.BYTES_IN: self.bytes_in,
            **self._time(watermark, now_ms),
            **_summed(operators),
            names.OPERATORS: operators,
        }
        shares = self.times.take()
        if shares:
            report[names.SHARES] = shares
        return report

    def _time(self, watermark: int, now_ms: int) -> dict[str, int]:
        """Return the event-time metrics; without a watermark there is no lag."""
        name = names.INPUT_WATERMARK if self._source is None else names.OUTPUT_WATERMARK
        found = {name: watermark}
        if self._source is None and self._outputs[0].watermark != MIN_WATERMARK:
            found[names.OUTPUT_WATERMARK] = self._outputs[max(self._ends, default=0)].watermark
        if names.is_moment(watermark):
            found[names.WATERMARK_LAG] = now_ms - watermark
        return found

    def _operators(self, watermark: int, now_ms: int) -> Operators:
        found: Operators = {}
        for position, (operator, context) in enumerate(
            zip(self._ids, self._contexts, strict=False)
        ):
            output = self._outputs[position]
            received, before = self._input(position, watermark)
            found[operator] = measured = self.groups[position].measure()
            measured[names.RECORDS_IN] = ("counter", received)
            measured[names.RECORDS_OUT] = ("counter", output.records_out)
            if position or self._source is None:
                measured[names.INPUT_WATERMARK] = ("gauge", before)
            if output.watermark != MIN_WATERMARK:
                measured[names.OUTPUT_WATERMARK] = ("gauge", output.watermark)
            measured.update(self._state(position, context))
        if self._source is not None:
            found[self._ids[0]].update(_of_source(self._source, watermark, now_ms))
        return found

    def _input(self, position: int, watermark: int) -> tuple[int, int]:
        """Return the number of input records of an operator, and its input watermark."""
        if position not in self._upstream:
            return self._received, watermark
        upstream, tag = self._upstream[position]
        output = self._outputs[upstream]
        received = output.records_out if tag is None else output.side_out.get(tag, 0)
        return received, output.watermark

    def _state(self, position: int, context: OperatorContext) -> dict[str, Measured]:
        backend = self._keyed.get(position)
        if backend is None:
            return {}
        timers = None if context.keyed is None else context.keyed.timers
        figures = {
            names.STATE_ENTRIES: backend.about_entries(),
            names.STATE_BYTES: self._keyed.stored_bytes(position),
            names.EVENT_TIMERS: None if timers is None else timers.event.count(),
            names.PROCESSING_TIMERS: None if timers is None else timers.processing.count(),
        }
        return {name: ("gauge", value) for name, value in figures.items() if value is not None}


def _summed(operators: Mapping[str, Mapping[str, Measured]]) -> dict[str, int]:
    """Return the operator metrics that a subtask sums up."""
    found: dict[str, int] = {}
    for measured in operators.values():
        for name in names.SUMMED:
            if name in measured:
                found[name] = found.get(name, 0) + measured[name][1]
    return found


def _of_source(source: SourceOperator, watermark: int, now_ms: int) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    active = source.splits.last_active_ms()
    if active is not None:
        found[names.SOURCE_IDLE] = ("gauge", max(0, now_ms - active))
    if names.is_moment(watermark):
        found[names.WATERMARK_LAG] = ("gauge", now_ms - watermark)
    return found
