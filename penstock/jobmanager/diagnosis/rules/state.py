"""State that grows and never expires."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from penstock.jobmanager.diagnosis.findings import Finding, Severity, duration, size
from penstock.jobmanager.diagnosis.metrics import CheckpointFigures, JobFigures

_FEWEST: Final = 4  # checkpoints for a trend
_FEWEST_UNEVEN: Final = 8  # if their sizes go up and down
_SMALL: Final = 1 << 20
_GROWN: Final = 0.05
_SOON_MS: Final = 24 * 3_600_000


def growing_state(job: JobFigures) -> Iterator[Finding]:
    """Report state that grows from checkpoint to checkpoint, how fast, and the states without TTL."""
    trend = _trend(job.completed)
    if trend is None:
        return
    first, last = trend
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


def _trend(
    completed: list[CheckpointFigures],
) -> tuple[CheckpointFigures, CheckpointFigures] | None:
    """Return two checkpoints between which state has grown; None if it does not grow.

    Sizes of the hashmap backend go up and down, because a checkpoint refers to changes until they are merged. So if they do not
    rise steadily, the lowest and the highest of the newer half are compared with those of the older half.
    """
    if len(completed) < _FEWEST:
        return None
    sizes = [each.size for each in completed]
    if all(after >= before for before, after in pairwise(sizes)):
        first, last = completed[0], completed[-1]
    elif len(completed) >= _FEWEST_UNEVEN:
        older, newer = completed[: len(completed) // 2], completed[len(completed) // 2 :]
        first, last = min(older, key=_size), min(newer, key=_size)
        if not _more(max(older, key=_size), max(newer, key=_size)):
            return None
    else:
        return None
    return (first, last) if last.size >= _SMALL and _more(first, last) else None


def _size(checkpoint: CheckpointFigures) -> int:
    return checkpoint.size


def _more(before: CheckpointFigures, after: CheckpointFigures) -> bool:
    return after.size >= (1 + _GROWN) * max(before.size, 1)


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
