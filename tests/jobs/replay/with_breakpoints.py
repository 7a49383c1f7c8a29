"""Programs that stop in the debugger by themselves."""

from __future__ import annotations

from tests.jobs.replay.failing_jobs import BAD, check
from tests.jobs.replay.programs import read


def look_twice(value):
    """Stop at two records of one batch: an interval may end between two batches."""
    if value[1] in {BAD - 1, BAD} and value[0].startswith("0-"):
        breakpoint()  # noqa: T100 - what is tested
    return value


def price(value):
    amount = check(value)
    return value[0], amount


def before_the_failure(env):
    return read(env).map(look_twice).map(price)


def before_an_exchange(env):
    return read(env).map(look_twice).rebalance().map(price)
