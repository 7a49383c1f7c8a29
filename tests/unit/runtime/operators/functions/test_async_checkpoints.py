"""Records in flight at a barrier: waited for, or taken along and asked about again."""

from __future__ import annotations

import asyncio
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.operators.functions.call_queue import IN_FLIGHT
from tests.unit.runtime.operators.async_services import WM, Run, Service, Slow


def in_flight(snapshot):
    """The values in a snapshot."""
    return [saved[0] for saved in pickle.loads(snapshot.operator_state).get(IN_FLIGHT, ())]


def test_a_barrier_waits_for_answers(run):
    lookup = run(Slow(), barrier_wait=100)
    lookup.send((90, "a"), (20, "b"))
    snapshot = lookup.snapshot()
    assert lookup.take() == ["a", "b"]
    assert in_flight(snapshot) == []
    assert pickle.loads(snapshot.operator_state) == {}, (
        "an operator that waits for all has no state"
    )
    assert lookup.harness.operator.next_wakeup() is None


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("restored", [True, False], ids=["another process", "the same process"])
def test_records_in_flight_are_asked_about_again_before_new_ones(run, ordered, restored):
    service = Service()
    lookup = run(service, ordered=ordered)
    lookup.send("a", "b", "c")
    service.answer("b")
    snapshot = lookup.snapshot()
    before = lookup.take()
    assert service.cancelled == ["a", "c"]
    assert in_flight(snapshot) == (["a", "b", "c"] if ordered else ["a", "c"])
    assert lookup.harness.operator.next_wakeup() == 0

    if restored:
        service = Service()
        lookup = run(service, ordered=ordered, snapshots=[snapshot])
    service.asked.clear()
    lookup.send("d")
    assert service.asked == ["a", "c", "d"], "an answer that was there is not asked for again"
    service.answer("d", "c", "a")
    after = lookup.finish()[:-1]
    if ordered:
        assert before + after == ["re a", "re b", "re c", "re d"]
    else:
        assert before + after == ["re b", "re d", "re c", "re a"]


def test_the_next_epoch_begins_with_the_records_in_flight(run):
    service = Service()
    lookup = run(service)
    lookup.send("a")
    lookup.snapshot()
    service.asked.clear()
    lookup.look()
    assert service.asked == ["a"]
    service.answer("a")
    assert lookup.look() == ["re a"]
    assert in_flight(lookup.snapshot()) == []


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_watermarks_that_wait_are_part_of_the_checkpoint(run, ordered):
    service = Service()
    lookup = run(service, ordered=ordered)
    lookup.send("a")
    lookup.watermark(5)
    lookup.send("b")
    lookup.watermark(8)
    lookup.harness.process_status(True)
    snapshot = lookup.snapshot()
    assert lookup.take() == []

    service = Service()
    lookup = run(service, ordered=ordered, snapshots=[snapshot])
    lookup.watermark(8)  # sent again after a restart
    lookup.watermark(9)
    lookup.look()
    service.answer("b", "a")
    assert lookup.look() == ["re a", (WM, 5), "re b", (WM, 8), ("idle", True), (WM, 9)]


def test_the_wait_doubles_until_a_long_call_gets_its_answer(run):
    slow = Slow()
    lookup = run(slow, barrier_wait=10)
    lookup.send((100, "a"))
    waits, out = [], []
    while not out:
        before = lookup.loop.now
        snapshot = lookup.snapshot()
        waits.append(round((lookup.loop.now - before) * 1000))
        out = lookup.take()
        lookup.harness.close()
        lookup = run(slow, barrier_wait=10, snapshots=[snapshot])
    assert out == ["a"]
    assert waits == [10, 20, 40, 80, 100]
    assert slow.asked == ["a"] * 5


def test_a_checkpoint_need_not_wait_at_all(run):
    slow = Slow()
    lookup = run(slow, barrier_wait=0)
    lookup.send((100, "a"))
    assert in_flight(lookup.snapshot()) == [(100, "a")]
    assert lookup.loop.now == 0


