"""How many slots a job asks for in pipelined mode."""

from __future__ import annotations

import pytest

from penstock.common import Types
from penstock.connectors.spark.sink import SparkSink
from penstock.graph.settings import GraphSettings
from penstock.jobmanager.job_creation import create_job
from penstock.jobmanager.resources.demand import shared_demand, slot_demand
from tests.builders.environments import configured


@pytest.mark.parametrize(("sinks", "slots"), [(0, 1), (1, 2), (2, 2)])
def test_a_slot_is_left_for_the_spark_jobs_of_sinks(sinks: int, slots: int) -> None:
    env = configured({}, 1)
    numbers = env.from_collection([1, 2], Types.LONG()).map(lambda n: n, Types.LONG())
    numbers.print()
    for _ in range(sinks):
        numbers.sink_to(SparkSink(print))
    job = create_job(env._transformations, GraphSettings(), env.get_configuration(), "job")
    demand = slot_demand(job)
    assert (demand.slots, demand.preferred) == (slots, slots)
    assert shared_demand(job).slots == 0
