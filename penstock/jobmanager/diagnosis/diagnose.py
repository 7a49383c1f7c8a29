"""Applies all rules."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.jobmanager.diagnosis.findings import Diagnosis
from penstock.jobmanager.diagnosis.metrics import JobFigures
from penstock.jobmanager.diagnosis.rules import RULES

_OVER = frozenset({"FINISHED", "CANCELED", "FAILED", "SUSPENDED"})


def diagnose(job: JobFigures, unknown: Iterable[str] = ()) -> Diagnosis:
    """Return the findings of the rules; `unknown` is what could not be checked. An ended job has no findings."""
    if job.status in _OVER:
        return Diagnosis((), (f"the job is {job.status.lower()}", *unknown))
    return Diagnosis.of((finding for rule in RULES for finding in rule(job)), unknown)
