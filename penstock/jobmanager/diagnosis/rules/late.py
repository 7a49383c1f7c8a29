"""Records that operators drop: late and invalid ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.jobmanager.diagnosis.findings import Finding, Severity, percent
from penstock.jobmanager.diagnosis.metrics import JobFigures
from penstock.jobmanager.metrics.dropped_record_counts import RECORDS
from penstock.records.dropped_records import (
    LATE,
    NULL_COLUMN,
    NULL_TIME,
    REASONS,
    SKIPPED,
)

_MANY: Final = 0.01
_HINTS: Final = {
    LATE: "a watermark strategy with more out-of-orderness (in SQL: WATERMARK FOR ... - INTERVAL ...) waits longer; "
    "allowed_lateness(...) corrects results; side_output_late_data(...) keeps late records",
    NULL_TIME: "filter such rows out, or give the time attribute a default with COALESCE",
    NULL_COLUMN: "'table.exec.sink.not-null-enforcer' = 'ERROR' fails the job instead; COALESCE gives a default",
    SKIPPED: "without the option that ignores parse errors the job fails at the first one and shows it",
}


def late_records(job: JobFigures) -> Iterator[Finding]:
    """Report each operator that drops records, with the reason and the number; even a single dropped record is reported."""
    for each in job.dropped:
        share = each.dropped / each.records
        late = each.metric == LATE
        count = f"{each.dropped:,} of {each.records:,}"
        if each.unit != RECORDS:
            count += ", each of several records"
        figures = {"dropped": each.dropped, "records": each.records}
        more = {"watermark": each.watermark, "lateness_ms": each.lateness_ms}
        yield Finding(
            "late-records" if late else "dropped-records",
            Severity.WARNING if share >= _MANY else Severity.INFO,
            f"'{each.name}' dropped {percent(share)} of its {each.unit}: {REASONS[each.metric]}",
            f"{count}; {each.detail}" if each.detail else count,
            _HINTS[each.metric],
            each.vertex,
            figures={**figures, **(more if late else {})},
        )
