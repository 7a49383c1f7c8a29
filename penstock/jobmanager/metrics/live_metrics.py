"""The last reports of the subtasks of a job, and their aggregates by vertex and for the job.

Subtasks report once a second in pipelined mode, and with every completed epoch in epoch mode. The thread that drives the job adds
reports, any thread may read them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.graph.task_id import TaskId
from penstock.records.dropped_records import LATE
from penstock.runtime.metrics import added
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task.pipelined.slot_messages import SlotReport
from penstock.runtime.task.shared import task_metrics as names
from penstock.runtime.task.shared.task_metrics import LatencyHistogram, merged, number

LATENCY_WINDOW_MS: Final = 10_000  # latencies are over the last ten seconds
_SECOND: Final = 1000.0
_MIN: Final = -(2**63)


@dataclass(frozen=True, slots=True)
class VertexMetrics:
    """The aggregated metrics of the subtasks of a vertex.

    Shares of time are those of the worst subtask that has reported, as on Flink's page: the highest busy and back-pressured
    shares and the lowest idle one, possibly of different subtasks. Rates are sums, the watermark is the minimum.
    """

    reported: int = 0  # subtasks
    busy: float = 0.0
    back_pressured: float = 0.0
    idle: float = 0.0
    records_in: float = 0.0  # per second, as are the next ones
    records_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    watermark: int | None = None

    @classmethod
    def of(cls, reports: Sequence[Mapping[str, Any]]) -> VertexMetrics:
        """Aggregate the reports of subtasks."""
        if not reports:
            return cls()

        def shares(name: str) -> list[float]:
            return [number(each, name) / _SECOND for each in reports]

        def total(name: str) -> float:
            return sum(number(each, name) for each in reports)

        watermarks = [known for each in reports if (known := _watermark(each)) is not None]
        return cls(
            reported=len(reports),
            busy=max(shares(names.BUSY)),
            back_pressured=max(shares(names.BACK_PRESSURED)),
            idle=min(shares(names.IDLE)),
            records_in=total(names.RECORDS_IN_RATE),
            records_out=total(names.RECORDS_OUT_RATE),
            bytes_in=total(names.BYTES_IN_RATE),
            bytes_out=total(names.BYTES_OUT_RATE),
            watermark=min(watermarks) if len(watermarks) == len(reports) else None,
        )


def _watermark(report: Mapping[str, Any]) -> int | None:
    """Return the watermark of a subtask; for a source, the one that it emits."""
    watermark: int | None = report.get(names.INPUT_WATERMARK, report.get(names.OUTPUT_WATERMARK))
    return watermark if watermark is not None and watermark > _MIN else None


class LiveMetrics:
    """The last report of each subtask, latencies of the last seconds, and the busy shares of slots."""

    def __init__(self) -> None:
        self._reports: dict[TaskId, Mapping[str, Any]] = {}
        # Latency histograms with their report times, by the vertex that the markers reached.
        self._latencies: deque[tuple[int, str, LatencyHistogram]] = deque()
        # By slot, identified by one of its tasks: the busy shares of all its subtasks together.
        self._busy: dict[TaskId, list[float]] = {}
        self._last_share: float | None = None
        self.pipelined = False  # whether the reports are from pipelined mode

    def take_final_reports(self, acks: Iterable[TaskAck], seconds: float) -> None:
        """Take the reports of an epoch, which was completed `seconds` after the previous one.

        Their counters start at zero with each epoch, so earlier counts are added.
        """
        reports = {} if self.pipelined else dict(self._reports)
        for ack in acks:
            if ack.report:
                reports[ack.task] = _added_up(reports.get(ack.task, {}), ack.report, seconds)
        self._reports = reports
        self.pipelined = False

    def take(self, report: SlotReport, now_ms: int) -> None:
        """Replace the report of a slot."""
        if not report.metrics:
            return
        reports = (
            dict(self._reports) if self.pipelined else {}
        )  # copy: other threads read the current one
        self.pipelined = True
        busy = 0.0
        for task, metrics in report.metrics.items():
            reports[task] = metrics
            busy += number(metrics, names.BUSY) / _SECOND
            for histogram in (metrics.get(names.LATENCY) or {}).values():
                self._latencies.append((now_ms, task.vertex, histogram))
        self._reports = reports
        # One thread runs all subtasks of a slot, so their busy times add up.
        self._busy.setdefault(min(report.metrics), []).append(min(busy, 1.0))
        while self._latencies and self._latencies[0][0] < now_ms - LATENCY_WINDOW_MS:
            self._latencies.popleft()

    def forget(self, tasks: Iterable[TaskId] | None = None) -> None:
        """Remove the reports of subtasks that have ended; without `tasks` of all."""
        gone = set(self._reports if tasks is None else tasks)
        self._reports = {task: each for task, each in self._reports.items() if task not in gone}
        self._busy = {task: each for task, each in self._busy.items() if task not in gone}
        self._last_share = None
        if not self._reports:
            self._latencies = deque()
            self.pipelined = False

    @property
    def empty(self) -> bool:
        """Whether no subtask has reported."""
        return not self._reports

    def subtask(self, task: TaskId) -> Mapping[str, Any]:
        """Return the last report of a subtask, empty if there is none."""
        return self._reports.get(task, {})

    def by_vertex(self) -> dict[str, list[Mapping[str, Any]]]:
        """Return the reports of subtasks by vertex."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for task, report in self._reports.items():
            found.setdefault(task.vertex, []).append(report)
        return found

    def vertex(self, vertex: str) -> VertexMetrics:
        """Return the aggregated metrics of a vertex."""
        return VertexMetrics.of(
            [report for task, report in self._reports.items() if task.vertex == vertex]
        )

    def latency(self, vertices: Collection[str]) -> LatencyHistogram:
        """Return the latency to these vertices in the last seconds."""
        return merged(found for _, vertex, found in list(self._latencies) if vertex in vertices)

    def take_busy_share(self) -> float | None:
        """Return the busy share of the busiest slot since the last call; None if there was never a report.

        A slot without a report since then keeps its previous value.
        """
        shares = [sum(each) / len(each) for each in self._busy.values() if each]
        self._busy = {}
        if shares:
            self._last_share = max(shares)
        return self._last_share


def _added_up(
    before: Mapping[str, Any], report: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """Return the report of a subtask after one more epoch: counts since the first one, the rest of this one."""
    busy = min(_SECOND, number(report, names.TOTAL_BUSY) / max(seconds, 1e-9))
    found = dict(report)
    for name in (*names.RATES, names.TOTAL_BUSY):
        found[name] = number(before, name) + number(report, name)
        if name != names.TOTAL_BUSY:
            found[name] = int(found[name])
    operators = before.get(names.OPERATORS, {})
    found[names.OPERATORS] = {
        operator: {
            name: added(then, each)
            if (then := operators.get(operator, {}).get(name)) is not None
            else each
            for name, each in measured.items()
        }
        for operator, measured in report.get(names.OPERATORS, {}).items()
    }
    late = [each[LATE][1] for each in found[names.OPERATORS].values() if LATE in each]
    if late:
        found[LATE] = sum(late)
    shares = {names.BUSY: round(busy), names.BACK_PRESSURED: 0, names.IDLE: 1000 - round(busy)}
    found |= {**shares, names.SOFT_BACK_PRESSURED: 0, names.HARD_BACK_PRESSURED: 0}
    names.complete(found, names.counts_of(before), seconds)
    return found
