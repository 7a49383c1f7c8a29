"""Tables of partitions, step after step: what is written when, for Flink and for Penstock alike."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

POLICY: Final = {"sink.partition-commit.policy.kind": "success-file"}
BY_TIME: Final = {**POLICY, "sink.partition-commit.trigger": "partition-time"}
DAY_AND_HOUR: Final = ("DATE_FORMAT(seen, 'yyyy-MM-dd')", "DATE_FORMAT(seen, 'HH')")
COMPACT: Final = ("DATE_FORMAT(seen, 'yyyyMMdd')", "DATE_FORMAT(seen, 'HH')")
PATTERN: Final = {"partition.time-extractor.timestamp-pattern": "$d $h:00:00"}

# name -> options of the sink, the expressions of its partition columns
SCENARIOS: Final[dict[str, tuple[dict[str, str], tuple[str, str]]]] = {
    "an hour later": ({**BY_TIME, **PATTERN, "sink.partition-commit.delay": "1 h"}, DAY_AND_HOUR),
    "at once": ({**BY_TIME, **PATTERN}, DAY_AND_HOUR),
    "first column": ({**BY_TIME, "sink.partition-commit.delay": "12 h"}, DAY_AND_HOUR),
    "in a zone": (
        {**BY_TIME, **PATTERN, "sink.partition-commit.watermark-time-zone": "Europe/Berlin"},
        DAY_AND_HOUR,
    ),
    "another form": (
        {
            **BY_TIME,
            "partition.time-extractor.timestamp-pattern": "$d-$h",
            "partition.time-extractor.timestamp-formatter": "yyyyMMdd-HH",
            "sink.partition-commit.delay": "30 min",
        },
        COMPACT,
    ),
    "by the clock": (POLICY, DAY_AND_HOUR),
}
# The times of the rows of each step.
STEPS: Final = (
    ("2024-01-01 10:30",),
    ("2024-01-01 11:00", "2024-01-01 10:31"),
    ("2024-01-01 11:01",),
    ("2024-01-01 10:45",),
    ("2024-01-01 12:30", "2024-01-01 13:30"),
    ("2024-01-02 00:00",),
    ("2024-01-01 09:00", "2024-01-02 13:00"),
)


def statements(home: Path, name: str, form: str) -> list[str]:
    """Return the statements of a scenario; the last one starts the job."""
    (home / "in").mkdir(parents=True)
    options, (day, hour) = SCENARIOS[name]
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    source = f"'path' = '{home / 'in'}', 'format' = 'csv', 'source.monitor-interval' = '50 ms'"
    target = f"'path' = '{home / 'out'}', 'format' = '{form}', {shown}"
    return [
        f"""CREATE TABLE visits (id BIGINT, seen TIMESTAMP(3), WATERMARK FOR seen AS seen)
        WITH ('connector' = 'filesystem', {source})""",
        f"""CREATE TABLE parts (id BIGINT, d STRING, h STRING) PARTITIONED BY (d, h)
        WITH ('connector' = 'filesystem', {target})""",
        f"INSERT INTO parts SELECT id, {day}, {hour} FROM visits",
    ]


def give(home: Path, step: int) -> None:
    """Let the job have the rows of a step, all at once."""
    hidden = home / f"{step}.csv"
    hidden.write_text("".join(f"{step},{at}:00\n" for at in STEPS[step]))
    os.rename(hidden, home / "in" / hidden.name)


def committed(home: Path) -> list[str]:
    """Return the partitions that are committed."""
    found = (home / "out").rglob("_SUCCESS")
    return sorted(str(path.parent.relative_to(home / "out")) for path in found)


def forget(home: Path, partitions: list[str]) -> None:
    """Take away what says that partitions are committed."""
    for each in partitions:
        (home / "out" / each / "_SUCCESS").unlink()
