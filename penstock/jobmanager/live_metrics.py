"""What the subtasks of a job told last, and what that adds up to: by vertex, and for the job.

Subtasks that stay tell it once a second, those of epochs with every epoch that is completed. The thread that drives the job takes reports,
any thread may ask.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from penstock.common.dropped_records import LATE
from penstock.graph.task_id import TaskId
from penstock.runtime.metrics import added
from penstock.runtime.network.messages import TaskAck
from penstock.runtime.task import task_metrics as names
from penstock.runtime.task.stage_messages import SlotReport
from penstock.runtime.task.task_metrics import LatencyHistogram, merged, number

LATENCY_WINDOW_MS: Final = 10_000  # latencies of the last ten seconds count
_SECOND: Final = 1000.0
_MIN: Final = -(2**63)


@dataclass(frozen=True, slots=True)
class VertexFigures:
    """How the subtasks of a vertex are doing together.

    Shares of the time are the average over those that have reported. What is per second is added up. The watermark is the lowest.
    """

    reported: int = 0  # subtasks
    busy: float = 0.0
    back_pressured: float = 0.0
    idle: float = 0.0
    records_in: float = 0.0  # per second, and so the next ones
    records_out: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    watermark: int | None = None

    @classmethod
    def of(cls, reports: Sequence[Mapping[str, Any]]) -> VertexFigures:
        """Add up what subtasks have reported."""
        if not reports:
            return cls()

        def average(name: str) -> float:
            return sum(number(each, name) for each in reports) / len(reports) / _SECOND

        def total(name: str) -> float:
            return sum(number(each, name) for each in reports)

        watermarks = [known for each in reports if (known := _watermark(each)) is not None]
        return cls(
            reported=len(reports),
            busy=average(names.BUSY),
            back_pressured=average(names.BACK_PRESSURED),
            idle=average(names.IDLE),
            records_in=total(names.RECORDS_IN_RATE),
            records_out=total(names.RECORDS_OUT_RATE),
            bytes_in=total(names.BYTES_IN_RATE),
            bytes_out=total(names.BYTES_OUT_RATE),
            watermark=min(watermarks) if len(watermarks) == len(reports) else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return asdict(self)


def _watermark(report: Mapping[str, Any]) -> int | None:
    """Return the time that a subtask has reached; of a source, what it has said."""
    watermark: int | None = report.get(names.INPUT_WATERMARK, report.get(names.OUTPUT_WATERMARK))
    return watermark if watermark is not None and watermark > _MIN else None


class LiveMetrics:
    """The last report of each subtask, latencies of the last seconds, and how busy the slots have been."""

    def __init__(self) -> None:
        self._reports: dict[TaskId, Mapping[str, Any]] = {}
        # Of markers, when their report came: by the vertex that they reached.
        self._latencies: deque[tuple[int, str, LatencyHistogram]] = deque()
        # By slot, which is known by a task of it: the shares of time that its subtasks together have worked.
        self._busy: dict[TaskId, list[float]] = {}
        self._last_share: float | None = None
        self.flows = False  # whether it was subtasks that stay who told it

    def take_epoch(self, acks: Iterable[TaskAck], seconds: float) -> None:
        """Take what the subtasks of an epoch told, which was completed so many seconds after the one before.

        They count from the beginning of the epoch: what they counted before comes on top.
        """
        reports = {} if self.flows else dict(self._reports)
        for ack in acks:
            if ack.report:
                reports[ack.task] = _after_epoch(reports.get(ack.task, {}), ack.report, seconds)
        self._reports = reports
        self.flows = False

    def take(self, report: SlotReport, now_ms: int) -> None:
        """Take the report of a slot in the place of the one before."""
        if not report.metrics:
            return
        reports = dict(self._reports) if self.flows else {}  # others read the one that is there
        self.flows = True
        busy = 0.0
        for task, metrics in report.metrics.items():
            reports[task] = metrics
            busy += number(metrics, names.BUSY) / _SECOND
            for histogram in (metrics.get(names.LATENCY) or {}).values():
                self._latencies.append((now_ms, task.vertex, histogram))
        self._reports = reports
        # One thread runs all subtasks of a slot: what they use of its time adds up.
        self._busy.setdefault(min(report.metrics), []).append(min(busy, 1.0))
        while self._latencies and self._latencies[0][0] < now_ms - LATENCY_WINDOW_MS:
            self._latencies.popleft()

    def forget(self, tasks: Iterable[TaskId] | None = None) -> None:
        """Forget what subtasks have told that are no more; without `tasks` all of them."""
        gone = set(self._reports if tasks is None else tasks)
        self._reports = {task: each for task, each in self._reports.items() if task not in gone}
        self._busy = {task: each for task, each in self._busy.items() if task not in gone}
        self._last_share = None
        if not self._reports:
            self._latencies = deque()
            self.flows = False

    @property
    def empty(self) -> bool:
        """Whether no subtask has reported."""
        return not self._reports

    def subtask(self, task: TaskId) -> Mapping[str, Any]:
        """Return what a subtask reported last, nothing if it has not."""
        return self._reports.get(task, {})

    def by_vertex(self) -> dict[str, list[Mapping[str, Any]]]:
        """Return the reports of subtasks by vertex."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for task, report in self._reports.items():
            found.setdefault(task.vertex, []).append(report)
        return found

    def vertex(self, vertex: str) -> VertexFigures:
        """Return how the subtasks of a vertex are doing."""
        return VertexFigures.of(
            [report for task, report in self._reports.items() if task.vertex == vertex]
        )

    def latency(self, vertices: Collection[str]) -> LatencyHistogram:
        """Return how long records took to these vertices in the last seconds."""
        return merged(found for _, vertex, found in list(self._latencies) if vertex in vertices)

    def take_busy_share(self) -> float | None:
        """Return which part of the time the busiest slot has worked since this was asked last; None if nobody reported ever.

        Where no report came since then it is what it was before.
        """
        shares = [sum(each) / len(each) for each in self._busy.values() if each]
        self._busy = {}
        if shares:
            self._last_share = max(shares)
        return self._last_share


def _after_epoch(
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


def describe_reports(reports: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return what subtasks reported as JSON values, each with an entry for each of them.

    `reports` are their own figures by Flink's names, `operator_reports` what their operators have measured (by operator id and name: kind,
    value, and what labels there are), `latencies` how long records took to them (by the id of the vertex that they came from), `processes`
    where they run and what their process uses.
    """
    return {
        "reports": [
            {name: value for name, value in each.items() if isinstance(value, int | float | str)}
            for each in reports
        ],
        "operator_reports": [each.get(names.OPERATORS, {}) for each in reports],
        "latencies": [
            {source: found.to_json() for source, found in each.get(names.LATENCY, {}).items()}
            for each in reports
        ],
        "processes": [each.get(names.PROCESS, {}) for each in reports],
    }
