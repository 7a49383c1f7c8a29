from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.checkpoint.coordinator import CoordinatorPhase
from penstock.checkpoint.retention import orphaned
from tests.builders.examples import examples
from tests.unit.checkpoint.staying_tasks import FAULTS, REGIONS, World, restarted, run, step

region = st.sampled_from(REGIONS)
action = st.one_of(
    st.tuples(st.just("read"), region, st.integers(1, 3)),
    st.tuples(st.just("trigger")),
    st.tuples(st.just("go on"), region, st.integers(1, 6)),
    st.tuples(st.just("obey"), region),
    st.tuples(st.just("process"), region, st.booleans()),
    st.tuples(st.just("take"), region),
    st.tuples(st.just("decline"), region),
    st.tuples(st.just("again"), st.integers(0, 20)),
    st.tuples(st.just("expire"), st.integers(0, 3)),
    st.tuples(st.just("restart"), region),
    st.tuples(st.sampled_from(["pin", "unpin", "crash"])),
    st.tuples(st.just("fault"), st.sampled_from(FAULTS)),
)
# Most runs of actions complete nothing: these are the beginnings of a checkpoint that both slots pass.
passage = st.sampled_from(
    [
        [("read", 0, 2), ("read", 1, 1), ("trigger",), ("go on", 0, 8), ("go on", 1, 8)],
        [("trigger",), ("read", 0, 1), ("trigger",), ("go on", 1, 8), ("go on", 0, 8)],
        [("read", 1, 2), ("trigger",), ("process", 0, True), ("go on", 0, 4), ("go on", 1, 6)],
        # The first of two is a full snapshot: only the second may need the earlier state.
        [
            *[("obey", 0)] * 3,
            *[("trigger",)] * 2,
            *[("obey", 0), ("process", 0, True)],
            *[("go on", 0, 8), ("go on", 1, 8)],
        ],
    ]
)
schedules = st.lists(st.one_of(action.map(lambda a: [a]), passage), max_size=25).map(
    lambda parts: [each for part in parts for each in part]
)
worlds = st.builds(World, st.integers(1, 3), st.sampled_from(["deltas", "database", "confirmed"]))


def check_all(world):
    """Everything that was read is in the state once, and published once."""
    newest = world.durable()[-1]
    read = Counter(
        2 * n + r
        for r in REGIONS
        for n in range(newest.sources["source"].load_splits(r)[0].position)
    )
    in_state = Counter(
        value
        for chain in newest.operators["total"].subtasks
        for name in chain.files()
        for value in world.files[name]
    )
    out = Counter(value for values in world.published.values() for value in values)
    assert in_state == read
    assert out == read


@given(schedules, worlds)
@settings(max_examples=examples(600), deadline=None)
def test_whatever_happens_every_value_is_in_the_state_once_and_in_the_output_once(actions, world):
    driver = run(world, actions)
    assert driver.coordinator.phase is CoordinatorPhase.FINISHED
    check_all(world)


@given(schedules, worlds)
@settings(max_examples=examples(300), deadline=None)
def test_nothing_is_left_for_ever(actions, world):
    run(world, actions)
    durable = world.durable()
    assert len(durable) <= world.retained
    needed = set().union(*(manifest.files() for manifest in durable))
    # What the end of the job sweeps is all that is left.
    for name in orphaned(world.files, durable):
        world.files.pop(name)
    assert world.files.keys() == needed


@given(st.lists(passage, max_size=12), worlds)
@settings(max_examples=examples(100), deadline=None)
def test_without_a_fault_retention_alone_leaves_nothing(parts, world):
    run(world, [each for part in parts for each in part])
    needed = set().union(*(manifest.files() for manifest in world.durable()))
    assert world.files.keys() == needed


def passed(count=1):
    return [("read", 0, 1), ("trigger",), ("go on", 0, 8), ("go on", 1, 8)] * count


@pytest.mark.parametrize("backend", ["deltas", "database", "confirmed"])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_alone_is_survived(fault, backend):
    world = World(1, backend)
    driver = run(world, [*passed(2), ("fault", fault), *passed(2)])
    assert driver.coordinator.base.checkpoint_id >= 4
    check_all(world)


def steps(world, *actions):
    driver = restarted(world)
    for each in actions:
        driver = step(driver, each)
    return driver


