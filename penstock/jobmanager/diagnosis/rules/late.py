"""Records that came after their window was closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.jobmanager.diagnosis.figures import JobFigures
from penstock.jobmanager.diagnosis.findings import Finding, Severity, percent

_SOME: Final = 0.0001
_MANY: Final = 0.01


def late_records(job: JobFigures) -> Iterator[Finding]:
    """Say of each vertex that drops records how many."""
    for vertex in job.vertices:
        late = sum(each.late for each in vertex.subtasks)
        records = sum(each.records for each in vertex.subtasks)
        share = late / records if records else 0.0
        if share < _SOME:
            continue
        yield Finding(
            "late-records",
            Severity.WARNING if share >= _MANY else Severity.INFO,
            f"'{vertex.label}' dropped {percent(share)} of its records: they came too late",
            f"{late:,.0f} of {records:,.0f}",
            "a watermark strategy with more out-of-orderness waits longer; allowed_lateness(...) corrects results; "
            "side_output_late_data(...) keeps what is late",
            vertex.id,
            figures={"late": late, "records": records},
        )
