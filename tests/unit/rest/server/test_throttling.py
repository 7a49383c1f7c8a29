"""What answering may take of a processor."""

from __future__ import annotations

import asyncio

import pytest

from penstock.rest.messages import HttpError
from penstock.rest.server.limits import RequestLimits
from penstock.rest.server.throttling import ProcessorBudget, RequestThrottle


def test_a_burst_passes_at_once_and_then_the_share_decides():
    budget = ProcessorBudget(share=0.1, burst_s=2.0)
    assert budget.wait_s(now=0) == 0
    budget.take(2.0)
    assert budget.wait_s(now=0) == 0
    budget.take(0.05)
    assert budget.wait_s(now=0) == pytest.approx(0.5)
    assert budget.wait_s(now=0.5) == 0


def test_in_the_long_term_no_more_than_the_share_is_taken():
    budget, now, taken = ProcessorBudget(share=0.1, burst_s=2.0), 0.0, 0.0
    while now < 1000:
        wait = budget.wait_s(now)
        if wait:
            now += wait
        else:
            budget.take(0.003)
            taken += 0.003
            now += 0.003
    assert taken <= 1000 * 0.1 + 2.0 + 0.01


def test_a_rest_gives_no_more_than_a_burst():
    budget = ProcessorBudget(share=0.1, burst_s=2.0)
    budget.wait_s(now=0)
    budget.wait_s(now=1_000_000)
    budget.take(2.1)
    assert budget.wait_s(now=1_000_000) > 0


def test_one_request_that_takes_long_does_not_keep_others_waiting_for_long():
    budget = ProcessorBudget(share=0.05, burst_s=2.0)
    budget.wait_s(now=0)
    budget.take(60)
    assert budget.wait_s(now=0) == pytest.approx(2.0)


def test_a_clock_that_goes_back_gives_nothing():
    budget = ProcessorBudget(share=0.1, burst_s=1.0)
    budget.wait_s(now=100)
    budget.take(1.1)
    assert budget.wait_s(now=50) > 0


def test_requests_pass_in_the_order_of_coming():
    passed = []

    async def go(throttle, number):
        await throttle.pass_through()
        passed.append(number)
        throttle.budget.take(0.2)

    async def run():
        now = [0.0]

        async def sleep(seconds):
            now[0] += seconds
            await asyncio.sleep(0)

        throttle = RequestThrottle(
            RequestLimits(processor_share=0.5, burst_s=0.3), clock=lambda: now[0], sleep=sleep
        )
        await asyncio.gather(*(go(throttle, number) for number in range(20)))

    asyncio.run(run())
    assert passed == list(range(20))


def test_who_would_have_to_wait_behind_too_many_is_sent_away():
    async def run():
        throttle = RequestThrottle(RequestLimits(waiting=2, processor_share=0.5, burst_s=0.0))
        throttle.budget.take(1.0)
        waiting = [asyncio.create_task(throttle.pass_through()) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(HttpError) as raised:
            await throttle.pass_through()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        throttle.budget = ProcessorBudget(1.0, 1.0)
        await throttle.pass_through()  # they have left
        return raised.value

    error = asyncio.run(run())
    assert (error.status, error.headers["Retry-After"]) == (429, "5")
