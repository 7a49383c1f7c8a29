"""What epochs tell about load and capacity."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.jobmanager.rescaling.load import IntervalObservation, SourceObservation, measure


def source(records, before=None, after=None, unit="records", name="in"):
    return SourceObservation(name, records, before, after, unit)


def epochs(*sources, busy=0.5, interval=1.0, left=False, parallelism=2):
    """One epoch per second; each has the given sources."""
    return [
        IntervalObservation(
            checkpoint_id=number,
            start_ms=1000 * number,
            end_ms=1000 * number + round(busy * 1000),
            interval_ms=round(interval * 1000),
            parallelism=parallelism,
            busy_s=busy,
            sources=each if isinstance(each, tuple) else (each,),
            data_left=left,
        )
        for number, each in enumerate(sources)
    ]


def test_capacity_is_what_a_subtask_does_while_it_is_busy():
    load = measure(epochs(*[source(100)] * 4, busy=0.25))
    assert load.capacity == pytest.approx(200)
    assert load.arrival == pytest.approx(100)
    assert load.utilization == pytest.approx(0.25)
    assert not load.behind


def test_without_records_nothing_is_known():
    load = measure(epochs(*[source(0)] * 3))
    assert (load.arrival, load.capacity, load.utilization, load.behind) == (0, None, 0, False)


def test_pauses_between_epochs_are_idle_time():
    first, _, _, last = epochs(*[source(100)] * 4, busy=1.0)
    load = measure([first, last])
    assert load.utilization == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("busy", "left", "behind"),
    [
        pytest.param(1.0, True, True, id="read until the deadline and left data"),
        pytest.param(1.0, False, False, id="just managed"),
        pytest.param(0.3, True, False, id="a source that always claims to have data"),
    ],
)
def test_data_left_counts_if_the_epoch_had_no_time_for_it(busy, left, behind):
    load = measure(epochs(*[source(100)] * 3, busy=busy, left=left))
    assert load.behind is behind
    assert load.utilization == pytest.approx(busy)


def test_a_saturated_job_is_fully_used_whatever_it_did_between_two_epochs():
    observed = epochs(*[source(100)] * 3, busy=0.96, left=True)
    assert measure(observed).utilization == pytest.approx(1.0)


def test_a_growing_backlog_is_load_that_was_not_read():
    load = measure(
        epochs(source(100, 0, 50), source(100, 150, 50), source(100, 300, 200), busy=1.0)
    )
    assert load.arrival == pytest.approx((100 + 100 + 300) / 2)
    assert load.utilization > 2


def test_a_shrinking_backlog_is_not_load():
    load = measure(epochs(source(100, 300, 200), source(100, 200, 100), source(100, 100, 0)))
    assert load.arrival == 0
    assert load.backlog == 0


def test_what_an_epoch_finds_anyway_is_not_a_backlog():
    """A source that sees data as it comes: after an epoch, what came meanwhile waits."""
    load = measure(epochs(*[source(100, 100, 50)] * 4))
    assert (load.arrival, load.backlog, load.behind) == (100, 0, False)


def test_more_than_an_interval_of_work_is_behind():
    waiting = 10_000
    load = measure(epochs(*[source(100, waiting + 100, waiting)] * 4))
    assert load.backlog == pytest.approx(waiting - 100)
    assert load.behind


def test_bytes_become_records_by_what_was_read():
    load = measure(
        epochs(
            source(10, 400, 0, "bytes"),
            source(10, 800, 400, "bytes"),
            source(10, 1200, 800, "bytes"),
        )
    )
    # 40 bytes a record; 10 + 10 records were read before the last epoch, and the backlog grew by 800 bytes
    assert load.arrival == pytest.approx((20 + 20) / 2)
    assert load.backlog == pytest.approx(0)  # 20 records wait: what a second brings


def test_bytes_of_which_none_was_read_tell_nothing():
    assert measure(epochs(*[source(10, 4000, 4000, "bytes")] * 3)).backlog is None


def test_no_bytes_are_not_records():
    assert measure(epochs(*[source(10, 0, 0, "bytes")] * 3)).backlog == 0


def test_one_source_that_cannot_tell_makes_the_whole_unknown():
    both = (source(10, 0, 0, name="a"), source(10, None, None, name="b"))
    assert measure(epochs(both, both, both)).backlog is None


def test_backlogs_of_several_sources_add_up():
    both = (
        source(10, 5_010, 5_000, name="a"),
        source(10, 2_000, 1_000, "bytes", name="b"),
        source(0, 0, 0, name="c"),
    )
    assert measure(epochs(both, both)).backlog == pytest.approx(5_000 + 10 - 20)


def test_after_a_change_of_unit_the_new_one_counts():
    load = measure(
        epochs(source(10, 400, 0, "bytes"), source(10, 1_000, 990), source(10, 990, 980))
    )
    assert load.backlog == pytest.approx(980 - (20 - 10) / 2)


COUNTS = st.lists(st.integers(0, 1000), min_size=2, max_size=12)


@given(COUNTS, st.integers(1, 1000), st.integers(1, 60), st.sampled_from(["records", "bytes"]))
def test_arrivals_are_what_came_whatever_was_read(arrivals, most, size, unit):
    """Data is found before each epoch; an epoch reads at most `most` records."""
    waiting, found, read_at_all = 0, [], 0
    scale = size if unit == "bytes" else 1
    for arrived in arrivals:
        waiting += arrived
        read = min(waiting, most)
        found.append(source(read, waiting * scale, (waiting - read) * scale, unit))
        waiting -= read
        read_at_all += read
    load = measure(epochs(*found))
    if read_at_all:
        assert load.arrival == pytest.approx(sum(arrivals[1:]) / (len(arrivals) - 1))
