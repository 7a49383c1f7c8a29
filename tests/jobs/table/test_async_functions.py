"""Asynchronous scalar functions: how many calls run at once, how long, and how often (`table.exec.async-scalar.*`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.udf import udf
from penstock.testing import MiniCluster
from tests.builders.tables import rows

CALLS: list[int] = []
RUNNING: list[int] = []
MOST: list[int] = []


@pytest.fixture(autouse=True)
def in_this_process() -> Iterator[None]:
    for each in (CALLS, RUNNING, MOST):
        each.clear()
    with MiniCluster():
        yield


async def fails_twice(number: int) -> int:
    CALLS.append(number)
    if CALLS.count(number) <= 2:
        raise ValueError("the service is away")
    return number * 10


async def waits_for_ever(number: int) -> int:
    CALLS.append(number)
    await asyncio.Event().wait()
    return number


async def counts_the_others(number: int) -> int:
    RUNNING.append(number)
    MOST.append(len(RUNNING))
    for _ in range(20):
        await asyncio.sleep(0)
    RUNNING.remove(number)
    return number


def asked(function: Any, options: dict[str, str], numbers: int = 3) -> list[tuple[Any, ...]]:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", "1")
    for key, value in options.items():
        env.get_config().set(f"table.exec.async-scalar.{key}", value)
    env.create_temporary_function("f", udf(function, result_type=DataTypes.INT()))
    values = ", ".join(f"({number})" for number in range(numbers))
    return rows(env.sql_query(f"SELECT f(n) FROM (VALUES {values}) AS t(n)"))


def test_a_call_that_fails_is_made_again() -> None:
    assert asked(fails_twice, {"retry-delay": "1 ms"}) == [(0,), (10,), (20,)]
    assert sorted(CALLS) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("options", "calls"),
    [({"max-attempts": "1", "retry-delay": "1 ms"}, 2), ({"retry-strategy": "NO_RETRY"}, 1)],
)
def test_a_call_that_fails_too_often_fails_the_job(options: dict[str, str], calls: int) -> None:
    with pytest.raises(Exception, match="the service is away"):
        asked(fails_twice, options, numbers=1)
    assert [0] * calls == CALLS


def test_a_call_without_a_result_fails_after_the_timeout() -> None:
    with pytest.raises(Exception, match=r"async-scalar\.timeout"):
        asked(waits_for_ever, {"timeout": "50 ms"}, numbers=1)
    assert CALLS == [0]  # the timeout is that of all attempts


@pytest.mark.parametrize("key", ["max-concurrent-operations", "buffer-capacity"])
def test_calls_run_concurrently_up_to_the_capacity(key: str) -> None:
    assert len(asked(counts_the_others, {key: "3"}, numbers=20)) == 20
    assert max(MOST) == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max-concurrent-operations", "0"),
        ("buffer-capacity", "none"),
        ("retry-strategy", "SOMETIMES"),
        ("max-attempts", "-1"),
        ("timeout", "soon"),
    ],
)
def test_values_that_mean_nothing_are_refused(key: str, value: str) -> None:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    with pytest.raises(ConfigurationError, match=key):
        env.get_config().set(f"table.exec.async-scalar.{key}", value)
