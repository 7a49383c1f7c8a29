"""What an asynchronous operator does with answers, capacity, watermarks and errors."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.datastream import AsyncFunction, OutputTag
from penstock.errors import UnsupportedOperationError
from penstock.errors.user_errors import UserCodeError
from penstock.state_descriptors.descriptors import ValueStateDescriptor
from tests.unit.runtime.operators.async_services import WM, NothingHappensError, Run, Service, Slow


def test_ordered_results_keep_the_order_of_the_input(run):
    service = Service()
    lookup = run(service)
    lookup.send("a", "b", "c")
    service.answer("c", "b")
    assert lookup.look() == []
    service.answer("a")
    assert lookup.look() == ["re a", "re b", "re c"]


def test_unordered_results_come_as_they_are_answered(run):
    service = Service()
    lookup = run(service, ordered=False)
    lookup.send("a", "b", "c")
    service.answer("c")
    assert lookup.look() == ["re c"]
    service.answer("b", "a")
    assert lookup.look() == ["re b", "re a"]


def test_calls_begin_when_a_record_comes(run):
    service = Service()
    lookup = run(service)
    lookup.send("a")
    assert service.asked == ["a"]
    lookup.send("b")
    assert service.asked == ["a", "b"]


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_a_watermark_waits_for_the_records_before_it(run, ordered):
    service = Service()
    lookup = run(service, ordered=ordered)
    lookup.watermark(1)
    lookup.send("a", "b")
    lookup.watermark(5)
    lookup.send("c")
    assert lookup.look() == [(WM, 1)]
    service.answer("c", "b")
    assert lookup.look() == ([] if ordered else ["re b"])
    service.answer("a")
    rest = ["re a"] if not ordered else ["re a", "re b"]
    assert lookup.look() == [*rest, (WM, 5), "re c"]


def test_a_change_of_the_status_waits_like_a_watermark(run):
    service = Service()
    lookup = run(service, ordered=False)
    lookup.send("a")
    lookup.harness.process_status(True)
    assert lookup.look() == []
    service.answer("a")
    assert lookup.look() == ["re a", ("idle", True)]


def test_results_have_the_timestamp_of_their_record(run):
    service = Service()
    lookup = run(service)
    lookup.send("a", timestamp=7)
    lookup.send("b", timestamp=9)
    lookup.send("c")
    service.give("a", ["x", "y"])
    service.give("b", [])
    service.give("c", ["z"])
    lookup.harness.operator.advance_processing_time(0)
    assert lookup.harness.output() == [("x", 7), ("y", 7), ("z", None)]


def test_results_with_a_tag_go_to_the_side_output(run):
    service = Service()
    lookup = run(service)
    lookup.send("a", timestamp=3)
    service.give("a", ["main", (OutputTag("misses"), "side"), (OutputTag("errors"), "bad")])
    lookup.harness.operator.advance_processing_time(0)
    assert lookup.harness.side_output("misses") == [("side", 3)]
    assert lookup.harness.side_output("errors") == [("bad", 3)]
    assert lookup.harness.output() == [("main", 3)]


def test_a_side_output_has_the_timestamp_of_the_record(run):
    service = Service()
    lookup = run(service)
    lookup.send("a", timestamp=3)
    service.give("a", [(OutputTag("misses"), "side")])
    lookup.harness.operator.advance_processing_time(0)
    assert lookup.harness.side_output("misses") == [("side", 3)]


def test_a_result_that_the_function_changes_afterwards_stays_as_it_was(run):
    class Reuses(AsyncFunction):
        def __init__(self):
            self.result = [{}]

        async def async_invoke(self, value):
            self.result[0]["value"] = value
            return self.result

    lookup = run(Reuses())
    lookup.send(1, 2)
    assert lookup.finish()[:2] == [{"value": 1}, {"value": 2}]


# Capacity


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_no_more_than_the_capacity_is_in_flight(run, ordered):
    slow = Slow()
    lookup = run(slow, ordered=ordered, capacity=3)
    lookup.send(*((10, n) for n in range(10)))
    assert sorted(lookup.finish()[:-1]) == list(range(10))
    assert slow.most == 3
    assert lookup.loop.now == pytest.approx(0.04)


def test_a_full_operator_waits_before_it_takes_more(run):
    service = Service()
    lookup = run(service, capacity=2)
    with pytest.raises(NothingHappensError):
        lookup.send("a", "b", "c")
    assert service.asked == ["a", "b"]


def test_ordered_results_that_wait_for_an_earlier_one_take_up_capacity(run):
    slow = Slow()
    lookup = run(slow, capacity=2)
    lookup.send((100, "a"), (1, "b"), (1, "c"), (1, "d"))
    assert slow.asked == ["a", "b", "c", "d"]
    lookup.finish()
    assert lookup.loop.now == pytest.approx(0.101)


def test_unordered_results_leave_room_at_once(run):
    slow = Slow()
    lookup = run(slow, capacity=2, ordered=False)
    lookup.send((100, "a"), (1, "b"), (1, "c"), (1, "d"))
    assert lookup.loop.now == pytest.approx(0.002)
    assert lookup.finish()[:4] == ["b", "c", "d", "a"]


# Timeouts


def test_the_fallback_takes_the_place_of_a_late_answer(run):
    slow = Slow()
    lookup = run(slow, timeout=50)
    lookup.send((10, "a"), (200, "b"), (49, "c"))
    assert lookup.finish()[:3] == ["a", "no b", "c"]
    assert lookup.loop.now == pytest.approx(0.05)
    assert slow.running == 0, "the late call is cancelled"


def test_each_call_has_its_own_timeout(run):
    slow = Slow()
    lookup = run(slow, timeout=50, capacity=1)
    lookup.send((40, "a"), (40, "b"), (60, "c"), (40, "d"))
    assert lookup.finish()[:4] == ["a", "b", "no c", "d"]
    assert lookup.loop.now == pytest.approx(0.17)


def test_without_a_timeout_an_answer_may_take_for_ever(run):
    lookup = run(Slow(), timeout=0)
    lookup.send((86_400_000, "a"))
    assert lookup.finish()[:1] == ["a"]


def test_a_timeout_fails_the_job_unless_the_function_has_a_fallback(run):
    lookup = run(Service(), timeout=50)
    lookup.send("a")
    with pytest.raises(UserCodeError, match="timed out") as caught:
        lookup.finish()
    assert "operator 'lookup'" in caught.value.detail
    assert "record 'a'" in caught.value.detail


def test_the_clock_of_a_timeout_stands_still_while_the_operator_does_not_wait(run):
    service = Service()
    lookup = run(service, timeout=50)
    lookup.send("a")
    lookup.loop.now += 1  # other operators work
    service.answer("a")
    assert lookup.finish()[:1] == ["re a"]


def test_a_timeout_goes_on_where_it_stood(run):
    class Short(Service):
        def timeout(self, value):
            return [f"no {value}"]

    lookup = run(Short(), timeout=50)
    lookup.send("a")
    lookup.loop.now += 1
    lookup.send("b")
    lookup.loop.now += 1
    assert lookup.finish()[:2] == ["no a", "no b"]
    assert lookup.loop.now == pytest.approx(2.05)


# Errors


@pytest.mark.parametrize("result", [None, 3, "text", (1,), {"a": 1}], ids=repr)
def test_a_result_must_be_a_list(run, result):
    service = Service()
    lookup = run(service)
    lookup.send("a")
    service.give("a", result)
    with pytest.raises(UserCodeError, match="should be of list type") as caught:
        lookup.look()
    assert ("got None" in str(caught.value)) == (result is None)
    assert "record 'a'" in caught.value.detail


def test_a_fallback_must_be_a_list_too(run):
    class Wrong(Service):
        def timeout(self, value):
            return None

    lookup = run(Wrong(), timeout=1)
    lookup.send("a")
    with pytest.raises(UserCodeError, match="should be of list type, got None"):
        lookup.finish()


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_an_exception_names_the_operator_and_the_record(run, ordered):
    service = Service()
    lookup = run(service, ordered=ordered)
    lookup.send("a", "b")
    service.fail("b", KeyError("gone"))
    with pytest.raises(UserCodeError, match="KeyError: 'gone'") as caught:
        lookup.look()
    assert caught.value.detail == "in operator 'lookup', subtask 1 of 1, record 'b'"
    assert isinstance(caught.value.__cause__, KeyError)
    lookup.harness.close()
    assert service.cancelled == ["a"]


def test_an_operator_that_failed_does_not_go_on(run):
    service = Service()
    lookup = run(service)
    lookup.send("a", "b")
    service.fail("a", ValueError("first"))
    for _ in range(2):
        with pytest.raises(UserCodeError, match="first"):
            lookup.send("c")


def test_a_call_that_cancels_itself_fails_the_job(run):
    service = Service()
    lookup = run(service)
    lookup.send("a")
    service._future("a").cancel()
    with pytest.raises(UserCodeError, match="CancelledError"):
        lookup.look()


# The user's function


class Lives(AsyncFunction):
    def __init__(self):
        self.steps = []

    async def async_invoke(self, value):
        return [value]


class AsyncLife(Lives):
    async def open(self, runtime_context):
        await asyncio.sleep(1)
        self.loop = asyncio.get_running_loop()
        self.background = asyncio.create_task(asyncio.sleep(10**6))
        self.steps.append(f"open {runtime_context.get_index_of_this_subtask()}")

    async def close(self):
        await asyncio.sleep(1)
        assert asyncio.get_running_loop() is self.loop
        assert not self.background.done()
        self.steps.append("close")


class PlainLife(Lives):
    def open(self, runtime_context):
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        self.steps.append(f"open {runtime_context.get_index_of_this_subtask()}")

    def close(self):
        self.steps.append("close")


@pytest.mark.parametrize("kind", [AsyncLife, PlainLife])
def test_open_and_close_may_be_coroutines(kind):
    function = kind()
    lookup = Run(function, timeout=0)
    lookup.send("a")
    assert lookup.finish()[:1] == ["a"]
    lookup.harness.close()
    assert function.steps == ["open 0", "close"]
    assert lookup.loop.is_closed()
    if kind is AsyncLife:
        assert function.background.cancelled()


def test_the_loop_is_closed_when_open_fails():
    class Broken(Lives):
        async def open(self, runtime_context):
            raise OSError("no network")

    loops = []

    def create():
        loops.append(lookup)
        return lookup.loop

    lookup = Run(Lives())
    operator = type(lookup.harness.operator)(lookup.harness.operator.spec, create)
    operator.spec = type(operator.spec)(Broken(), ordered=True, timeout=0)
    with pytest.raises(OSError, match="no network"):
        operator.open(lookup.harness.context)
    operator.close()
    assert loops[0].loop.is_closed()


def test_an_asynchronous_function_has_no_keyed_state(run):
    class Stateful(Lives):
        def open(self, runtime_context):
            runtime_context.get_state(ValueStateDescriptor("s", None))

    with pytest.raises(UnsupportedOperationError, match="keyed state is not supported"):
        run(Stateful())


# Order, for any latencies

ELEMENTS = st.lists(st.one_of(st.integers(0, 20), st.just(WM)), max_size=30)


@given(
    inputs=st.lists(ELEMENTS, max_size=4),
    capacity=st.integers(1, 5),
    ordered=st.booleans(),
    timeout=st.sampled_from([0, 5, 10**6]),
)
def test_nothing_is_lost_and_nothing_overtakes_a_watermark(inputs, capacity, ordered, timeout):
    slow = Slow()
    lookup = Run(slow, capacity=capacity, ordered=ordered, timeout=timeout)
    segments, time = [[]], 0
    out = []
    for batch in inputs:
        for step in batch:
            if step == WM:
                time += 1
                lookup.watermark(time)
                segments.append([])
            else:
                name = (time, len(segments[-1]))
                lookup.send((step, name))
                segments[-1].append((step, name))
        out += lookup.look()
    out += lookup.finish()
    assert slow.most <= capacity
    lookup.harness.close()
    emitted, found = [[]], 0
    for each in out:
        if each[0] == WM:
            found += 1
            emitted.append([])
        else:
            emitted[-1].append(each)
    assert found == time + 1, "all watermarks, and the last one"
    assert emitted.pop() == []
    for sent, got in zip(segments, emitted, strict=True):
        # A call that is exactly as long as its timeout may end either way.
        results = [
            {f"no {name}"}
            if 0 < timeout < step
            else {name, f"no {name}"}
            if step == timeout
            else {name}
            for step, name in sent
        ]
        if ordered:
            assert len(got) == len(sent)
            assert all(each in possible for each, possible in zip(got, results, strict=True))
        else:
            left = list(got)
            for possible in results:
                left.remove(next(each for each in left if each in possible))
            assert left == []
