"""Late records are counted and measured by what is known of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.runtime.metrics import OperatorMetricGroup
from penstock.runtime.operators.lateness import LateRecords
from penstock.runtime.records import MAX_WATERMARK, MIN_WATERMARK


@pytest.fixture
def group():
    return OperatorMetricGroup()


@pytest.fixture
def late(group):
    runtime = SimpleNamespace(get_metrics_group=lambda: group)
    return LateRecords(SimpleNamespace(runtime_context=runtime))


def test_an_operator_without_late_records_reports_no_lateness(group, late):
    assert group.report() == {"numLateRecordsDropped": ("counter", 0)}


def test_lateness_is_the_distance_to_the_watermark(group, late):
    late.drop([7, 3], 10)
    late.drop(iter([9]), 12)
    assert group.report() == {
        "numLateRecordsDropped": ("counter", 3),
        "lateRecordsLatenessMs": ("distribution", {"sum": 13, "count": 3, "min": 3, "max": 7}),
    }


def test_late_records_without_a_real_time_are_counted(group, late):
    late.drop([5], MAX_WATERMARK)
    assert group.report() == {"numLateRecordsDropped": ("counter", 1)}
    late.drop([MIN_WATERMARK, 5], 6)
    assert group.report() == {
        "numLateRecordsDropped": ("counter", 3),
        "lateRecordsLatenessMs": ("distribution", {"sum": 1, "count": 1, "min": 1, "max": 1}),
    }
