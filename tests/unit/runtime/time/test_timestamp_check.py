"""The first timestamps of a subtask are checked across batches: the first batches may hold a single record each."""

from __future__ import annotations

import pytest

from penstock.records.suspicious_records import TIMESTAMPS
from penstock.runtime.metrics import OperatorMetricGroup
from penstock.runtime.time.timestamp_check import TimestampCheck

SECONDS = 1_700_000_000
DAYS = 15 * 86_400_000  # in seconds this would be a time of 2011


def suspicious(*batches: list[int]) -> int:
    """Return the number of suspicious timestamps in these batches."""
    group = OperatorMetricGroup()
    check = TimestampCheck(group)
    for batch in batches:
        check.look(batch)
    return int(group.counter(TIMESTAMPS).get_count())


def test_timestamps_in_seconds_count_in_all_of_the_first_batches() -> None:
    assert suspicious([SECONDS], [SECONDS + 1], [SECONDS + 2, SECONDS + 3]) == 4


@pytest.mark.parametrize(
    "batches",
    [
        [[DAYS], [DAYS + 1000], [DAYS + 2000]],
        [[1_200_000_000], [1_700_000_000_000]],
        [[SECONDS], [SECONDS * 1_000_000]],
    ],
    ids=["whole seconds of a simulation", "events of 1970 and later ones", "several units"],
)
def test_a_later_batch_shows_that_timestamps_are_in_milliseconds(batches: list[list[int]]) -> None:
    assert suspicious(*batches) == 0


def test_no_more_timestamps_are_checked_once_enough_look_alike() -> None:
    group = OperatorMetricGroup()
    check = TimestampCheck(group)
    check.look([SECONDS] * 999)
    assert not check.done
    check.look([SECONDS])
    assert check.done
    check.look([SECONDS])
    assert group.counter(TIMESTAMPS).get_count() == 1000
