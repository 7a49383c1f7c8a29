"""All operators at once on Spark: the programs of `jobs/zoo.py` are one job, and its Python workers are killed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fault_harness import LedgerRun, judge
from fault_log import KillLog

import zoo  # isort: skip - fault_harness puts the jobs' folder on the path
from zoo_inputs import next_turn, splits_of  # isort: skip
from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing import MiniCluster
from tests.builders.modes import PIPELINED, WAYS, Way

WORKER_KILLS = 6


class ZooRun(LedgerRun):
    """A run of all programs as one job on Spark."""

    script = Path(zoo.__file__)
    job_id = zoo.JOB_ID
    sinks = ("results",)

    @property
    def turns(self) -> Path:
        return self.directory / "turns"

    def allow(self, batches: int) -> None:
        """Let the job read so many batches of each split, one in an epoch."""
        self.directory.mkdir(parents=True, exist_ok=True)
        hidden = self.turns.with_suffix(".tmp")
        hidden.write_text(str(batches))
        hidden.replace(self.turns)

    def turn(self) -> int:
        """How many turns a checkpoint has."""
        store = ManifestStore(CheckpointFileSystem(str(self.checkpoints.parent)), self.job_id)
        manifest = store.latest() if self.checkpoint_id() else None
        return 0 if manifest is None else next_turn(splits_of(manifest)) or 0

    def go_through_turns(self, number: int) -> None:
        """Allow one batch after another, from this one on, until the job has ended."""
        while self.is_running:
            self.allow(number + 1)
            self.wait_until(lambda turn=number: self.turn() > turn)
            number += 1

    def kill_one(self, rng: random.Random) -> bool:
        """Kill a worker; False if there is none."""
        victims = self.workers()
        return bool(victims) and self.kill("worker", rng.choice(victims))


def undisturbed() -> list[str]:
    """The output of a run in this process that nothing happens to."""
    options = Configuration.from_dict({"execution.checkpointing.interval": "1 ms"})
    env = StreamExecutionEnvironment.get_execution_environment(options)
    env.set_parallelism(zoo.PARALLELISM)
    with MiniCluster(), zoo.all_together(env).execute_and_collect() as found:
        return sorted(f"{line}\n" for line in found)


@pytest.mark.parametrize("way", [WAYS[0], Way(PIPELINED, "hashmap")], ids=str)
def test_all_operators_at_once_survive_that_python_workers_are_killed(
    way: Way, tmp_path: Path, kill_log: KillLog, rng: random.Random, seed: str
) -> None:
    expected = {"results": undisturbed()}
    job = ZooRun(tmp_path / "run", kill_log, way=way)
    try:
        job.allow(0)
        job.start()
        for number in range(WORKER_KILLS):
            job.allow(number + 1)
            job.pause(rng.uniform(0, 0.3))
            assert job.wait_until(lambda: job.kill_one(rng)), job.story()
            assert job.wait_until(lambda number=number: job.turn() > number), job.story()
        if way.pipelined:  # turn by turn, as what the elements see of time depends on it
            job.go_through_turns(WORKER_KILLS)
        job.turns.unlink()
        assert job.wait() == 0, job.story()
        judge(job, expected, seed)
    finally:
        job.leftovers(timeout_s=0)
