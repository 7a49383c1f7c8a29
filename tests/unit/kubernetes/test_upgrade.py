"""`penstock kubernetes upgrade`: savepoints first, then the image; against real servers in this process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.common.job_status import JobStatus
from penstock.errors import CheckpointError
from penstock.kubernetes.manifests import image_patch
from penstock.rest.routing.routes import Services
from penstock.rest.server.rest_server import RestServer
from tests.builders.fake_kubernetes import FakeKubernetes
from tests.builders.rest_fakes import NOW, FakeController

TOKEN = "secret"


@pytest.fixture
def kubernetes() -> Iterator[FakeKubernetes]:
    server = FakeKubernetes()
    yield server
    server.close()


@pytest.fixture
def jobs() -> list[FakeController]:
    return [FakeController("clicks"), FakeController("orders"), FakeController("old")]


@pytest.fixture
def command(kubernetes, jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)
    services = Services(now_ms=lambda: NOW)
    for job in jobs:
        services.jobs.publish(job)
    jobs[-1].status = JobStatus.FINISHED
    server = RestServer(services, TOKEN)
    server.start()
    yield [
        "kubernetes", "upgrade", "fraud", "--image", "r/f:2", "-n", "streams", "-m", server.client_address,
        "--savepoint-dir", "s3://b/sp", "--kubeconfig", kubernetes.write_config(tmp_path / "kubeconfig"),
    ]  # fmt: skip
    server.close()


def test_every_job_that_runs_gets_a_savepoint_and_then_the_image_is_changed(
    command, jobs, kubernetes, capsys
) -> None:
    assert main(command) == 0
    assert [job.calls for job in jobs] == [[("trigger_savepoint", "s3://b/sp")]] * 2 + [[]]
    path = "/apis/apps/v1/namespaces/streams/deployments/fraud"
    assert kubernetes.patches == [(path, image_patch("r/f:2"))]
    assert capsys.readouterr().out.endswith("fraud now runs r/f:2\n")


def test_without_all_savepoints_nothing_is_changed(command, jobs, kubernetes, capsys) -> None:
    refused: Future[str] = Future()
    refused.set_exception(CheckpointError("no room"))
    jobs[1].answers["trigger_savepoint"] = refused
    assert main(command) != 0
    assert kubernetes.patches == []
    assert "no room" in capsys.readouterr().err


def test_an_image_that_cannot_be_changed_is_reported(command, kubernetes, capsys) -> None:
    kubernetes.broken = True
    assert main(command) == 2
    assert "cannot change the image of Deployment 'fraud' in namespace 'streams'" in (
        capsys.readouterr().err
    )
