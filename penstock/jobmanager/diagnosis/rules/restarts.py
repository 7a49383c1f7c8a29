"""The job fails again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.jobmanager.diagnosis.figures import JobFigures
from penstock.jobmanager.diagnosis.findings import Finding, Severity

_OFTEN: Final = 3


def restarts(job: JobFigures) -> Iterator[Finding]:
    """Say that it was started again, and why the last time."""
    if not job.restarts:
        return
    last = f"the last failure: {job.failures[0]}" if job.failures else "the reason is not known"
    times = "once" if job.restarts == 1 else f"{job.restarts} times"
    yield Finding(
        "restarts",
        Severity.CRITICAL if job.restarts >= _OFTEN else Severity.INFO,
        f"the job was started again {times}",
        last,
        "what failed is under its exceptions, with the traceback of your code; records that fail always can be put aside "
        "with on_error",
        figures={"restarts": job.restarts},
    )
