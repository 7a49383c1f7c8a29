"""The vertex that limits the throughput of the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.jobmanager.diagnosis.findings import Finding, Severity, percent
from penstock.jobmanager.diagnosis.metrics import JobFigures, VertexFigures
from penstock.jobmanager.diagnosis.rules.skew import skewed_subtask

_WAITS: Final = 0.1  # share from which a vertex counts as backpressured, as in Flink
_WAITS_MUCH: Final = 0.5
_SATURATED: Final = 0.85
_WORKS: Final = 0.6  # busy share from which the vertex is CPU-bound
_MOST_OF_IT: Final = 0.4


def bottleneck(job: JobFigures) -> Iterator[Finding]:
    """Report the vertex: the last one that backpressures others; if there is none, the busiest if its slot is saturated."""
    held_up = [each for each in job.vertices if each.back_pressured >= _WAITS]
    waiting = {each.id for each in held_up}
    causes = [
        each
        for each in job.vertices
        if each.reports and each.id not in waiting and waiting & set(each.inputs)
    ]
    if causes:
        worst = max(causes, key=lambda each: each.busy)
        waits = max(each.back_pressured for each in held_up)
        yield _finding(job, worst, waits)
        return
    busiest = max(
        (each for each in job.vertices if each.reports), key=lambda each: each.busy, default=None
    )
    if busiest is not None and _saturation(job, busiest) >= _SATURATED:
        yield _finding(job, busiest, 0.0)


def _saturation(job: JobFigures, vertex: VertexFigures) -> float:
    """Return the busy share of the busiest slot of its subtasks."""
    return max(job.saturation(vertex.task(n)) for n in range(len(vertex.subtasks)))


def _finding(job: JobFigures, vertex: VertexFigures, waits: float) -> Finding:
    saturation = min(_saturation(job, vertex), 1.0)
    works = f"its busiest subtask is busy {percent(vertex.busy)} of the time"
    if saturation > vertex.busy + 0.05:
        works += f", its slot {percent(saturation)} (the subtasks of a slot share one thread)"
    held = f", and upstream vertices are backpressured {percent(waits)}" if waits else ""
    return Finding(
        "bottleneck",
        Severity.WARNING if waits >= _WAITS_MUCH else Severity.INFO,
        f"'{vertex.label}' is the bottleneck",
        f"{works}{held}{_heaviest(vertex)}",
        _hint(vertex, saturation),
        vertex.id,
        figures={
            "busy": round(vertex.busy, 3),
            "slot_busy": round(saturation, 3),
            "upstream_back_pressured": round(waits, 3),
            "operators": {name: round(share, 3) for name, share in vertex.shares.items()},
        },
    )


def _heaviest(vertex: VertexFigures) -> str:
    if len(vertex.shares) < 2:
        return ""
    name, share = max(vertex.shares.items(), key=lambda each: each[1])
    return (
        f"; operator '{name}' takes {percent(share)} of its busy time"
        if share >= _MOST_OF_IT
        else ""
    )


def _hint(vertex: VertexFigures, saturation: float) -> str:
    if saturation < _WORKS:
        return (
            "it is not CPU-bound: it waits for something else, such as a database (see its off-CPU flame graph); "
            "AsyncDataStream makes calls overlap"
        )
    if skewed_subtask(vertex) is not None:
        return "its records are skewed: more subtasks do not help until they are spread evenly (see skew)"
    grows = vertex.parallelism < vertex.max_parallelism
    more = f"rescale it beyond {vertex.parallelism}, or " if grows else ""
    return f"{more}find the function that takes the time in its on-CPU flame graph"
