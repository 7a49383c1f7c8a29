"""Which operators have dropped records, and when the log says so."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from penstock.jobmanager.metrics.dropped_record_counts import (
    DroppedRecordLog,
    DroppedRecords,
    find_dropped,
)
from penstock.records.dropped_records import (
    LATE,
    LATENESS,
    NULL_TIME,
    SKIPPED,
)

NOW = 1_700_000_000_000
MINUTE = 60_000


def vertex(*names):
    operators = [
        SimpleNamespace(
            operator_id=f"id-{name}",
            name=name,
            kind="source" if name == "lines" else "operator",
            spec=SimpleNamespace(merges_partials=name == "merge"),
        )
        for name in names
    ]
    return SimpleNamespace(id=f"vertex-{names[0]}", operators=tuple(operators))


def report(**operators):
    return {"operators": {f"id-{name}": measured for name, measured in operators.items()}}


def lateness(most):
    return ("distribution", {"sum": most, "count": 1, "min": most, "max": most})


def test_the_operator_of_a_chain_that_drops_records_is_named():
    window = {
        LATE: ("counter", 2),
        LATENESS: lateness(700),
        "numRecordsIn": ("counter", 40),
        "currentInputWatermark": ("gauge", NOW),
    }
    other = {
        **window,
        LATE: ("counter", 3),
        LATENESS: lateness(300),
        "currentInputWatermark": ("gauge", NOW - 9),
    }
    reports = {
        "vertex-window": [
            report(window=window, map={"numRecordsIn": ("counter", 7)}),
            report(window=other),
        ]
    }
    assert find_dropped([vertex("source"), vertex("window", "map")], reports, {}) == [
        DroppedRecords("vertex-window", "id-window", "window", LATE, 5, 80, NOW - 9, 700)
    ]


def test_totals_count_where_reports_began_again():
    reports = {
        "vertex-window": [report(window={LATE: ("counter", 2), "numRecordsIn": ("counter", 9)})]
    }
    totals = {
        "id-window": {
            LATE: ("counter", 30),
            LATENESS: lateness(5),
            "numRecordsIn": ("counter", 100),
        }
    }
    (found,) = find_dropped([vertex("window")], reports, totals)
    assert (found.dropped, found.records, found.lateness_ms) == (30, 100, 5)
    assert find_dropped([vertex("window")], reports, {})[0].dropped == 2
    assert not find_dropped([vertex("window")], {}, {"id-window": {LATE: ("counter", 0)}})


def test_what_cannot_be_parsed_is_not_among_the_records_of_a_source():
    totals = {"id-lines": {SKIPPED: ("counter", 3), "numRecordsIn": ("counter", 97)}}
    (found,) = find_dropped([vertex("lines")], {}, totals)
    assert str(found) == "operator 'lines' dropped 3 of 100 records: they cannot be parsed"


def test_the_second_of_two_stages_drops_partial_aggregates():
    totals = {"id-merge": {LATE: ("counter", 3), "numRecordsIn": ("counter", 97)}}
    (found,) = find_dropped([vertex("merge")], {}, totals)
    assert str(found) == "operator 'merge' dropped 3 of 97 partial aggregates: they are late"


def test_metrics_of_functions_with_these_names_are_not_taken_for_dropped_records():
    own = {LATE: ("gauge", "none"), LATENESS: ("gauge", 7), SKIPPED: ("counter", 3)}
    assert not find_dropped([vertex("map")], {"vertex-map": [report(map=own)]}, {"id-map": own})


def test_a_line_tells_how_many_of_how_many_why_and_how_late():
    found = DroppedRecords("v", "o", "window", LATE, 1200, 50_000, NOW, 4500)
    assert str(found) == (
        "operator 'window' dropped 1,200 of 50,000 records: they are late "
        "(up to 4.5 s behind the watermark, the watermark is at 2023-11-14 22:13:20)"
    )


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.WARNING, "penstock.jobmanager.metrics.dropped_record_counts")
    return caplog


def dropped(number, metric=LATE):
    return DroppedRecords("v", "o", "window", metric, number, 100)


def test_an_operator_is_mentioned_when_it_begins_and_every_five_minutes_while_it_goes_on(lines):
    log = DroppedRecordLog()
    log.look([dropped(1)], NOW)
    log.look([dropped(2)], NOW + MINUTE)
    assert len(lines.messages) == 1
    log.look([dropped(3), dropped(1, NULL_TIME)], NOW + 5 * MINUTE)
    log.look([dropped(3), dropped(1, NULL_TIME)], NOW + 20 * MINUTE)
    assert [line.split(" of ")[0] for line in lines.messages] == [
        "operator 'window' dropped 1",
        "operator 'window' dropped 3",
        "operator 'window' dropped 1",
    ]


def test_the_end_of_the_job_mentions_all_that_was_not_mentioned_just_now(lines):
    log = DroppedRecordLog()
    log.look([dropped(1)], NOW)
    log.finish([dropped(1)], NOW + 10)
    assert len(lines.messages) == 1
    log.finish([dropped(2)], NOW + 10)
    log.finish([dropped(1)], NOW + 9 * MINUTE)
    assert [line.split(" of 100")[0] for line in lines.messages[1:]] == [
        "at the end of the job: operator 'window' dropped 2",
        "at the end of the job: operator 'window' dropped 1",
    ]


def test_reports_of_every_second_are_not_added_up_each_time():
    log = DroppedRecordLog()
    assert [log.is_due(NOW + second * 1000) for second in range(12)] == [
        *(True, *[False] * 9, True),
        False,
    ]
