"""Diagnoses of jobs, cached for some seconds, so that many web pages do not sample the subtasks many times."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from msgspec import Struct

from penstock.jobmanager.diagnosis.findings import Diagnosis, Finding, Severity
from penstock.rest.services.published_jobs import Controller

FRESH_MS: Final = 5_000
_KEPT: Final = 100


class FindingOfJob(Struct, frozen=True, kw_only=True):
    """One finding, with the numbers that it is based on."""

    rule: str
    severity: Literal["info", "warning", "critical"]
    title: str
    detail: str
    hint: str
    vertex: str | None
    subtask: int | None
    figures: dict[str, Any]

    @classmethod
    def of(cls, finding: Finding) -> FindingOfJob:
        """Return a finding."""
        return cls(
            rule=finding.rule,
            severity=_SEVERITIES[finding.severity],
            title=finding.title,
            detail=finding.detail,
            hint=finding.hint,
            vertex=finding.vertex,
            subtask=finding.subtask,
            figures=finding.figures,
        )


_SEVERITIES: Final[dict[Severity, Literal["info", "warning", "critical"]]] = {
    Severity.INFO: "info",
    Severity.WARNING: "warning",
    Severity.CRITICAL: "critical",
}


class JobDiagnosis(Struct, frozen=True):
    """The diagnosis of a job: all findings, the most severe first, and what could not be checked."""

    timestamp: int
    health: Literal["ok", "info", "warning", "critical"]
    headline: str
    findings: list[FindingOfJob]
    unknown: list[str]

    @classmethod
    def of(cls, found: Diagnosis, now_ms: int) -> JobDiagnosis:
        """Return a diagnosis."""
        findings = [FindingOfJob.of(each) for each in found.findings]
        health = findings[0].severity if findings else "ok"
        return cls(now_ms, health, found.headline, findings, list(found.unknown))


@dataclass(slots=True)
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    content: JobDiagnosis | None = None


class Diagnoses:
    """The last diagnosis of each job. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def get(self, controller: Controller, now_ms: int) -> JobDiagnosis:
        """Return the diagnosis of a job, from the cache if it is recent enough."""
        with self._lock:
            entry = self._entries.setdefault(str(controller.get_job_id()), _Entry())
            while len(self._entries) > _KEPT:
                del self._entries[next(iter(self._entries))]
        with entry.lock:
            if entry.content is None or not 0 <= now_ms - entry.content.timestamp <= FRESH_MS:
                entry.content = JobDiagnosis.of(controller.diagnose(now_ms), now_ms)
            return entry.content
