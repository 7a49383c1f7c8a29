"""Calls that are tried again, and calls about many records at once."""

from __future__ import annotations

import asyncio

import pytest

from penstock.datastream import AsyncFunction, AsyncRetryStrategy
from penstock.datastream.async_functions import AsyncBatchFunction
from penstock.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from penstock.errors.user_errors import UserCodeError
from tests.unit.runtime.operators.async_services import WM


class Flaky(AsyncFunction):
    """Gives the n-th of the prepared answers at the n-th call; an exception is raised. Notes the times."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.times = []

    async def async_invoke(self, value):
        self.times.append(round(asyncio.get_running_loop().time() * 1000))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def timeout(self, value):
        return ["late"]


def fixed(attempts, pause, result=empty_result_predicate, error=has_exception_predicate):
    return AsyncRetryStrategy.fixed_delay(attempts, pause, result, error)


@pytest.mark.parametrize(
    ("answers", "strategy", "expected", "times"),
    [
        pytest.param([["a"]], fixed(3, 10), ["a"], [0], id="a good answer"),
        pytest.param([[], [], ["a"]], fixed(3, 10), ["a"], [0, 10, 20], id="a result to retry"),
        pytest.param(
            [OSError(), [], ["a"]], fixed(3, 10), ["a"], [0, 10, 20], id="an error to retry"
        ),
        pytest.param([[], [], []], fixed(2, 10), [], [0, 10, 20], id="the last result counts"),
        pytest.param(
            [[]] * 5,
            AsyncRetryStrategy.exponential_backoff(4, 10, 35, 2.0, empty_result_predicate, None),
            [],
            [0, 10, 30, 65, 100],
            id="growing pauses with a limit",
        ),
        pytest.param([["a"]], fixed(1, 1, None, None), ["a"], [0], id="nothing is tried again"),
        pytest.param(
            [[], ["a"]], fixed(1, 100), ["late"], [0], id="the timeout counts pauses as well"
        ),
    ],
)
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_calls_are_tried_again_as_the_strategy_says(
    run, answers, strategy, expected, times, ordered
):
    flaky = Flaky(*answers)
    timeout = 50 if expected == ["late"] else 10_000
    lookup = run(flaky, ordered=ordered, timeout=timeout, retry_strategy=strategy)
    lookup.send("x")
    assert lookup.finish()[:-1] == expected
    assert flaky.times == times


@pytest.mark.parametrize(
    ("answers", "strategy", "message"),
    [
        pytest.param(
            [OSError("1"), OSError("2")], fixed(1, 5), "OSError: 2", id="no attempt is left"
        ),
        pytest.param(
            [KeyError("k")],
            fixed(5, 5, None, lambda error: exception_type_predicate(error, OSError)),
            "KeyError",
            id="an error of another type",
        ),
        pytest.param([OSError("1")], fixed(5, 5, len, None), "OSError: 1", id="only results"),
        pytest.param(
            [None], fixed(5, 5), "should be of list type", id="a result that is not a list"
        ),
        pytest.param(
            [[1]],
            fixed(5, 5, lambda results: 1 / 0, None),
            "ZeroDivisionError",
            id="a predicate that fails",
        ),
    ],
)
def test_error_without_retry_fails_the_job(run, answers, strategy, message):
    lookup = run(Flaky(*answers), timeout=10_000, retry_strategy=strategy)
    with pytest.raises(UserCodeError, match=message) as caught:
        lookup.all_of("x")
    assert "record 'x'" in caught.value.detail


def test_a_record_that_is_tried_again_keeps_its_place(run):
    class Second(AsyncFunction):
        def __init__(self):
            self.seen = set()

        async def async_invoke(self, value):
            fresh = value not in self.seen
            self.seen.add(value)
            return [] if fresh and value == "a" else [value]

    lookup = run(Second(), timeout=1000, retry_strategy=fixed(1, 10))
    lookup.send("a", "b", "c")
    assert lookup.finish()[:3] == ["a", "b", "c"]


# Calls about many records


class Bulk(AsyncBatchFunction):
    """Notes the batches; answers each value with [value], after its latency."""

    def __init__(self, latency=10):
        self.batches = []
        self.latency = latency

    async def async_invoke_batch(self, values):
        self.batches.append(list(values))
        await asyncio.sleep(self.latency / 1000)
        return [[value] for value in values]

    def timeout(self, value):
        return [f"no {value}"]


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize(
    ("capacity", "sizes", "millis"),
    [
        pytest.param(100, [4, 4, 2], 10, id="all at once"),
        pytest.param(8, [4, 4, 2], 20, id="two at a time"),
        pytest.param(3, [3, 3, 3, 1], 40, id="a capacity below the size of a batch"),
    ],
)
def test_a_batch_function_is_asked_about_many_records_in_one_call(
    run, capacity, sizes, millis, ordered
):
    bulk = Bulk()
    lookup = run(bulk, capacity=capacity, max_batch=4, ordered=ordered)
    lookup.send(*range(10))
    assert lookup.finish()[:-1] == list(range(10))
    assert [len(batch) for batch in bulk.batches] == sizes
    assert lookup.loop.now == pytest.approx(millis / 1000)


def test_batches_go_over_watermarks_and_results_do_not(run):
    bulk = Bulk()
    lookup = run(bulk, max_batch=8, capacity=8, ordered=False)
    lookup.send(1)
    lookup.watermark(5)
    lookup.send(2)
    lookup.watermark(6)
    assert lookup.take() == []
    assert lookup.finish()[:4] == [1, (WM, 5), 2, (WM, 6)]


def test_one_value_alone_can_be_asked_about():
    assert asyncio.run(Bulk(0).async_invoke(3)) == [3]


def test_only_the_records_without_a_good_answer_are_tried_again(run):
    class Halves(Bulk):
        async def async_invoke_batch(self, values):
            self.batches.append(list(values))
            if len(self.batches) == 1:
                raise OSError("busy")
            keep = set(values[: len(values) // 2 + 1])
            return [[value] if value in keep else [] for value in values]

    bulk = Halves()
    lookup = run(bulk, max_batch=5, timeout=10_000, retry_strategy=fixed(9, 1))
    lookup.send(*range(5))
    assert lookup.finish()[:-1] == list(range(5))
    assert bulk.batches == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [3, 4]]


def test_the_records_of_a_slow_batch_time_out_one_by_one(run):
    bulk = Bulk(latency=1000)
    lookup = run(bulk, max_batch=2, capacity=2, timeout=50)
    lookup.send("a", "b", "c")
    assert lookup.finish()[:3] == ["no a", "no b", "no c"]
    assert lookup.loop.now == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(None, "should be of list type, got None", id="nothing"),
        pytest.param([[1]], "returned 1 lists for 2 values", id="too few"),
        pytest.param([[1], 2], "should be of list type, got int", id="no list for one of them"),
        pytest.param([[1], None], "should be of list type, got None", id="nothing for one"),
        pytest.param(ValueError("bad"), "ValueError: bad", id="an exception"),
    ],
)
def test_a_batch_without_a_list_for_each_value_fails_the_job(run, answer, message):
    class Wrong(Bulk):
        async def async_invoke_batch(self, values):
            if isinstance(answer, Exception):
                raise answer
            return answer

    lookup = run(Wrong(), max_batch=2)
    with pytest.raises(UserCodeError, match=message) as caught:
        lookup.all_of("a", "b")
    assert "'b'" in caught.value.detail
