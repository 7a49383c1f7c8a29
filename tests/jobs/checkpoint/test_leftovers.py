"""What killed drivers leave of checkpoints is tidied up by the job that goes on."""

from __future__ import annotations

from penstock.testing import MiniCluster
from tests.builders.checkpoint_builders import lay_out
from tests.builders.environments import configured


def run(directory, **options):
    settings = {
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": str(directory),
        **options,
    }
    env = configured(settings)
    with MiniCluster(), env.from_collection(range(100)).execute_and_collect() as found:
        return list(found)


def test_a_job_that_is_started_again_tidies_up(tmp_path):
    run(tmp_path)
    (job,) = tmp_path.iterdir()
    (newest,) = job.glob("chk-*")
    lay_out(job, "chk-0/", f"{newest.name}0/")
    run(tmp_path, **{"execution.state-recovery.path": str(job)})
    assert list(job.glob("chk-*")) == [newest]
