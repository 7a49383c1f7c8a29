"""Jobs on YARN, with checkpoints and output in HDFS: in client and in cluster mode, with killed containers and application masters."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crossing_run import ENVIRONMENT, FAILED, TIMEOUT_S, Run
from fault_harness import ROOT
from yarn import (
    EXECUTOR,
    OPTIONS,
    application_masters,
    container_logs,
    pack_environment,
    processes,
    run_program,
    submit_command,
    submit_environment,
)

from tests.builders.waiting import wait_until
from tools.servers.hadoop import HadoopCluster
from tools.servers.process import MissingServerError

FAILING = Path(__file__).parent / "jobs" / "failing.py"

pytestmark = [pytest.mark.full, pytest.mark.timeout(3 * TIMEOUT_S)]


@pytest.fixture(scope="module")
def hadoop() -> Iterator[HadoopCluster]:
    try:
        cluster = HadoopCluster()
    except MissingServerError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with cluster:
        yield cluster


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_environment(tmp_path_factory.mktemp("packed"))


@pytest.fixture(name="start")
def start_on_yarn(tmp_path: Path, hadoop: HadoopCluster) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def started(mode: str, settings: dict[str, str], **more: object) -> Run:
        name = f"run{len(runs)}"
        more.setdefault("environment", hadoop.environment)
        runs.append(
            Run(
                tmp_path / name,
                settings,
                mode,
                held=True,
                storage=hadoop.uri(f"{tmp_path.name}/{name}"),
                logs=lambda: container_logs(hadoop),
                **more,  # type: ignore[arg-type]
            )
        )
        return runs[-1]

    yield started
    for run in runs:
        run.kill()
    for process in [*processes(hadoop, EXECUTOR), *application_masters(hadoop)]:
        process.kill()


def outcome(hadoop: HadoopCluster) -> tuple[str, str]:
    """Return the state of the last application, and how it has ended."""
    last = hadoop.applications()[-1]
    return str(last["state"]), str(last["finalStatus"])


@pytest.mark.parametrize("mode", ["pipelined", "epochs"])
def test_a_job_in_client_mode_survives_its_containers_and_its_application_master(
    start: Callable[..., Run], hadoop: HadoopCluster, mode: str
) -> None:
    run = start(mode, OPTIONS)
    run.wait_for_checkpoints(3)
    processes(hadoop, EXECUTOR)[0].kill()
    if mode == "pipelined":
        run.until(lambda: FAILED in run.said())
    run.wait_for_checkpoints(2)
    (master,) = application_masters(hadoop)
    master.kill()
    run.until(lambda: any(other.pid != master.pid for other in application_masters(hadoop)))
    run.wait_for_checkpoints(2)
    run.release()
    run.finish()
    run.until(lambda: outcome(hadoop) == ("FINISHED", "SUCCEEDED"))


def test_a_job_in_cluster_mode_goes_on_in_the_next_application_master(
    start: Callable[..., Run], hadoop: HadoopCluster, archive: Path, tmp_path: Path
) -> None:
    """The program is in the application master. What it has done is found by its cluster id."""
    settings = {
        "high-availability.type": "storage",
        "high-availability.storageDir": hadoop.uri(f"{tmp_path.name}/ha"),
        "high-availability.cluster-id": "crossing",
    }
    names = {f"spark.yarn.appMasterEnv.{key}": value for key, value in ENVIRONMENT.items()}
    names |= {f"spark.executorEnv.{key}": value for key, value in ENVIRONMENT.items()}
    run = start(
        "pipelined",
        settings,
        before=submit_command(archive, {**names, "spark.yarn.maxAppAttempts": "2"}, "cluster"),
        python=(),
        environment=submit_environment(hadoop),
    )
    run.wait_for_checkpoints(3)
    processes(hadoop, EXECUTOR)[0].kill()
    run.until(lambda: FAILED in run.said())
    run.wait_for_checkpoints(2)
    (master,) = application_masters(hadoop)
    master.kill()
    run.until(lambda: any(other.pid != master.pid for other in application_masters(hadoop)))
    run.wait_for_checkpoints(2)
    run.release()
    run.finish()
    assert outcome(hadoop) == ("FINISHED", "SUCCEEDED")
    assert all(path.endswith("/env/bin/python") for path in run.interpreters())


@pytest.mark.parametrize("mode", ["penstock run", "python", "client", "cluster"])
def test_a_job_that_fails_has_failed_on_yarn(
    hadoop: HadoopCluster, archive: Path, mode: str
) -> None:
    environment = {**hadoop.environment, "PYTHONPATH": str(ROOT)}
    options = [f"{key}={value}" for key, value in OPTIONS.items()]
    if mode == "penstock run":
        given = [word for option in options for word in ("-D", option)]
        command = [sys.executable, "-m", "penstock", "run", *given, str(FAILING)]
    elif mode == "python":
        command = [sys.executable, str(FAILING), *options]
    else:
        once = {
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.appMasterEnv.PYTHONPATH": str(ROOT),
            "spark.executorEnv.PYTHONPATH": str(ROOT),
        }
        command = [*submit_command(archive, once, mode), str(FAILING)]
        environment |= submit_environment(hadoop)
    before = len(hadoop.applications())
    code, printed = run_program(command, environment)
    assert code == 1, printed
    assert len(hadoop.applications()) == before + 1, printed
    # In client mode the program ends before YARN has noted how its application ended.
    wait_until(lambda: outcome(hadoop)[0] in {"FINISHED", "FAILED"}, "the application to end")
    assert outcome(hadoop)[1] == "FAILED", printed
    if mode != "cluster":
        assert "ZeroDivisionError" in printed
