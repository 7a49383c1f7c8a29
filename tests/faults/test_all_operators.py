"""All operators at once on Spark: the programs of `jobs/zoo.py` are one job, and its Python workers are killed."""

from __future__ import annotations

import random
from pathlib import Path

from fault_harness import LedgerRun, judge
from fault_log import KillLog

import zoo  # isort: skip - fault_harness puts the jobs' folder on the path
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.mini_cluster import MiniCluster

WORKER_KILLS = 6


class ZooRun(LedgerRun):
    """A run of all programs as one job on Spark."""

    script = Path(zoo.__file__)
    job_id = zoo.JOB_ID
    sinks = ("results",)


def undisturbed() -> list[str]:
    """The output of a run in this process that nothing happens to."""
    options = Configuration.from_dict({"execution.checkpointing.interval": "1 ms"})
    env = StreamExecutionEnvironment.get_execution_environment(options)
    env.set_parallelism(zoo.PARALLELISM)
    with MiniCluster(), zoo.all_together(env).execute_and_collect() as found:
        return sorted(f"{line}\n" for line in found)


def test_all_operators_at_once_survive_that_python_workers_are_killed(
    tmp_path: Path, kill_log: KillLog, rng: random.Random, seed: str
) -> None:
    expected = {"results": undisturbed()}
    job = ZooRun(tmp_path / "run", kill_log)
    try:
        job.start()
        killed = 0
        while killed < WORKER_KILLS and job.wait_for_epochs(1):
            job.pause(rng.uniform(0, 0.3))
            if victims := job.workers():
                killed += job.kill("worker", rng.choice(victims))
        assert job.wait() == 0, job.story()
        judge(job, expected, seed)
    finally:
        job.leftovers(patience_s=0)
    assert killed == WORKER_KILLS, f"only {killed} kills, seed {seed}"
