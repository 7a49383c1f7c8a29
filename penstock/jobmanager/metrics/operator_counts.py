"""The counters of operators: from the last reports of subtasks, and from completed checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.graph.stage_plan import StageVertex
from penstock.runtime.task.shared import task_metrics as names

Reports = Sequence[Mapping[str, Any]]  # of the subtasks of a vertex


@dataclass(frozen=True, slots=True)
class OperatorCounts:
    """The metrics of one operator: `total` of completed checkpoints, `measured` of each subtask as it is now."""

    total: Mapping[str, Any]
    measured: Reports

    def count(self, name: str) -> int:
        """Return a counter. Reports are newer, but start at zero with each attempt, so the higher number is used."""
        return max(_count(self.total, name), sum(_count(each, name) for each in self.measured))

    def all(self, name: str) -> list[tuple[Any, ...]]:
        """Return a metric of all subtasks: kind and value."""
        return [each[name] for each in (self.total, *self.measured) if name in each]


def _count(measured: Mapping[str, Any], name: str) -> int:
    kind, value, *_ = measured.get(name, ("counter", 0))
    return (
        int(value) if kind == "counter" else 0
    )  # a user function may use this name for another kind of metric


def counts_of_operators(
    vertices: Iterable[StageVertex],
    reports: Mapping[str, Reports],
    totals: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[StageVertex, Any, OperatorCounts]]:
    """Yield each operator with its vertex and its counts.

    `reports` are the last ones of subtasks, by vertex; `totals` those of completed checkpoints, by operator.
    """
    for vertex in vertices:
        for operator in vertex.operators:
            measured = [
                each[names.OPERATORS][operator.operator_id]
                for each in reports.get(vertex.id, ())
                if operator.operator_id in each.get(names.OPERATORS, {})
            ]
            total = totals.get(operator.operator_id, {})
            yield vertex, operator, OperatorCounts(total, measured)
