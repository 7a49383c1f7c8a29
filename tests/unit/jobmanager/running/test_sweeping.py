"""What failed attempts left is deleted only while no task is at work."""

from __future__ import annotations

import pytest

from penstock.checkpoint.manifest_store import ManifestStore
from penstock.checkpoint.messages import NotifyCheckpointComplete
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.jobmanager.running.checkpoints import Checkpoints
from tests.unit.jobmanager.running.two_drivers import World, tiny_job


class AfterAnother(ManifestStore):
    """Storage of a job that another driver may still hold until the first checkpoint."""

    contested = True


@pytest.mark.parametrize("pipelined", [False, True])
def test_after_a_contested_start_the_sweep_waits_for_a_checkpoint_and_for_tasks_that_end(
    pipelined, tmp_path
):
    world = World(tmp_path)
    store = AfterAnother(CheckpointFileSystem(str(tmp_path), sync=False), "job")
    checkpoints = Checkpoints(tiny_job(world), store, lambda number: None, pipelined=pipelined)
    checkpoints.restore(None)
    world.staged.add("output that no checkpoint names yet")
    store.contested = False
    checkpoints._completed(NotifyCheckpointComplete(1))
    assert bool(world.staged) is pipelined
