"""Suspicious records: operators process them, but they are probably not what the program intends."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.jobmanager.diagnosis.findings import Finding, Severity
from penstock.jobmanager.diagnosis.metrics import JobFigures


def suspicious_records(job: JobFigures) -> Iterator[Finding]:
    """Report suspicious records of each operator, with an example: results are wrong if they are not intended."""
    for each in job.suspicious:
        yield Finding(
            "suspicious-records",
            Severity.WARNING,
            each.title,
            each.detail,
            each.hint,
            each.vertex,
            figures={"metric": each.metric, "count": each.count, "records": each.records},
        )
