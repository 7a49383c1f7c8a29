"""The findings of a diagnosis, and their formatting."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


class Severity(enum.IntEnum):
    """The severity of a finding."""

    INFO = 0  # worth knowing
    WARNING = 1  # costs performance or money, or will become a problem
    CRITICAL = 2  # the job does not make progress, or will soon stop


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a job: a title, the evidence, and a hint.

    `figures` are the underlying numbers, by name.
    """

    rule: str
    severity: Severity
    title: str
    detail: str
    hint: str
    vertex: str | None = None
    subtask: int | None = None
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, the most severe first, and what could not be checked."""

    findings: tuple[Finding, ...]
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding], unknown: Iterable[str] = ()) -> Diagnosis:
        """Sort findings by severity."""
        ordered = sorted(findings, key=lambda each: -each.severity)
        return cls(tuple(ordered), tuple(unknown))

    @property
    def health(self) -> str:
        """The job's health: ok, info, warning or critical."""
        return self.findings[0].severity.name.lower() if self.findings else "ok"

    @property
    def headline(self) -> str:
        """The title of the most severe finding."""
        return self.findings[0].title if self.findings else "no problems found"


def percent(share: float) -> str:
    """Format a share.

    >>> percent(0.873), percent(0.004), percent(1)
    ('87 %', '0.4 %', '100 %')
    """
    return f"{share:.1%}".replace("%", " %") if share < 0.01 else f"{share:.0%}".replace("%", " %")


def duration(millis: float) -> str:
    """Format a duration.

    >>> duration(320), duration(4_200), duration(250_000), duration(3 * 3_600_000), duration(90 * 3_600_000)
    ('320 ms', '4.2 s', '4 min', '3.0 h', '3.8 days')
    """
    if millis < 1000:
        return f"{millis:.0f} ms"
    seconds = millis / 1000
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"


def size(number: float) -> str:
    """Format a number of bytes.

    >>> size(512), size(20_480), size(3 << 30)
    ('512 B', '20.0 KB', '3.0 GB')
    """
    if number < 1024:
        return f"{number:.0f} B"
    for unit in ("KB", "MB", "GB"):
        number /= 1024
        if number < 1024:
            return f"{number:.1f} {unit}"
    return f"{number / 1024:.1f} TB"
