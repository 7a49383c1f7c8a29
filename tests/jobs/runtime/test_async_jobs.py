"""Whole jobs with records in flight at their barriers: in many epochs, with crashes, at another parallelism."""

from __future__ import annotations

import asyncio

import pytest

from penstock.common import Time
from penstock.datastream import AsyncDataStream, AsyncFunction
from penstock.errors import JobExecutionError
from penstock.testing.faults import StepFault, protocol_faults
from tests.builders.environments import configured
from tests.builders.scripted import LOG, MONOTONOUS, _empty_log, environment, read  # noqa: F401

WAITS = {
    "ordered": AsyncDataStream.ordered_wait,
    "unordered": AsyncDataStream.unordered_wait,
}
BATCHES = [[(n, n), (n + 1, n + 1)] for n in range(0, 10, 2)]


pytestmark = pytest.mark.usefixtures("cluster")


class SecondTime(AsyncFunction):
    """Answers the second question about a value, so that every value is in flight at a barrier."""

    barrier_wait_millis = 0

    async def async_invoke(self, value):
        LOG(("asked", value))
        if LOG.counts()["asked", value] == 1:
            await asyncio.get_running_loop().create_future()
        return [value]


def asked():
    return [value for what, value in LOG.lines if what == "asked"]


def emitted():
    return [value for what, value in LOG.lines if what == "out"]


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "not keyed"])
@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    "fault",
    [None, StepFault("before write_manifest", 3), StepFault("after write_manifest", 3)],
    ids=["no crash", "a crash before a checkpoint", "a crash after a checkpoint"],
)
def test_records_in_flight_at_every_barrier_give_their_results_once(
    wait, parallelism, keyed, fault, cluster
):
    env = environment(parallelism, checkpoints=10)
    stream = read(env, BATCHES, strategy=MONOTONOUS)
    stream = stream.key_by(lambda n: n % 3) if keyed else stream.rebalance()
    with protocol_faults(*([] if fault is None else [fault])) as faults:
        found = list(wait(stream, SecondTime(), Time.seconds(60)).execute_and_collect())
    assert sorted(found) == list(range(10))
    if wait is AsyncDataStream.ordered_wait and parallelism == 1:
        assert found == list(range(10))
    assert all(asked().count(n) >= 2 for n in range(10))
    assert cluster.masters[0].restarts == len(faults.struck) == (fault is not None)


JOB_ID = "0123456789abcdef0123456789abcdef"


def run_job(directory, parallelism, wait, *, stops_after=None):
    """Run a job from its last checkpoint, to its end or until some epochs are complete."""
    options = {
        "execution.checkpointing.interval": "15 ms",
        "execution.checkpointing.dir": f"{directory}",
        "penstock.job-id": JOB_ID,
        "restart-strategy.type": "none",
    }
    env = configured(options)
    source = read(env, BATCHES, strategy=MONOTONOUS).uid("in")
    looked_up = wait(source.rebalance(), SecondTime(), Time.seconds(60))
    looked_up.uid("lookup").set_parallelism(parallelism)
    looked_up.add_sink(lambda value: LOG(("out", value))).uid("out").set_parallelism(parallelism)
    if stops_after is None:
        env.execute("lookups")
        return
    # The epochs so far are complete: what they emitted counts.
    with (
        protocol_faults(StepFault("after write_manifest", stops_after)),
        pytest.raises(JobExecutionError),
    ):
        env.execute("lookups")


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("steps", [(1, 1), (1, 3), (3, 1), (2, 3, 1)], ids=str)
def test_a_job_is_resumed_with_records_in_flight_at_another_parallelism(tmp_path, wait, steps):
    for parallelism in steps[:-1]:
        run_job(tmp_path, parallelism, wait, stops_after=1)
        assert len(asked()) > len(emitted()), "something is in flight"
    run_job(tmp_path, steps[-1], wait)
    assert sorted(emitted()) == list(range(10))


def test_records_in_flight_get_an_epoch_of_their_own():
    """Nothing else wakes the job up: there is no more input, and the input does not end."""
    env = environment(1, checkpoints=10)
    stream = read(env, [[1, 2]], bounded=False).rebalance()
    looked_up = AsyncDataStream.ordered_wait(stream, SecondTime(), Time.seconds(60))
    assert looked_up.execute_and_collect(limit=2) == [1, 2]
    assert asked() == [1, 2, 1, 2]
