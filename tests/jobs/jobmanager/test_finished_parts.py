"""Checkpoints after parts of a pipelined job have finished: they are part of them, and do not run again after a restart."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from penstock.common import JobStatus, WatermarkStrategy
from penstock.datastream import MapFunction
from penstock.testing import MiniCluster
from tests.builders.counting_job import KEYS, Slowly, Total, environment
from tests.builders.steps import before_each_trigger

FEW = [-5, -10, -15]  # all of one key
TO_FAIL: list[str] = []  # told to the tasks, which are threads of this process
READ: list[Any] = []


class Noted(MapFunction):
    def map(self, value: Any) -> Any:
        READ.append(value)
        return value


class FailsWhenTold(MapFunction):
    def map(self, value: Any) -> Any:
        if TO_FAIL:
            TO_FAIL.clear()
            raise ValueError("told to fail")
        return value


@pytest.mark.parametrize("joined", [True, False], ids=["one region", "two regions"])
@pytest.mark.parametrize("request_", ["fail", "rescale", "savepoint"])
def test_what_has_finished_stays_finished(joined, request_, tmp_path):
    TO_FAIL.clear()
    READ.clear()
    env = environment(
        2,
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__attempts="10",
        restart_strategy__fixed_delay__delay="0 s",
        execution__checkpointing__interval="10 ms",
    )
    few = env.from_collection(FEW).map(Noted())
    many = env.from_source(Slowly(), WatermarkStrategy.for_monotonous_timestamps(), "numbers").uid(
        "numbers"
    )
    if joined:
        many = many.union(few)
    else:
        few.print()
    stream = many.key_by(lambda number: number % KEYS).process(Total()).map(FailsWhenTold())
    asked: list[int] = []  # at which checkpoints: for what is tested, then for the end

    def before(number: int) -> None:
        master = cluster.masters[0]
        if not asked and number >= 4 and len(READ) == len(FEW):
            asked.append(number)
            if request_ == "fail":
                TO_FAIL.append("now")
            elif request_ == "rescale":
                master.request_rescale(3)
            else:
                master.request_savepoint(str(tmp_path))
        elif len(asked) == 1 and number >= asked[0] + 5:
            asked.append(number)
            master.request_savepoint(str(tmp_path), stops=True, drains=True)

    with MiniCluster(mode="pipelined") as cluster, before_each_trigger(before):
        found = Counter(stream.execute_and_collect())
    (master,) = cluster.masters
    assert master.status is JobStatus.FINISHED
    assert master.restarts == (1 if request_ == "fail" else 0)
    assert sorted(READ) == sorted(FEW)
    count = sum(found.values()) - (len(FEW) if joined else 0)
    sums: Counter[int] = Counter()
    for number in [*range(count), *(FEW if joined else [])]:
        sums[number % KEYS] += number
    last = {key: max(total for each, total in found if each == key) for key in range(KEYS)}
    assert last == sums
    assert max(found.values()) == 1 or joined  # totals grow, but for what the few subtract
