from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.checkpoint.schedule import CheckpointSchedule, SchedulePolicy


def schedule(interval_s: float | None = 10.0, **policy) -> CheckpointSchedule:
    made = CheckpointSchedule(SchedulePolicy(interval_s, **policy))
    made.start(0.0)
    return made


def test_the_first_checkpoint_is_due_after_an_interval():
    plan = schedule()
    assert not plan.is_due(9.9)
    assert plan.seconds_left(4.0) == 6.0
    assert plan.is_due(10.0)


def test_after_a_restore_it_may_be_due_at_once():
    plan = schedule()
    plan.start(50.0, at_once=True)
    assert plan.is_due(50.0)


def test_an_interval_is_from_trigger_to_trigger():
    plan = schedule()
    plan.on_triggered(1, 10.0)
    plan.on_over(1, 17.0)
    assert not plan.is_due(19.9)
    assert plan.is_due(20.0)


def test_intervals_that_were_missed_are_not_made_up_for():
    plan = schedule()
    plan.on_triggered(1, 10.0)
    plan.on_over(1, 55.0)
    assert plan.is_due(55.0)
    plan.on_triggered(2, 55.0)
    plan.on_over(2, 56.0)
    assert plan.seconds_left(56.0) == 9.0


def test_the_next_waits_until_one_of_those_under_way_is_over():
    plan = schedule(max_concurrent=2)
    plan.on_triggered(1, 10.0)
    assert plan.is_due(20.0)
    plan.on_triggered(2, 20.0)
    assert not plan.is_due(40.0)
    assert plan.seconds_left(40.0) is None
    plan.on_over(2, 41.0)
    assert plan.is_due(41.0)


def test_the_minimum_pause_begins_when_a_checkpoint_is_over():
    plan = schedule(min_pause_s=5.0)
    plan.on_triggered(1, 10.0)
    plan.on_over(1, 18.0)
    assert not plan.is_due(22.9)
    assert plan.seconds_left(20.0) == 3.0
    assert plan.is_due(23.0)


def test_a_minimum_pause_allows_one_checkpoint_at_a_time():
    plan = schedule(min_pause_s=0.1, max_concurrent=4)
    plan.on_triggered(1, 10.0)
    assert not plan.is_due(100.0)


def test_one_that_was_triggered_besides_counts_like_the_others():
    plan = schedule(10.0, min_pause_s=5.0)
    plan.on_triggered(1, 1.0)
    plan.on_triggered(2, 2.0)
    assert plan.under_way == [1, 2]
    plan.on_over(1, 3.0)
    assert not plan.is_due(100.0)
    plan.on_over(2, 4.0)
    assert not plan.is_due(11.9)
    assert plan.is_due(12.0)


def test_without_an_interval_none_is_due():
    plan = schedule(None)
    assert not plan.is_due(1e9)
    assert plan.seconds_left(0.0) is None


def test_one_that_takes_too_long_expires_and_others_do_not():
    plan = schedule(max_concurrent=3, timeout_s=30.0)
    plan.on_triggered(1, 10.0)
    plan.on_triggered(2, 20.0)
    assert plan.expired(39.9) == []
    assert plan.expired(40.0) == [1]
    assert plan.expired(60.0) == [1, 2]
    plan.on_over(1, 40.0)
    assert plan.expired(60.0) == [2]


def test_the_end_of_a_checkpoint_that_is_not_under_way_changes_nothing():
    plan = schedule(min_pause_s=5.0)
    plan.on_over(7, 9.0)
    assert plan.is_due(10.0)


@given(
    st.integers(1, 20),
    st.integers(0, 20),
    st.integers(1, 3),
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
)
def test_sleeping_for_seconds_left_misses_no_trigger(interval, pause, count, durations):
    """Triggers are never early, never too many at a time, and each comes at the moment it became due."""
    plan = schedule(float(interval), min_pause_s=float(pause), max_concurrent=count)
    now, number, ends, last, over = 0.0, 0, {}, None, None
    while number < len(durations):
        for each in [n for n, at in ends.items() if at <= now]:
            plan.on_over(each, ends.pop(each))
            over = now
        if plan.is_due(now):
            assert last is None or now - last >= interval
            assert over is None or now - over >= pause
            assert len(ends) < (1 if pause else count)
            last = now
            number += 1
            plan.on_triggered(number, now)
            ends[number] = now + durations[number - 1]
            continue
        left = plan.seconds_left(now)
        next_end = min(ends.values(), default=None)
        steps = [now + left] if left is not None else []
        steps += [next_end] if next_end is not None else []
        assert steps, "nothing would ever happen again"
        assert min(steps) > now
        now = min(steps)