def test_result_of_a_cancelled_call_is_ignored(run):
    class Stubborn(Service):
        """Does not let itself be cancelled the first time."""

        async def async_invoke(self, value):
            try:
                return await super().async_invoke(value)
            except asyncio.CancelledError:
                await asyncio.sleep(5)
                return ["from a call that was given up"]

    service = Stubborn()
    lookup = run(service)
    lookup.send("a")
    lookup.snapshot()
    lookup.look()
    lookup.loop.now += 10
    assert lookup.look() == []
    service.answer("a")
    assert lookup.look() == ["re a"]


def test_timeout_restarts_with_the_repeated_call(run):
    slow = Slow()
    lookup = run(slow, timeout=50, barrier_wait=40)
    lookup.send((45, "a"))
    lookup.snapshot()
    assert lookup.finish()[:1] == ["a"]


def test_a_lower_capacity_after_a_restore_is_kept_to(run):
    slow = Slow()
    lookup = run(slow, barrier_wait=0, capacity=10)
    lookup.send(*((10, n) for n in range(10)))
    snapshot = lookup.snapshot()
    slow = Slow()
    lookup = run(slow, capacity=2, snapshots=[snapshot])
    assert lookup.finish()[:-1] == list(range(10))
    assert slow.most == 2


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3), (3, 2), (2, 2)])
def test_another_parallelism_deals_the_records_out(run, before, after):
    sent, snapshots = [], []
    for subtask in range(before):
        lookup = run(Slow(), barrier_wait=0, subtask=subtask, parallelism=before)
        values = [(5, (subtask, n)) for n in range(4)]
        lookup.send(*values)
        lookup.watermark(3)
        sent += [name for _, name in values]
        snapshots.append(lookup.snapshot())
    found = []
    for subtask in range(after):
        lookup = run(Slow(), subtask=subtask, parallelism=after, snapshots=snapshots)
        got = [each for each in lookup.finish() if each[0] != WM]
        assert got == sorted(got), "each former subtask's records stay in order"
        found += got
    assert sorted(found) == sorted(sent)


# Any latencies, any barriers, restores and changes of parallelism


@given(
    epochs=st.lists(
        st.tuples(
            st.lists(st.one_of(st.integers(0, 60), st.just(WM)), max_size=8),
            st.sampled_from(["go on", "restore", "crash"]),
        ),
        max_size=6,
    ),
    capacity=st.integers(1, 4),
    ordered=st.booleans(),
    wait=st.sampled_from([0, 5, 20]),
)
def test_every_record_gives_its_result_once(epochs, capacity, ordered, wait):
    options = {"capacity": capacity, "ordered": ordered, "barrier_wait": wait}
    lookup = Run(Slow(), **options)
    out, sent, time, committed = [], [], 0, []
    for steps, then in epochs:
        for attempt in range(2):
            if attempt == 1:
                if then != "crash":
                    break
                # The epoch is repeated from the last checkpoint; what it emitted does not count.
                lookup.harness.close()
                lookup = Run(Slow(), snapshots=committed, **options)
            fresh, moment = [], time
            lookup.harness.operator.advance_processing_time(0)
            for step in steps:
                if step == WM:
                    moment += 1
                    lookup.watermark(moment)
                    fresh.append((WM, moment))
                else:
                    fresh.append((moment, len(sent) + len(fresh)))
                    lookup.send((step, fresh[-1]))
            snapshot = lookup.snapshot()
            emitted = lookup.take()
        out += emitted
        sent += fresh
        time = moment
        committed = [snapshot]
        if then == "restore":
            lookup.harness.close()
            lookup = Run(Slow(), snapshots=committed, **options)
    out += lookup.finish()
    lookup.harness.close()
    assert out.pop()[0] == WM
    if ordered:
        assert out == sent
    else:
        assert sorted(map(repr, out)) == sorted(map(repr, sent))
        passed = 0
        for first, second in out:
            if first == WM:
                assert second == passed + 1
                passed = second
            else:
                assert first == passed, "between the watermarks where it came in"
