"""Which way a job runs."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.graph.stage import ClusterCapacity
from penstock.jobmanager.modes import InsufficientSlotsError, check_capacity, prefers_pipelined


@pytest.mark.parametrize(
    ("mode", "batch", "bounded", "stays"),
    [
        pytest.param("auto", False, False, True, id="an unbounded job"),
        pytest.param("auto", False, True, False, id="a bounded job"),
        pytest.param("auto", True, True, False, id="a batch job"),
        pytest.param("pipelined", False, True, True, id="a bounded job that is to"),
        pytest.param("epochs", False, False, False, id="an unbounded job that is not to"),
        pytest.param("epochs", True, True, False, id="a batch job that is not to"),
    ],
)
def test_whether_a_job_runs_pipelined(mode, batch, bounded, stays):
    assert prefers_pipelined(mode, batch=batch, bounded=bounded) == stays


def test_a_batch_job_is_never_pipelined():
    with pytest.raises(ConfigurationError, match="BATCH") as error:
        prefers_pipelined("pipelined", batch=True, bounded=True)
    assert "STREAMING" in error.value.hint


@pytest.mark.parametrize("slots", [2, 3, None])
def test_there_is_room_if_there_is_a_core_for_each_slot(slots):
    check_capacity(2, ClusterCapacity(slots))


def test_too_few_cores_are_reported_with_the_numbers():
    with pytest.raises(
        InsufficientSlotsError, match="needs 3 slots to run in pipelined mode, but Spark has 2"
    ) as error:
        check_capacity(3, ClusterCapacity(2))
    assert "give Spark 3 cores" in error.value.hint


def test_an_obstacle_is_reported():
    with pytest.raises(InsufficientSlotsError, match="dynamic allocation is on"):
        check_capacity(1, ClusterCapacity(None, "Spark's dynamic allocation is on"))
