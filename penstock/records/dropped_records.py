"""Why records are dropped, by the metric that counts them: the job manager reports all of these."""

from __future__ import annotations

from typing import Final

LATE: Final = "numLateRecordsDropped"
LATENESS: Final = "lateRecordsLatenessMs"  # how far late records are behind the watermark
NULL_TIME: Final = "numNullRowTimeRecordsDropped"
NULL_COLUMN: Final = "numNotNullViolationsDropped"
SKIPPED: Final = "numRecordsSkipped"

# What is wrong with them, as it follows "dropped 3 of 100 records: ".
REASONS: Final = {
    LATE: "they are late",
    NULL_TIME: "their time attribute is NULL",
    NULL_COLUMN: "a NOT NULL column of the sink is NULL",
    SKIPPED: "they cannot be parsed",
}
