"""Repeated failures of the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.jobmanager.diagnosis.findings import Finding, Severity
from penstock.jobmanager.diagnosis.metrics import JobFigures

_OFTEN: Final = 3


def restarts(job: JobFigures) -> Iterator[Finding]:
    """Report restarts, with the last failure."""
    if not job.restarts:
        return
    last = f"the last failure: {job.failures[0]}" if job.failures else "unknown reason"
    times = "once" if job.restarts == 1 else f"{job.restarts} times"
    yield Finding(
        "restarts",
        Severity.CRITICAL if job.restarts >= _OFTEN else Severity.INFO,
        f"the job was restarted {times}",
        last,
        "see the exceptions of the job, with the traceback of your code; records that always fail can be routed to a dead-letter "
        "output with on_error",
        figures={"restarts": job.restarts},
    )
