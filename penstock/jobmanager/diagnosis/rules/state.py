"""State that grows and never expires."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from penstock.jobmanager.diagnosis.findings import Finding, Severity, duration, size
from penstock.jobmanager.diagnosis.metrics import CheckpointFigures, JobFigures

_FEWEST: Final = 4  # checkpoints for a trend
_SMALL: Final = 1 << 20
_GROWN: Final = 0.05
_SOON_MS: Final = 24 * 3_600_000


def growing_state(job: JobFigures) -> Iterator[Finding]:
    """Report state that grows with every checkpoint, how fast, and the states without TTL."""
    completed = job.completed
    if len(completed) < _FEWEST or not _grows(completed):
        return
    first, last = completed[0], completed[-1]
    millis = max(last.triggered_ms - first.triggered_ms, 1)
    rate = (last.size - first.size) / millis  # bytes per millisecond
    doubles = last.size / rate
    forever = _without_expiry(job)
    if not forever and any(detail.states for detail in job.details.values()):
        return  # all of it has a TTL: it grows until the first entries expire
    worst = _grown_most(first, last)
    names = ", ".join(f"'{name}'" for name in forever[:5])
    yield Finding(
        "growing-state",
        Severity.WARNING if doubles < _SOON_MS else Severity.INFO,
        f"state grows by {size(rate * 3_600_000)} per hour"
        + (f"; {names} never {'expire' if len(forever) > 1 else 'expires'}" if forever else ""),
        f"from {size(first.size)} to {size(last.size)} in {duration(millis)}; at this rate it doubles in {duration(doubles)}",
        "state of new keys is kept forever: set a TTL on the state descriptors (enable_time_to_live), or clear state in a timer"
        + ("" if job.state_backend != "hashmap" else "; state larger than memory needs rocksdb"),
        worst,
        figures={
            "bytes_per_hour": round(rate * 3_600_000),
            "state": last.size,
            "doubles_in_ms": round(doubles),
            "states": forever,
        },
    )


def _grows(completed: list[CheckpointFigures]) -> bool:
    sizes = [each.size for each in completed]
    rises = all(after >= before for before, after in pairwise(sizes))
    return rises and sizes[-1] >= _SMALL and sizes[-1] >= (1 + _GROWN) * max(sizes[0], 1)


def _without_expiry(job: JobFigures) -> list[str]:
    """Return the names of user states without TTL."""
    names = {
        f"{_operator(job, state.operator)}.{state.name}"
        for detail in job.details.values()
        for state in detail.states
        if not state.expires
    }
    return sorted(names)


def _operator(job: JobFigures, operator: str) -> str:
    found = (vertex.operators.get(operator) for vertex in job.vertices)
    return next((name for name in found if name), operator[:8])


def _grown_most(first: CheckpointFigures, last: CheckpointFigures) -> str | None:
    """Return the vertex whose state has grown most."""

    def grown(vertex: str) -> int:
        return last.sizes[vertex] - first.sizes.get(vertex, 0)

    return max(last.sizes, key=grown, default=None)
