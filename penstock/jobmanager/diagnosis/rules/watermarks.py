"""A watermark that stalls or lags, and the split that holds it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock.jobmanager.diagnosis.findings import Finding, Severity, duration
from penstock.jobmanager.diagnosis.metrics import JobFigures, VertexFigures
from penstock.runtime.inspection.requests import SplitTime

_MIN: Final = -(2**63) + 1
_BEHIND_MS: Final = 10_000  # minimum lag of a split that is reported
_FAR_MS: Final = 300_000


@dataclass(frozen=True, slots=True)
class _Split:
    vertex: VertexFigures
    subtask: int
    time: SplitTime

    @property
    def silent(self) -> bool:
        """Whether it has produced no record yet."""
        return self.time.watermark <= _MIN


def held_back(job: JobFigures) -> Iterator[Finding]:
    """Report the split that holds back the watermark, if it is far behind the most advanced split of all sources."""
    splits = [
        _Split(vertex, task.subtask, time)
        for task, detail in job.details.items()
        for vertex in job.vertices
        if vertex.id == task.vertex
        for time in detail.splits
        if time.counts
    ]
    reporting = [each for each in splits if not each.silent]
    if len(splits) < 2 or not reporting:
        return
    last = max(reporting, key=lambda each: each.time.watermark)
    first = min(splits, key=lambda each: each.time.watermark)
    where = f"split '{first.time.split}' of source '{first.vertex.label}'"
    if first.silent:
        silent = sum(each.silent for each in splits)
        more = f"; {_more_silent(silent - 1)}" if silent > 1 else ""
        yield Finding(
            "watermark",
            Severity.WARNING,
            f"{where} holds back the watermark: it has produced no record",
            f"the other splits are {duration(max(job.now_ms - last.time.watermark, 0))} behind the clock{more}; no window "
            "fires until it produces a record",
            "set with_idleness(...) on the watermark strategy, so that idle splits are ignored",
            first.vertex.id,
            first.subtask,
            figures={"split": first.time.split, "silent_splits": silent},
        )
        return
    gap = last.time.watermark - first.time.watermark
    if gap < _BEHIND_MS:
        return
    yield Finding(
        "watermark",
        Severity.WARNING if gap >= _FAR_MS else Severity.INFO,
        f"{where} holds back the watermark by {duration(gap)}",
        f"split '{last.time.split}' of '{last.vertex.label}' is that much ahead; its records are kept in state until the "
        "slower split catches up",
        "if the split has few records, use with_idleness(...); if it is only slower, use with_watermark_alignment(...), which pauses "
        "the faster ones and keeps state small",
        first.vertex.id,
        first.subtask,
        figures={"split": first.time.split, "behind_ms": gap, "furthest": last.time.split},
    )


def _more_silent(count: int) -> str:
    return "one more has no record" if count == 1 else f"{count} more have no record"
