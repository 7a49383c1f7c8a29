"""How many records a slow function processes between the trigger of a checkpoint and its barrier, in virtual time.

This number times the cost of a record is the delay of the barrier. With windows in bytes only it would be hundreds of thousands of records.
"""

from __future__ import annotations

import pytest

from penstock.graph.stage import BarrierSettings, DebloatSettings, NetworkSettings
from tests.builders.virtual_stage import Step, VirtualStage, chain, virtual_time

__all__ = ["virtual_time"]

pytestmark = pytest.mark.usefixtures("virtual_time")

FEW = 4  # records in flight per exchange, however slow the function is


def bound(cost_s: float, exchanges: int, target_s: float = 1.0) -> float:
    """One and a half times the target time for each exchange."""
    return exchanges * max(1.5 * target_s / cost_s, FEW)


def counts(moments: list[float], vertex: int, *steps: Step, **options: object) -> list[int]:
    """Return how many records a vertex processes before each barrier, for checkpoints that are triggered at `moments`."""
    found = []
    with VirtualStage(chain(*steps, **options)) as stage:
        for moment in moments:
            stage.run_to(moment)
            found.append(stage.before_barrier(vertex))
    return found


@pytest.mark.parametrize("moment", [0.02, 0.1, 0.4, 3.0], ids=lambda moment: f"after {moment} s")
@pytest.mark.parametrize("same_slot", [False, True], ids=["slots of their own", "same slot"])
@pytest.mark.parametrize("fast", [0, 2, 5], ids=["alone", "behind 2 fast", "behind 5 fast"])
@pytest.mark.parametrize("cost_s", [0.001, 0.02, 1.0], ids=["1 ms", "20 ms", "1 s"])
def test_a_barrier_takes_about_the_target_time_at_each_exchange(
    cost_s: float, fast: int, same_slot: bool, moment: float
) -> None:
    steps = [*(Step() for _ in range(fast)), Step(cost_s)]
    (count,) = counts([moment], fast + 1, *steps, same_slot=same_slot)
    assert count <= bound(cost_s, fast + 1)


def test_one_checkpoint_after_another_takes_no_longer() -> None:
    found = counts([0.1, 1, 2, 5, 6, 20], 3, Step(), Step(), Step(0.02))
    assert max(found) <= bound(0.02, 3)


@pytest.mark.parametrize("same_slot", [False, True], ids=["slots of their own", "same slot"])
def test_a_barrier_that_overtakes_does_not_wait_for_capacity(same_slot: bool) -> None:
    """Each subtask before the slow one may be busy with a portion; what is in flight does not count."""
    overtakes = BarrierSettings(unaligned=True)
    steps = [Step(), Step(), Step(0.02)]
    found = counts([0.1, 1, 3], 3, *steps, same_slot=same_slot, barriers=overtakes)
    assert max(found) <= FEW


@pytest.mark.parametrize("same_slot", [False, True], ids=["slots of their own", "same slot"])
def test_a_job_with_shrinking_windows_processes_all_records(same_slot: bool) -> None:
    """The function is slow, fast and slow again: windows shrink while their channels are full."""
    changing = Step(lambda seconds: 0.02 if int(seconds) % 2 else 0.001)
    steps, numbers = [Step(), changing, Step()], 2000
    options = {"parallelism": 2, "same_slot": same_slot, "there": lambda seconds: numbers}
    with VirtualStage(chain(*steps, ends=True, **options)) as stage:
        stage.run_to(1.5)
        stage.before_barrier(3)
        stage.run_to_the_end()
        assert sum(task.subtask.metrics.records_in for task in stage.tasks(3)) == 2 * numbers


def test_functions_downstream_of_a_slow_one_do_not_delay_its_barrier() -> None:
    found = counts([0.1, 3], 2, Step(), Step(0.02), Step(), Step())
    assert max(found) <= bound(0.02, 2)


def test_the_target_time_is_a_setting() -> None:
    network = NetworkSettings(debloat=DebloatSettings(target_s=0.2))
    found = counts([0.1, 3], 3, Step(), Step(), Step(0.001), network=network)
    assert max(found) <= bound(0.001, 3, target_s=0.2)


def test_many_channels_share_the_window() -> None:
    found = counts([0.1, 1], 2, Step(), Step(0.02), parallelism=6)
    assert max(found) <= bound(0.02, 2)


def test_large_records_count_as_small_ones_do() -> None:
    found = counts([0.1, 3], 2, Step(size=20_000), Step(0.02))
    assert max(found) <= bound(0.02, 2)


def test_a_burst_after_a_pause_meets_a_function_whose_speed_is_known() -> None:
    found = counts(
        [8.1, 8.5, 12], 3, Step(), Step(), Step(0.02), there=lambda s: 100 if s < 8 else 1e12
    )
    assert max(found) <= bound(0.02, 3)


def test_a_function_that_becomes_slow_has_little_in_flight_if_it_kept_up_before() -> None:
    """Its channels were nearly empty: unused credit is taken back."""
    slowing = Step(lambda seconds: 100e-6 if seconds < 2 else 0.01)
    there = lambda seconds: 400 * seconds  # noqa: E731
    found = counts([2.5, 4, 8, 20], 3, Step(), Step(), slowing, there=there)
    # Until the average is that of the slow function, up to twice as much is in flight.
    assert max(found) <= 2 * bound(0.01, 3)
    assert found[-1] <= bound(0.01, 3)


def test_a_function_that_becomes_slow_behind_full_channels_is_soon_bounded_again() -> None:
    slowing = Step(lambda seconds: 100e-6 if seconds < 2 else 0.001)
    in_flight, after = counts([2, 40], 1, slowing)
    assert in_flight <= bound(100e-6, 1)
    assert after <= bound(0.001, 1)


def test_an_upstream_function_that_drops_most_records_may_have_many_in_flight() -> None:
    kept = Step(copies=lambda before: int(before % 100 == 99))
    found = counts([0.1, 3, 10], 3, Step(), kept, Step(0.02))
    assert max(found) <= bound(0.02, 3)


@pytest.mark.parametrize("copies", [10, 40])
def test_an_upstream_function_that_emits_many_records_for_one_has_few_in_flight(
    copies: int,
) -> None:
    found = counts([0.1, 3, 10], 3, Step(), Step(copies=lambda before: copies), Step(0.02))
    assert max(found) <= bound(0.02, 3) + 3 * FEW * copies


def test_a_slow_function_in_the_chain_of_a_source_lets_it_read_little_at_first() -> None:
    with VirtualStage(chain(Step(), chained=[Step(0.02)])) as stage:
        (task,) = stage.tasks(0)
        stage.run_to(0.01)  # until its first turn is over
        assert task.subtask.source.reader.records <= 16
        stage.run_to(5)
        before = task.subtask.source.reader.records
        stage.before_barrier(1)
        assert task.subtask.source.reader.records - before <= 4
