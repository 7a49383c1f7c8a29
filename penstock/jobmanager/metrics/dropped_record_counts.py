"""Dropped records by operator and reason, and their log messages."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.graph.stage_plan import StageVertex
from penstock.jobmanager.diagnosis.findings import duration
from penstock.jobmanager.metrics.operator_counts import OperatorCounts, Reports, counts_of_operators
from penstock.jobmanager.metrics.progress import show_time
from penstock.records.dropped_records import (
    LATE,
    LATENESS,
    REASONS,
    SKIPPED,
)
from penstock.runtime.task.shared import task_metrics as names

_log = logging.getLogger(__name__)

_AGAIN_MS: Final = (
    300_000  # an operator that keeps dropping records is logged again after this time
)
_JUST_NOW_MS: Final = 60_000  # messages logged since then are not repeated at the end
_LOOK_MS: Final = 10_000  # slots report every second, which is more often than needed

RECORDS: Final = "records"
PARTIALS: Final = "partial aggregates"  # each aggregates several records


@dataclass(frozen=True, slots=True)
class DroppedRecords:
    """The records that one operator has dropped for one reason. For late records also the watermark and the maximum lateness."""

    vertex: str
    operator: str
    name: str
    metric: str
    dropped: int
    records: int  # received
    watermark: int | None = None
    lateness_ms: int | None = None
    unit: str = RECORDS  # what was counted

    @property
    def detail(self) -> str:
        """Details besides the number; may be empty."""
        parts = []
        if self.lateness_ms is not None:
            parts.append(f"up to {duration(self.lateness_ms)} behind the watermark")
        if self.watermark is not None:
            parts.append(f"the watermark is at {show_time(self.watermark)}")
        return ", ".join(parts)

    def __str__(self) -> str:
        more = f" ({self.detail})" if self.detail else ""
        count = f"{self.dropped:,} of {self.records:,} {self.unit}"
        return f"operator '{self.name}' dropped {count}: {REASONS[self.metric]}{more}"


def find_dropped(
    vertices: Iterable[StageVertex],
    reports: Mapping[str, Reports],
    totals: Mapping[str, Mapping[str, Any]],
) -> list[DroppedRecords]:
    """Return the dropped records of a job, from the counts of `counts_of_operators`."""
    found = []
    for vertex, operator, counts in counts_of_operators(vertices, reports, totals):
        for metric in REASONS:
            if metric == SKIPPED and operator.kind != "source":
                continue  # a user counter
            dropped = counts.count(metric)
            if dropped <= 0:
                continue
            records = counts.count(names.RECORDS_IN)
            if metric == SKIPPED:  # unparsable input was not counted as a record
                records += dropped
            late = metric == LATE
            found.append(
                DroppedRecords(
                    vertex.id,
                    operator.operator_id,
                    operator.name,
                    metric,
                    dropped,
                    max(records, dropped),
                    _watermark(counts) if late else None,
                    _lateness(counts) if late else None,
                    PARTIALS if late and operator.spec.merges_partials else RECORDS,
                )
            )
    return found


def _watermark(counts: OperatorCounts) -> int | None:
    marks = [
        each[names.INPUT_WATERMARK][1] for each in counts.measured if names.INPUT_WATERMARK in each
    ]
    moments = [mark for mark in marks if names.is_moment(mark)]
    return min(moments, default=None)


def _lateness(counts: OperatorCounts) -> int | None:
    most = [value["max"] for kind, value, *_ in counts.all(LATENESS) if kind == "distribution"]
    return max((each for each in most if each is not None), default=None)


class DroppedRecordLog:
    """Logs dropped records of each operator: the first time, again at intervals, and at the end of the job."""

    def __init__(self) -> None:
        self._next_look_ms: int | None = None
        self._said: dict[tuple[str, str], tuple[int, int]] = {}  # last log time and count

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time to check again."""
        due = self._next_look_ms is None or now_ms >= self._next_look_ms
        if due:
            self._next_look_ms = now_ms + _LOOK_MS
        return due

    def look(self, found: Iterable[DroppedRecords], now_ms: int) -> None:
        """Log operators that were not logged yet, or not for a while."""
        for each in found:
            name = each.operator, each.metric
            said_ms, dropped = self._said.get(name, (now_ms - _AGAIN_MS, 0))
            if each.dropped > dropped and now_ms - said_ms >= _AGAIN_MS:
                self._said[name] = now_ms, each.dropped
                _log.warning("%s", each)

    def finish(self, found: Iterable[DroppedRecords], now_ms: int) -> None:
        """Log all operators once more, at the end of the job."""
        for each in found:
            said_ms, dropped = self._said.get((each.operator, each.metric), (0, 0))
            if each.dropped != dropped or now_ms - said_ms >= _JUST_NOW_MS:
                _log.warning("at the end of the job: %s", each)