def test_committables_of_an_aborted_checkpoint_are_committed_with_the_next():
    world = World()
    half = [("read", 0, 3), ("trigger",), ("go on", 0, 8), ("expire", 0)]
    driver = steps(world, *half, ("go on", 0, 2), ("go on", 1, 8), *passed())
    assert driver.coordinator.base.checkpoint_id == 2
    assert world.published == {2: [0, 2, 4]}  # the one after them waits
    assert world.aborts == 1


def test_committables_of_concurrent_checkpoints_are_committed_once():
    world = World()
    both = [("read", 0, 2), ("trigger",), ("obey", 0), ("read", 0, 2), ("trigger",)]
    driver = steps(world, *both, *[("go on", 0, 20), ("go on", 1, 20)])
    assert driver.coordinator.base.checkpoint_id == 2
    assert world.published == {1: [0], 2: [2, 4]}


def test_unreported_files_of_aborted_checkpoints_are_deleted_by_the_next_completed_one():
    world = World()
    reported = [("obey", 0), ("obey", 1)]
    lost = [("trigger",), ("obey", 0), ("process", 0, False), ("take", 0), ("decline", 0)]
    driver = steps(world, *passed(), *reported, *lost)
    left = {name for name in world.files if name.startswith("shared/2-")}
    assert len(left) == 1
    full = [("trigger",), ("obey", 0), ("obey", 0), ("process", 0, True)]
    for each in [*full, ("go on", 0, 8), ("go on", 1, 8)]:
        driver = step(driver, each)
    assert driver.coordinator.base.checkpoint_id == 3
    assert not left & world.files.keys()


def test_files_that_another_pending_checkpoint_may_need_go_when_that_is_over():
    world = World()
    reported = [("obey", 0), ("obey", 1)]
    both = [("trigger",), ("trigger",), ("obey", 0), ("process", 0, True)]
    driver = steps(world, *passed(2), *reported, *both)
    before = set(world.durable()[-1].operators["total"].subtasks[0].files())
    for each in [("go on", 0, 2), ("obey", 1), ("process", 1, False), ("take", 1), ("take", 1)]:
        driver = step(driver, each)
    assert (driver.coordinator.base.checkpoint_id, driver.coordinator.pending_checkpoint_ids) == (
        3,
        [4],
    )
    assert before <= world.files.keys()
    for each in [("go on", 0, 8), ("go on", 1, 8)]:
        driver = step(driver, each)
    assert driver.coordinator.base.checkpoint_id == 4
    assert not before & world.files.keys()


def test_a_checkpoint_that_is_complete_ends_those_before_it():
    world = World()
    driver = steps(world, ("trigger",), ("trigger",), *[("obey", r) for r in REGIONS * 2])
    for r in REGIONS:
        driver = step(driver, ("take", r))  # the sources of the first
        for each in ("process", "process"):
            driver = step(driver, (each, r, False))
    # What one subtask says of the first is lost on the way, without a notification.
    driver.slots[0].acks = type(driver.slots[0].acks)(
        each for each in driver.slots[0].acks if each[0] == 2
    )
    for each in [("take", 0)] * 3 + [("take", 1)] * 4:
        driver = step(driver, each)
    assert driver.coordinator.base.checkpoint_id == 2
    assert driver.coordinator.pending_checkpoint_ids == []
    assert world.aborts == 1


def test_a_number_is_not_used_again_by_the_run_that_gave_it_up():
    driver = steps(World(), ("trigger",), ("expire", 0))
    assert driver.coordinator.next_checkpoint_id == 2


def test_a_manifest_in_doubt_goes_when_a_later_one_is_there():
    world = World()
    driver = steps(world, *passed(), ("fault", "error after the manifest"), *passed())
    assert sorted(world.manifests) == [1, 2]
    assert driver.coordinator.base.checkpoint_id == 1
    for each in passed():
        driver = step(driver, each)
    assert sorted(world.manifests) == [3]


def test_after_a_crash_a_manifest_in_doubt_is_the_one_to_go_on_from():
    world = World()
    driver = steps(world, *passed(), ("fault", "error after the manifest"), *passed(), ("crash",))
    assert driver.coordinator.base.checkpoint_id == 2
    assert driver.coordinator.next_checkpoint_id == 3
