"""Sources that do not keep up with their input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.jobmanager.diagnosis.findings import Finding, Severity, duration, percent, size
from penstock.jobmanager.diagnosis.metrics import Backlog, JobFigures, VertexFigures

_NOISE_S: Final = 2.0  # input that is read within this time is not a backlog
_LAG_MS: Final = 60_000
_HELD_UP: Final = 0.5


def source_backlog(job: JobFigures) -> Iterator[Finding]:
    """Report the backlog of each source, and whether it grows."""
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
            f"its backlog is {waits} and grows by {per_second} per second",
            "fix the bottleneck first: a backpressured source does not read faster with more subtasks",
            vertex.id,
            figures=figures,
        )
    elif backlog.growth < 0:
        left = duration(backlog.after / -backlog.growth * 1000)
        yield Finding(
            "backlog",
            Severity.INFO,
            f"source '{vertex.label}' is catching up",
            f"its backlog is {waits} and shrinks by {per_second} per second: about {left} left",
            "nothing to do; rescale if that is too long",
            vertex.id,
            figures=figures,
        )


def _by_time(job: JobFigures, vertex: VertexFigures) -> Iterator[Finding]:
    """Report a source of unknown backlog by its event time: its watermark lags far behind, and it is backpressured."""
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
        f"its watermark is {duration(lag)} behind the clock, and it is backpressured {percent(vertex.back_pressured)} of the time",
        "fix the bottleneck first; this is expected if the job reads old data on purpose",
        vertex.id,
        figures={"lag_ms": lag, "back_pressured": round(vertex.back_pressured, 3)},
    )


def _amount(number: float, unit: str) -> str:
    return size(number) if unit == "bytes" else f"{number:,.0f} {unit}"
