"""Jobs on a real standalone cluster, on two addresses of this machine."""

from __future__ import annotations

import pytest
from crossing_run import FAILED, TIMEOUT_S
from network import Host
from standalone_cluster import StandaloneCluster

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


def test_a_pipelined_job_on_two_workers_survives_the_death_of_an_executor(tmp_path, start) -> None:
    """The workers have addresses of their own, and their slots listen there only."""
    here, there = Host("127.0.0.1"), Host("127.0.0.2")
    with StandaloneCluster(tmp_path / "cluster", here, [here, there]) as cluster:
        run = start(cluster, here)
        run.wait_for_checkpoints(3)
        assert run.listening() == [here.address, there.address]
        cluster.executors()[0].kill()
        run.until(lambda: FAILED in run.said())
        run.finish()
        assert run.listening() == [here.address, there.address]


@pytest.mark.parametrize("mode", ["pipelined", "epochs"])
def test_a_job_goes_on_when_its_master_was_killed_and_started_again(tmp_path, start, mode) -> None:
    """The new master does not know the application, and ends its executors."""
    here = Host("127.0.0.1")
    with StandaloneCluster(tmp_path / "cluster", here, [here, here]) as cluster:
        run = start(cluster, here, mode, held=True)
        run.wait_for_checkpoints(2)
        cluster.kill_master()
        cluster.start_master()
        run.until(lambda: "does not know this application" in run.said())
        run.wait_for_checkpoints(1)
        run.release()
        run.finish()


def test_a_job_waits_while_there_is_neither_a_master_nor_an_executor(tmp_path, start) -> None:
    here = Host("127.0.0.1")
    with StandaloneCluster(tmp_path / "cluster", here, [here, here]) as cluster:
        run = start(cluster, here, held=True)
        run.wait_for_checkpoints(2)
        cluster.kill_master()
        for executor in cluster.executors():
            executor.kill()
        run.until(lambda: "does not answer: restart it" in run.said())
        cluster.start_master()
        run.wait_for_checkpoints(1)
        run.release()
        run.finish()
        assert run.said().count("does not answer: restart it") == 1
