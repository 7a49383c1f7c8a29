"""Drivers that are started on one checkpoint directory: whatever the order of their steps, nothing is written twice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.unit.jobmanager.running.two_drivers import (
    EPOCHS,
    KILL,
    Driver,
    World,
    run_alone,
    run_drivers,
)

WAITING = 12  # steps in which a driver finds out that the one before it is silent
# What the drivers hold the job with; "unshared" locks do not reach the other driver's machine.
KINDS = ["lock", "heartbeat", "unshared"]
# A few steps of one driver, then a few of the other, with a kill now and then: long pauses at any step.
bursts = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 1, 1, 1, 2, KILL]), st.integers(1, 12)), max_size=14
)


def steps_of(found):
    return [one for number, count in found for one in ([number] * (1 if number == KILL else count))]


def check(world, drivers, kind):
    assert not any(driver.outcome.startswith(("failed", "gave up")) for driver in drivers), [
        driver.outcome for driver in drivers
    ]
    if not any(driver.outcome == "finished" for driver in drivers):
        assert run_alone(world, len(drivers), kind).outcome == "finished"
    assert world.lost == []
    assert {
        checkpoint_id: len(names) for checkpoint_id, names in world.published.items()
    } == dict.fromkeys(range(1, EPOCHS + 1), 1)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(40), deadline=None)
@given(found=bursts, count=st.integers(2, 3), skews=st.lists(st.floats(-1e6, 1e6), min_size=3))
def test_however_the_steps_of_drivers_mix_nothing_is_published_twice_or_lost(
    kind, tmp_path_factory, found, count, skews
):
    world = World(tmp_path_factory.mktemp("drivers"))
    drivers = [Driver(world, number, kind, skews[number]) for number in range(count)]
    run_drivers(world, steps_of(found), drivers)
    check(world, drivers, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_stops_at_any_step_and_goes_on_later_does_no_harm(kind, tmp_path):
    outcomes = set()
    for paused in range(1, 26):
        for other in [0] if kind == "lock" else range(20):
            world = World(tmp_path / f"{paused}-{other}")
            drivers = [Driver(world, number, kind) for number in range(2)]
            steps = [1] * (other + (WAITING if kind == "heartbeat" else 0))
            run_drivers(world, [0] * paused + steps + [0] * 100, drivers)
            check(world, drivers, kind)
            outcomes |= {drivers[0].outcome}
    assert outcomes == ({"finished"} if kind == "lock" else {"finished", "fenced"})


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_is_killed_at_any_step_is_followed_by_another(kind, tmp_path):
    for killed in range(30):
        world = World(tmp_path / f"{killed}")
        drivers = [Driver(world, 0, kind)]
        run_drivers(world, [0] * killed + [KILL], drivers)
        check(world, drivers, kind)
        assert world.staged == set()
