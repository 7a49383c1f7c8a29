"""Watermark alignment on the driver: the slowest source of a group, over all slots."""

from __future__ import annotations

import pytest

from penstock.common import Duration, WatermarkStrategy
from penstock.jobmanager.sources.watermark_alignment import WatermarkAlignmentGroups
from penstock.runtime.task.pipelined.slot_messages import AlignmentUpdate

MAX = 2**63 - 1


def groups():
    return WatermarkAlignmentGroups({"a": [0, 1], "b": [1, 2]})


def test_no_source_is_paused_before_all_have_reported():
    group = groups()
    assert group.on_report(0, {"a": 10}) == []
    assert group.on_report(2, {"b": 3}) == []


def test_the_slowest_of_each_group_counts():
    group = groups()
    group.on_report(0, {"a": 10})
    group.on_report(2, {"b": 3})
    assert group.on_report(1, {"a": 40, "b": 40}) == [
        AlignmentUpdate("a", 10),
        AlignmentUpdate("b", 3),
    ]
    assert group.on_report(0, {"a": 100}) == [AlignmentUpdate("a", 40)]


def test_an_unchanged_minimum_is_not_sent_again():
    group = groups()
    for slot in (0, 1, 2):
        group.on_report(slot, {"a": 5, "b": 5})
    assert group.on_report(0, {"a": 9}) == []


def test_idle_and_finished_sources_do_not_count():
    group = WatermarkAlignmentGroups({"a": [0, 1]})
    group.on_report(0, {"a": 5})
    assert group.on_report(1, {"a": 50}) == [AlignmentUpdate("a", 5)]
    assert group.on_report(0, {}) == [AlignmentUpdate("a", 50)]
    assert group.on_report(1, {}) == [AlignmentUpdate("a", MAX)]


def test_slots_that_start_again_are_waited_for_and_notified_again():
    group = WatermarkAlignmentGroups({"a": [0, 1]})
    group.on_report(0, {"a": 5})
    group.on_report(1, {"a": 50})
    group.restart([1])
    assert group.on_report(0, {"a": 5}) == []
    assert group.on_report(1, {"a": 50}) == [AlignmentUpdate("a", 5)]


@pytest.mark.parametrize("drift", [0, 1000])
def test_groups_come_from_the_strategies_of_sources(drift):
    plain = WatermarkStrategy.for_monotonous_timestamps()
    aligned = plain.with_watermark_alignment("a", Duration.of_millis(drift))
    group = WatermarkAlignmentGroups.of([(plain, [0]), (aligned, [1]), (aligned, [2])])
    assert group.on_report(1, {"a": 7}) == []
    assert group.on_report(2, {"a": 8}) == [AlignmentUpdate("a", 7)]
