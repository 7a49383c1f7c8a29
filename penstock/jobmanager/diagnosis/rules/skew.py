"""Data skew: a subtask with far more records than the others, and the keys that cause it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.graph.task_id import TaskId
from penstock.jobmanager.diagnosis.findings import Finding, Severity, percent
from penstock.jobmanager.diagnosis.metrics import JobFigures, VertexFigures
from penstock.runtime.inspection.requests import FrequentKeys

_FEWEST_RECORDS: Final = 1000
_FEWEST_KEYS: Final = 100  # minimum number of counted keys
_TIMES_FAIR: Final = 1.5  # a subtask's share, as a multiple of the fair share
_MORE: Final = 0.15  # and above the fair share by at least this much
_BUSY: Final = 0.5
_HEAVY: Final = 0.1  # a key's share of all records of the vertex


def skewed_subtask(vertex: VertexFigures) -> tuple[int, float] | None:
    """Return the subtask with too large a share of the vertex's records, and that share; None if there is none."""
    if vertex.parallelism < 2 or len(vertex.reports) < vertex.parallelism:
        return None
    if sum(each.records for each in vertex.subtasks) < _FEWEST_RECORDS:
        return None
    # A backpressured source reads in bursts: its rate over one second is not significant.
    rates = [0.0 if vertex.is_source else each.rate for each in vertex.subtasks]
    counts = rates if sum(rates) > 0 else [each.records for each in vertex.subtasks]
    total = sum(counts)
    worst = max(range(len(counts)), key=counts.__getitem__)
    share, fair = counts[worst] / total, 1 / vertex.parallelism
    return (worst, share) if share >= _TIMES_FAIR * fair and share - fair >= _MORE else None


def skew(job: JobFigures) -> Iterator[Finding]:
    """Report each vertex in which one subtask has much more than its fair share."""
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
    fair = f"the fair share of each of {vertex.parallelism} subtasks is {percent(1 / vertex.parallelism)}"
    return Finding(
        "skew",
        Severity.WARNING if busy >= _BUSY else Severity.INFO,
        title,
        f"{fair}; the slot of this one is busy {percent(busy)} of the time",
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
    """Return the keys with a large share of the records of a vertex, with their shares, the largest first.

    A key belongs to one subtask: its share there is weighted by the subtask's share of records.
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
            "its splits differ in size, or are fewer than its subtasks: use more and smaller splits, or rebalance() after the "
            "source, so that at least downstream operators get even load"
        )
    if "HASH" not in vertex.partitioned_by:
        return "rebalance() before it spreads records evenly; rescale() and forward do not"
    if keys:
        return (
            "a higher parallelism does not help a single key: pre-aggregate before the exchange (local_global=True of windows), or "
            "key by (key, random part) first and combine in a second step"
        )
    sampled = [
        job.keys[vertex.task(n)] for n in range(vertex.parallelism) if vertex.task(n) in job.keys
    ]
    distinct = sum(each.distinct for each in sampled)
    if sampled and distinct < 4 * vertex.parallelism:
        return f"there are only {distinct} different keys: use a finer key, or fewer subtasks"
    if task in job.keys:
        return "no single key causes it: keys are spread unevenly over key groups; another parallelism spreads them differently"
    return "a key that most records have cannot be spread: pre-aggregate before the exchange, or use a finer key"
