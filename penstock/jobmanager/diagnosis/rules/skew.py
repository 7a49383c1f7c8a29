"""One subtask has far more to do than the others, and which key is why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.graph.task_id import TaskId
from penstock.jobmanager.diagnosis.figures import JobFigures, VertexFigures
from penstock.jobmanager.diagnosis.findings import Finding, Severity, percent
from penstock.runtime.inspection.requests import FrequentKeys

_FEWEST_RECORDS: Final = 1000
_FEWEST_KEYS: Final = 100  # that say anything
_TIMES_FAIR: Final = 1.5  # a subtask's share against what is fair
_MORE: Final = 0.15  # and by how much of all
_BUSY: Final = 0.5
_HEAVY: Final = 0.1  # a key's share of all records of the vertex


def skewed_subtask(vertex: VertexFigures) -> tuple[int, float] | None:
    """Return the subtask that has too large a share of the vertex's records, and that share; None if none has."""
    if vertex.parallelism < 2 or len(vertex.reports) < vertex.parallelism:
        return None
    if sum(each.records for each in vertex.subtasks) < _FEWEST_RECORDS:
        return None
    # A source that is held up reads in bursts: what it has read in a second says little.
    rates = [0.0 if vertex.is_source else each.rate for each in vertex.subtasks]
    counts = rates if sum(rates) > 0 else [each.records for each in vertex.subtasks]
    total = sum(counts)
    worst = max(range(len(counts)), key=counts.__getitem__)
    share, fair = counts[worst] / total, 1 / vertex.parallelism
    return (worst, share) if share >= _TIMES_FAIR * fair and share - fair >= _MORE else None


def skew(job: JobFigures) -> Iterator[Finding]:
    """Say of each vertex whether one subtask has much more than its part."""
    for vertex in job.vertices:
        found = skewed_subtask(vertex)
        if found is not None:
            yield _finding(job, vertex, *found)


def _finding(job: JobFigures, vertex: VertexFigures, subtask: int, share: float) -> Finding:
    keys = heavy_keys(job, vertex)
    task = vertex.task(subtask)
    busy = min(job.saturation(task), 1.0)
    title = f"subtask {subtask} of '{vertex.label}' has {percent(share)} of the records"
    if keys:
        title += f"; key {keys[0][0]} has {percent(keys[0][1])}"
    fair = f"of {vertex.parallelism} subtasks each would have {percent(1 / vertex.parallelism)}"
    return Finding(
        "skew",
        Severity.WARNING if busy >= _BUSY else Severity.INFO,
        title,
        f"{fair}; this one's slot works {percent(busy)} of the time",
        _hint(job, vertex, task, keys),
        vertex.id,
        subtask,
        figures={
            "share": round(share, 3),
            "fair": round(1 / vertex.parallelism, 3),
            "keys": {key: round(each, 3) for key, each in keys},
        },
    )


def heavy_keys(job: JobFigures, vertex: VertexFigures) -> list[tuple[str, float]]:
    """Return the keys that have much of all records of a vertex, with their shares, the largest first.

    A key belongs to one subtask: its share there counts as much as that subtask's records do.
    """
    rates = [each.rate or each.records for each in vertex.subtasks]
    total = sum(rates)
    shares: dict[str, float] = {}
    for subtask, rate in enumerate(rates):
        found = job.keys.get(vertex.task(subtask), FrequentKeys())
        if found.sampled >= _FEWEST_KEYS and total:
            for key, count in found.top:
                shares[key] = shares.get(key, 0.0) + count / found.sampled * rate / total
    heavy = [(key, share) for key, share in shares.items() if share >= _HEAVY]
    return sorted(heavy, key=lambda each: -each[1])[:5]


def _hint(
    job: JobFigures, vertex: VertexFigures, task: TaskId, keys: list[tuple[str, float]]
) -> str:
    if vertex.is_source:
        return (
            "its splits are not equally large, or fewer than subtasks: read more and smaller ones, or rebalance() after the "
            "source so that at least what follows is spread"
        )
    if "HASH" not in vertex.partitioned_by:
        return "rebalance() before it spreads records evenly; rescale() and forward do not"
    if keys:
        return (
            "no parallelism helps a single key: aggregate before the exchange (local_global=True of windows does), or key by "
            "(key, random part) first and add up in a second step"
        )
    sampled = [
        job.keys[vertex.task(n)] for n in range(vertex.parallelism) if vertex.task(n) in job.keys
    ]
    distinct = sum(each.distinct for each in sampled)
    if sampled and distinct < 4 * vertex.parallelism:
        return f"there are only {distinct} different keys: key by something finer, or use fewer subtasks"
    if task in job.keys:
        return "no single key is to blame: keys fall unevenly into key groups; another parallelism spreads them otherwise"
    return "a key that most records have cannot be spread: aggregate before the exchange, or key by something finer"
