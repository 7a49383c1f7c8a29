"""How the subtasks of a slot are doing, for a report to the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from penstock.graph.task_id import TaskId
from penstock.runtime.task import task_metrics as names
from penstock.runtime.task.live_task import LiveTask

_RATES: Final = {
    names.RECORDS_IN: names.RECORDS_IN_RATE,
    names.RECORDS_OUT: names.RECORDS_OUT_RATE,
    names.BYTES_IN: names.BYTES_IN_RATE,
    names.BYTES_OUT: names.BYTES_OUT_RATE,
}


class SlotMetrics:
    """Makes a report of each subtask, with rates since the last one."""

    def __init__(self, moment: float) -> None:
        self._since = moment
        self._before: dict[TaskId, dict[str, int]] = {}

    def take(self, tasks: Iterable[LiveTask], moment: float) -> dict[TaskId, dict[str, Any]]:
        """Return the metrics of all subtasks; the next ones begin here."""
        seconds = max(moment - self._since, 1e-9)
        self._since = moment
        return {task.id: self._report(task, moment, seconds) for task in tasks}

    def _report(self, task: LiveTask, moment: float, seconds: float) -> dict[str, Any]:
        counts = {**task.subtask.io_metrics(), names.BYTES_IN: task.inputs.bytes_in}
        before = self._before.get(task.id, {})
        self._before[task.id] = counts
        rates = {
            rate: (counts[name] - before.get(name, 0)) / seconds for name, rate in _RATES.items()
        }
        channels = task.inputs.channels.values()
        latencies, task.latencies = task.latencies, {}
        return {
            **counts,
            **rates,
            **task.shares.report(moment),
            names.INPUT_QUEUE: sum(len(channel.items) for channel in channels),
            names.INPUT_WATERMARK if channels else names.OUTPUT_WATERMARK: task.subtask.watermark,
            **({names.LATENCY: latencies} if latencies else {}),
        }
