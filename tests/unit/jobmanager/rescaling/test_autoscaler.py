"""The autoscaler: single decisions, and simulations of whole jobs."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.jobmanager.rescaling.autoscaler import (
    Autoscaler,
    IntervalObservation,
    SourceObservation,
)
from penstock.options.autoscaler_settings import AutoscalerSettings
from tests.builders.examples import examples
from tests.unit.jobmanager.rescaling.plant import (
    QUICK,
    Plant,
    constant,
    flaps,
    linear,
)

UNITS = [None, "records", "bytes"]


def check_rules(plant, rules=QUICK):
    """What holds in every simulation."""
    before = 1_000.0
    for when, former, new in plant.changes:
        assert new != former
        assert rules.min_parallelism <= new <= min(rules.max_parallelism, plant.max_parallelism)
        assert (when - before) * 1000 >= rules.stabilization_ms
        if new < former:
            assert (when - before) * 1000 >= rules.scale_down_ms
            assert new >= former * (1 - rules.scale_down_factor) - 1e-6
        before = when


# Constant load


@settings(max_examples=examples(25), deadline=None)
@given(
    capacity=st.integers(200, 5_000),
    load=st.floats(0.0, 30.0),
    start=st.integers(1, 40),
    unit=st.sampled_from(UNITS),
    overhead=st.floats(0.0, 0.2),
    backlog=st.integers(0, 50_000),
)
def test_a_constant_load_finds_its_parallelism_and_stays_there(
    capacity, load, start, unit, overhead, backlog
):
    arrival = int(load * capacity)
    plant = Plant(linear(capacity), start, unit=unit, overhead=overhead, waiting=backlog)
    plant.run(900, constant(arrival))
    found = len(plant.changes)
    plant.run(600, constant(arrival))
    assert plant.changes[found:] == []
    check_rules(plant)
    # It keeps up, with room to spare, and with no more subtasks than the rule asks for.
    assert plant.waiting <= arrival + 1
    used = overhead + arrival / plant.curve(plant.parallelism)
    assert used <= QUICK.max_utilization + 0.01
    if plant.parallelism > 1 and used < QUICK.min_utilization - 0.01:
        assert used * plant.parallelism / QUICK.target > plant.parallelism - 1 - 0.1


@settings(max_examples=examples(25), deadline=None)
@given(
    steps=st.lists(st.integers(0, 3_000), min_size=16, max_size=16),
    base=st.integers(100, 2_000),
    arrival=st.integers(0, 20_000),
    start=st.integers(1, 16),
    unit=st.sampled_from(UNITS),
)
def test_whatever_more_subtasks_bring_the_job_does_not_go_up_and_down_for_ever(
    steps, base, arrival, start, unit
):
    """Capacity that grows faster or slower than the parallelism, or not at all."""
    plant = Plant(lambda n: base + sum(steps[1:n]), start, unit=unit, max_parallelism=16)
    plant.run(1_500, constant(arrival))
    found = len(plant.changes)
    plant.run(500, constant(arrival))
    assert plant.changes[found:] == []
    check_rules(plant)


def test_a_parallelism_that_was_too_little_is_not_tried_again_for_the_same_load():
    """Two subtasks are four times as fast as one: by the linear rule, one would do."""
    plant = Plant(lambda n: 1_000 if n == 1 else 4_000, unit="records", overhead=0.0)
    plant.run(600, constant(900))
    assert [change[1:] for change in plant.changes] == [(1, 2)]
    plant.run(600, constant(300))  # the load falls: now one is enough
    assert [change[1:] for change in plant.changes] == [(1, 2), (2, 1)]


# Steps


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("many", [5, 20])
def test_a_step_up_and_a_step_down_are_followed(unit, many):
    plant = Plant(linear(1_000), unit=unit, overhead=0.02)
    plant.run(300, constant(400))
    assert plant.parallelism == 1
    plant.run(600, constant(many * 700))
    up = plant.parallelism
    assert many <= up <= 2 * many
    assert plant.waiting <= many * 700 + 1
    plant.run(600, constant(400))
    assert plant.parallelism == 1
    check_rules(plant)
    # Without a backlog the way up may go too far and a step back; else it is up once and down once.
    assert flaps(plant.changes) <= (1 if unit else 3)


def test_a_known_backlog_leads_to_the_right_parallelism_in_one_step():
    plant = Plant(linear(1_000), unit="records", overhead=0.0)
    plant.run(20, constant(7_000))
    assert [change[1:] for change in plant.changes] == [(1, 11)]  # 7 / 0.7, and the backlog


def test_without_a_backlog_data_that_was_left_leads_there_in_several_steps():
    plant = Plant(linear(1_000), overhead=0.0)
    plant.run(120, constant(7_000))
    ups = [change[1:] for change in plant.changes]
    assert ups[:5] == [(1, 2), (2, 3), (3, 5), (5, 8), (8, 12)]
    assert plant.waiting <= 7_001


@pytest.mark.parametrize("unit", ["records", "bytes"])
def test_a_backlog_is_worked_off_within_the_catch_up_duration(unit):
    plant = Plant(linear(1_000), unit=unit, waiting=300_000, overhead=0.0)
    plant.run(1, constant(500))
    while not plant.changes:
        plant.step(constant(500))
    begun = plant.now
    while plant.waiting > 600:
        plant.step(constant(500))
        assert plant.parallelism == plant.changes[0][2]
    assert plant.now - begun <= QUICK.catch_up_ms / 1000 + 2
    plant.run(300, constant(500))
    assert plant.parallelism == 1


def test_a_job_that_is_not_behind_has_its_whole_quiet_interval_before_it_shrinks():
    plant = Plant(linear(1_000), 4, unit="records")
    plant.run(58, constant(500))
    assert plant.changes == []
    plant.run(10, constant(2_600))  # not quiet any more
    plant.run(58, constant(500))
    assert plant.changes == []
    plant.run(30, constant(500))
    assert plant.changes[0][1:] == (4, 3)  # the highest that was recommended in the interval


def test_a_job_that_works_off_a_backlog_is_not_slowed_down():
    """It has more subtasks than the catch-up duration asks for; they stay until the work is done."""
    rules = replace(QUICK, catch_up_ms=600_000, scale_down_ms=20_000)
    plant = Plant(linear(1_000), 4, settings=rules, unit="records", waiting=200_000)
    while plant.waiting > 8_000:
        plant.step(constant(100))
    assert plant.changes == []
    plant.run(120, constant(100))
    assert plant.parallelism == 1


@pytest.mark.parametrize(
    ("used", "changes"),
    [
        pytest.param(0.88, (10, 13), id="above the maximum"),
        pytest.param(0.82, None, id="between the target and the maximum"),
        pytest.param(0.50, None, id="between the minimum and the target"),
        pytest.param(0.42, None, id="just above the minimum, although six would do"),
        pytest.param(0.38, (10, 6), id="below the minimum"),
    ],
)
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_between_the_bounds_of_the_utilization_nothing_changes(unit, used, changes):
    plant = Plant(linear(1_000), 10, unit=unit, overhead=0.0)
    plant.run(90, constant(10_000 * used))
    assert [change[1:] for change in plant.changes[:1]] == ([changes] if changes else [])


# Noise


@settings(max_examples=examples(20), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    level=st.floats(0.3, 12.0),
    amplitude=st.floats(0.0, 0.3),
    unit=st.sampled_from(UNITS),
)
def test_noise_does_not_make_the_job_flap(seed, level, amplitude, unit):
    noise = random.Random(seed)

    def arrival(_):
        return 1_000 * level * noise.uniform(1 - amplitude, 1 + amplitude)

    plant = Plant(linear(1_000), unit=unit)
    plant.run(2_000, arrival)
    check_rules(plant)
    assert flaps(plant.changes) <= 2
    settled = [change for change in plant.changes if change[0] > 1_000 + 600]
    assert len(settled) <= 2


def test_a_load_that_swings_within_the_quiet_interval_keeps_its_peak():
    plant = Plant(linear(1_000), unit="records")
    plant.run(1_200, lambda now: 4_000 if now % 40 < 20 else 200)
    assert flaps(plant.changes) == 0
    assert plant.parallelism >= 4


# Limits


def test_more_subtasks_than_cores_are_not_asked_for():
    plant = Plant(linear(1_000), unit="records", cores=4).run(60, constant(9_000))
    assert plant.parallelism == 4


def test_the_key_groups_are_a_limit():
    plant = Plant(linear(1_000), unit="records", max_parallelism=3).run(60, constant(9_000))
    assert plant.parallelism == 3


@pytest.mark.parametrize(
    ("rules", "start", "load", "first"),
    [
        pytest.param({"max_parallelism": 3}, 1, 9, 3, id="maximum"),
        pytest.param({"min_parallelism": 3}, 4, 0.1, 3, id="minimum"),
        pytest.param({"scale_up_factor": 1.0}, 2, 9, 4, id="at most one more each"),
        pytest.param({"scale_up_factor": 0.1}, 2, 9, 3, id="one is always possible"),
        pytest.param({"scale_up_factor": 0.0}, 2, 9, None, id="never up"),
        pytest.param({"scale_up_factor": float("inf")}, 2, 7, 11, id="no limit"),
        pytest.param({"scale_down_factor": 0.25}, 8, 0.1, 6, id="at most a quarter less"),
        pytest.param({"scale_down_factor": 0.0}, 8, 0.1, None, id="never down"),
        pytest.param({"scale_down_factor": 1.0}, 8, 0.1, 1, id="all at once"),
    ],
)
def test_one_change_stays_within_the_bounds(rules, start, load, first):
    plant = Plant(
        linear(1_000), start, settings=replace(QUICK, **rules), unit="records", overhead=0
    )
    plant.run(70, constant(1_000 * load))
    assert (plant.changes[0][2] if plant.changes else None) == first


@pytest.mark.parametrize(("start", "first"), [(1, 2), (9, 6)])
def test_a_job_outside_of_the_bounds_is_brought_in_at_once(start, first):
    rules = replace(QUICK, min_parallelism=2, max_parallelism=6)
    plant = Plant(linear(1_000), start, settings=rules, unit="records")
    plant.step(constant(100))
    assert [change[1:] for change in plant.changes] == [(start, first)]
    assert plant.reasons == ["the parallelism must be between 2 and 6"]


def test_an_increase_that_brought_nothing_is_the_last():
    plant = Plant(lambda n: 1_000 * min(n, 2), overhead=0.0).run(300, constant(5_000))
    assert [change[1:] for change in plant.changes] == [(1, 2), (2, 3)]
    without = replace(QUICK, detects_effect=False)
    plant = Plant(
        lambda n: 1_000 * min(n, 2), settings=without, overhead=0.0, max_parallelism=16
    ).run(300, constant(5_000))
    assert plant.parallelism == 16


def test_with_a_catch_up_duration_of_zero_backlogs_do_not_count():
    rules = replace(QUICK, catch_up_ms=0)
    plant = Plant(linear(1_000), settings=rules, unit="records", waiting=500_000)
    plant.run(60, constant(500))
    assert plant.changes == []


# Single decisions


def checkpoint_id(number, parallelism=2, busy=0.95, *, left=True):
    start = 1_000_000 + number * 1_000
    return IntervalObservation(
        checkpoint_id=number,
        start_ms=start,
        end_ms=start + round(busy * 1000),
        interval_ms=1_000,
        parallelism=parallelism,
        busy_s=busy,
        sources=(SourceObservation("in", 1_000),),
        data_left=left,
    )


def test_nothing_is_decided_before_the_stabilization_interval_is_over():
    scaler = Autoscaler(QUICK)
    decided = [number for number in range(10) if scaler.observe(checkpoint_id(number))]
    assert decided[0] == 5  # 0.95 s after the start of the sixth epoch, five seconds are over


def test_a_decision_that_is_not_executed_is_repeated_later():
    scaler = Autoscaler(QUICK)
    decided = [number for number in range(30) if scaler.observe(checkpoint_id(number))]
    assert [later - one for one, later in pairwise(decided)] == [5] * (len(decided) - 1)
    assert len(decided) >= 4


def test_a_change_by_hand_restarts_the_measurement():
    scaler = Autoscaler(QUICK)
    assert not any(scaler.observe(checkpoint_id(number)) for number in range(5))
    found = [
        number for number in range(5, 15) if scaler.observe(checkpoint_id(number, parallelism=3))
    ]
    assert found == [10]


def test_the_first_epoch_with_a_parallelism_is_not_measured():
    """It restores state: here it takes ten times as long."""
    scaler = Autoscaler(replace(QUICK, stabilization_ms=0))
    slow = replace(checkpoint_id(0), busy_s=10.0, end_ms=1_010_000)
    found = [scaler.observe(slow)]
    found += [scaler.observe(checkpoint_id(10 + n, busy=0.6, left=False)) for n in range(5)]
    assert found == [None] * 6


def test_a_restart_is_not_an_idle_time():
    rules = replace(QUICK, scale_down_ms=0)
    for forget in (False, True):
        scaler = Autoscaler(rules)
        for number in range(10):
            assert scaler.observe(checkpoint_id(number, busy=0.6, left=False)) is None
        if forget:
            scaler.reset()
        later = [scaler.observe(checkpoint_id(n, busy=0.6, left=False)) for n in range(200, 212)]
        assert any(later) is not forget


def test_a_decision_says_why():
    scaler = Autoscaler(QUICK)
    decision = next(
        found for number in range(9) if (found := scaler.observe(checkpoint_id(number)))
    )
    assert str(decision) == (
        "scale up from 2 to 3: 1,053 records/s arrive, a subtask can process 526; "
        "utilization 1.00 is above 0.85"
    )


def test_the_reasons_of_the_other_decisions():
    plant = Plant(linear(1_000), unit="records", waiting=400_000).run(200, constant(500))
    assert "backlog" in plant.reasons[0]
    assert plant.reasons[1].endswith("is below 0.40 for 60 s")
    idle = Plant(linear(1_000), 4, unit="records").run(100, constant(0))
    assert idle.reasons[0] == "no records arrive for 60 s"


def test_the_defaults_are_patient():
    rules = AutoscalerSettings(enabled=True)
    plant = Plant(linear(1_000), settings=rules, unit="records", interval=10.0, overhead=0.1)
    plant.run(290, constant(3_000))
    assert plant.changes == []
    plant.run(60, constant(3_000))
    assert [change[1:] for change in plant.changes] == [(1, 5)]
    plant.run(3_600 + 600, constant(300))
    assert len(plant.changes) == 2


def test_the_example_of_the_page_is_what_happens():
    rules = AutoscalerSettings(
        enabled=True,
        window_ms=60_000,
        stabilization_ms=30_000,
        catch_up_ms=300_000,
        scale_down_ms=600_000,
    )
    plant = Plant(linear(20_000), 2, settings=rules, unit="records", overhead=0.1)
    plant.run(300, constant(25_000)).run(1_800, constant(60_000)).run(3_600, constant(25_000))
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "rescaling.md").read_text()
    shown = re.findall(
        r"^\| (\d+) s \| `scale (?:up|down) from (\d+) to (\d+): ([^`]+)`", page, re.MULTILINE
    )
    assert len(shown) == 3
    assert [(str(round(when - 1_000)), str(old), str(new)) for when, old, new in plant.changes] == [
        line[:3] for line in shown
    ]
    assert plant.reasons == [line[3] for line in shown]
