"""Sources that do not keep up with what comes in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.jobmanager.diagnosis.figures import Backlog, JobFigures, VertexFigures
from penstock.jobmanager.diagnosis.findings import Finding, Severity, duration, percent, size

_NOISE_S: Final = 2.0  # what is read within so many seconds is no backlog
_LAG_MS: Final = 60_000
_HELD_UP: Final = 0.5


def falls_behind(job: JobFigures) -> Iterator[Finding]:
    """Say of each source how much waits for it, and whether that becomes more."""
    for vertex in job.vertices:
        if not vertex.is_source:
            continue
        backlog = job.backlogs.get(vertex.id)
        if backlog is not None:
            yield from _by_backlog(vertex, backlog)
        else:
            yield from _by_time(job, vertex)


def _by_backlog(vertex: VertexFigures, backlog: Backlog) -> Iterator[Finding]:
    read = sum(each.rate for each in vertex.subtasks)
    waits = _amount(backlog.after, backlog.unit)
    per_second = _amount(abs(backlog.growth), backlog.unit)
    figures = {
        "backlog": backlog.after,
        "unit": backlog.unit,
        "growth_per_second": round(backlog.growth, 1),
        "read_per_second": round(read, 1),
    }
    noise = read * _NOISE_S if backlog.unit == "records" else 0.0
    if backlog.after <= noise:
        return
    if backlog.growth > 0:
        yield Finding(
            "backlog",
            Severity.WARNING,
            f"source '{vertex.label}' falls behind",
            f"{waits} wait for it, and every second there are {per_second} more",
            "find the bottleneck first: a source that waits for those after it is not read faster by more subtasks of its own",
            vertex.id,
            figures=figures,
        )
    elif backlog.growth < 0:
        left = duration(backlog.after / -backlog.growth * 1000)
        yield Finding(
            "backlog",
            Severity.INFO,
            f"source '{vertex.label}' is catching up",
            f"{waits} wait for it, every second there are {per_second} less: about {left} to go",
            "nothing is to be done, unless that is too long: then rescale",
            vertex.id,
            figures=figures,
        )


def _by_time(job: JobFigures, vertex: VertexFigures) -> Iterator[Finding]:
    """Say it by the source's event time where nobody knows what waits: it is far behind, and the source is held up."""
    watermarks = [each.watermark for each in vertex.reports if each.watermark is not None]
    if not watermarks or vertex.back_pressured < _HELD_UP:
        return
    lag = job.now_ms - min(watermarks)
    if lag < _LAG_MS:
        return
    yield Finding(
        "backlog",
        Severity.WARNING,
        f"source '{vertex.label}' falls behind",
        f"its event time is {duration(lag)} behind the clock, and it waits {percent(vertex.back_pressured)} of the time for "
        "those after it",
        "find the bottleneck first; a job that reads old data on purpose is all right",
        vertex.id,
        figures={"lag_ms": lag, "back_pressured": round(vertex.back_pressured, 3)},
    )


def _amount(number: float, unit: str) -> str:
    return size(number) if unit == "bytes" else f"{number:,.0f} {unit}"
