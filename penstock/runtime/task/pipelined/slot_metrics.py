"""Collects the metrics of a slot's subtasks for a report to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.graph.task_id import TaskId
from penstock.processes.process_metrics import ProcessFigures
from penstock.runtime.task.pipelined.pipelined_task import PipelinedTask
from penstock.runtime.task.shared import task_metrics as names
from penstock.time.clock import now_ms


class SlotMetrics:
    """Creates a report of each subtask, with rates since the last one."""

    def __init__(self, moment: float) -> None:
        self._since = moment
        self._before: dict[TaskId, names.Counts] = {}
        self._process = ProcessFigures()

    def take(self, tasks: Iterable[PipelinedTask], moment: float) -> dict[TaskId, dict[str, Any]]:
        """Return the metrics of all subtasks, and start the next interval."""
        seconds = max(moment - self._since, 1e-9)
        self._since = moment
        clock, process = now_ms(), self._process.take()
        return {
            task.id: {**self._report(task, moment, seconds, clock), names.PROCESS: process}
            for task in tasks
        }

    def _report(
        self, task: PipelinedTask, moment: float, seconds: float, clock: int
    ) -> dict[str, Any]:
        report = {
            **task.subtask.metrics.measure(task.subtask.watermark, clock),
            names.BYTES_IN: task.inputs.bytes_in,
            **task.state.shares.report(moment),
            **task.state.shares.totals(),
            **_channels(task),
        }
        report[names.SOFT_BACK_PRESSURED] = report[names.BACK_PRESSURED]
        report[names.HARD_BACK_PRESSURED] = 0
        self._before[task.id] = names.complete(report, self._before.get(task.id, {}), seconds)
        latencies = task.reading.take_latencies()
        if latencies:
            report[names.LATENCY] = latencies
        return report


def _channels(task: PipelinedTask) -> dict[str, float]:
    inputs = list(task.inputs.channels.values())
    outputs = task.subtask.edges.channels()
    return {
        names.INPUT_QUEUE: task.inputs.moved + sum(len(channel.items) for channel in inputs),
        names.INPUT_QUEUE_BYTES: sum(
            max(item.size, 0) for channel in inputs for item in channel.items
        ),
        names.OUTPUT_QUEUE: sum(channel.queued() for channel in outputs),
        names.INPUT_POOL: _average([channel.usage() for channel in inputs]),
        names.OUTPUT_POOL: _average([channel.usage() for channel in outputs]),
    }


def _average(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 3) if values else 0.0
