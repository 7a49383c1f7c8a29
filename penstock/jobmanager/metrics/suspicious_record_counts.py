"""Suspicious records by operator: probably not what the program intends. Each operator is logged once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.graph.stage_plan import StageVertex
from penstock.jobmanager.metrics.operator_counts import Reports, counts_of_operators
from penstock.records.suspicious_records import (
    FIELDS,
    HINTS,
    KINDS,
    TIMESTAMPS,
    checked_of,
    counted,
    example_of,
)
from penstock.runtime.task.shared import task_metrics as names

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SuspiciousRecords:
    """The suspicious records of one operator: their number, and an example."""

    vertex: str
    operator: str
    name: str
    metric: str
    count: int
    records: int  # checked
    example: str

    @property
    def title(self) -> str:
        """The problem."""
        if self.metric == TIMESTAMPS:
            return f"the timestamps of '{self.name}' do not look like milliseconds"
        if self.metric == FIELDS:
            return (
                f"records of '{self.name}' have fields whose names differ from columns only in case"
            )
        return f"the function of '{self.name}' returns a single value where several results are expected"

    @property
    def detail(self) -> str:
        """The example, and the number of records."""
        if self.metric == TIMESTAMPS:
            return f"{self.example} (the first {counted(self.count, 'record')} all look like that)"
        if self.metric == FIELDS:
            return f"{self.example} ({self.count:,} of the first {counted(self.records, 'record')})"
        results = counted(self.count, "result")
        return f"{self.example} ({results} like this, {counted(self.records, 'input record')})"

    @property
    def hint(self) -> str:
        """How to fix it."""
        return HINTS[self.metric]

    def __str__(self) -> str:
        return f"{self.title}: {self.detail}; {self.hint}"


def find_suspicious(
    vertices: Iterable[StageVertex],
    reports: Mapping[str, Reports],
    totals: Mapping[str, Mapping[str, Any]],
) -> list[SuspiciousRecords]:
    """Return the suspicious records of a job, from the counts of `counts_of_operators`."""
    found = []
    for vertex, operator, counts in counts_of_operators(vertices, reports, totals):
        for metric in KINDS:
            count = counts.count(metric)
            examples = [
                text for kind, text, *_ in counts.all(example_of(metric)) if kind == "gauge"
            ]
            if count <= 0 or not examples:
                continue
            looked = counts.count(checked_of(metric)) or counts.count(names.RECORDS_IN)
            records = max(looked, count)
            found.append(
                SuspiciousRecords(
                    vertex.id,
                    operator.operator_id,
                    operator.name,
                    metric,
                    count,
                    records,
                    str(examples[0]),
                )
            )
    return found


class SuspiciousRecordLog:
    """Logs suspicious records of each operator once."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    def look(self, found: Iterable[SuspiciousRecords]) -> None:
        """Log what was not logged yet."""
        for each in found:
            if (each.operator, each.metric) not in self._said:
                self._said.add((each.operator, each.metric))
                _log.warning("%s", each)
