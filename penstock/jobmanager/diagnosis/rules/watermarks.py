"""Event time that stands still or lags: which split holds it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from penstock.jobmanager.diagnosis.figures import JobFigures, VertexFigures
from penstock.jobmanager.diagnosis.findings import Finding, Severity, duration
from penstock.runtime.inspection.requests import SplitTime

_MIN: Final = -(2**63) + 1
_BEHIND_MS: Final = 10_000  # from which on a split that is behind the others is worth a word
_FAR_MS: Final = 300_000


@dataclass(frozen=True, slots=True)
class _Split:
    vertex: VertexFigures
    subtask: int
    time: SplitTime

    @property
    def silent(self) -> bool:
        """Whether it has not had a record yet."""
        return self.time.watermark <= _MIN


def held_back(job: JobFigures) -> Iterator[Finding]:
    """Name the split that time waits for, if it is far behind the furthest one of all sources."""
    splits = [
        _Split(vertex, task.subtask, time)
        for task, detail in job.details.items()
        for vertex in job.vertices
        if vertex.id == task.vertex
        for time in detail.splits
        if time.counts
    ]
    told = [each for each in splits if not each.silent]
    if len(splits) < 2 or not told:
        return
    last = max(told, key=lambda each: each.time.watermark)
    first = min(splits, key=lambda each: each.time.watermark)
    where = f"split '{first.time.split}' of source '{first.vertex.label}'"
    if first.silent:
        silent = sum(each.silent for each in splits)
        more = f", and so {_have(silent - 1)}" if silent > 1 else ""
        yield Finding(
            "watermark",
            Severity.WARNING,
            f"{where} holds back the time of the job: it has had no record",
            f"the others have come as far as {duration(max(job.now_ms - last.time.watermark, 0))} before now{more}; no window "
            "closes until it speaks",
            "with_idleness(...) of the watermark strategy lets time go on without splits that have nothing",
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
        f"{where} holds back the time of the job by {duration(gap)}",
        f"split '{last.time.split}' of '{last.vertex.label}' is that much further; what is between is kept in state until the "
        "slower one comes",
        "if it has few records, with_idleness(...) lets time go on; if it is only slower, with_watermark_alignment(...) lets the "
        "others wait, which keeps state small",
        first.vertex.id,
        first.subtask,
        figures={"split": first.time.split, "behind_ms": gap, "furthest": last.time.split},
    )


def _have(count: int) -> str:
    return "has one more" if count == 1 else f"have {count} more"
