"""The three services that elect leaders: a directory, a real ZooKeeper, and an API server of Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.jobmanager.high_availability.election import LeaderElection
from penstock.jobmanager.high_availability.services import HighAvailability
from penstock.options.configuration import Configuration
from tests.builders.fake_kubernetes import FakeKubernetes
from tests.connectors.conftest import serving
from tools.servers.zookeeper import ZooKeeperServer

KINDS = ("storage", "zookeeper", "kubernetes")


@dataclass
class Service:
    """A service that elects, and how it goes away and comes back.

    Its leaders have time enough not to lose their places on a busy machine; with `soon` another one leads a second after the last sign of life.
    """

    options: dict[str, str]
    soon: dict[str, str]
    go_away: Callable[[], object]
    come_back: Callable[[], object]

    def election(self, **more: str) -> LeaderElection:
        return election({**self.options, **more})


def election(options: dict[str, str]) -> LeaderElection:
    """Return the election that options of a configuration name."""
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    found = HighAvailability.from_configuration(configuration)
    assert found is not None
    return found.create_election()


def lease(duration: str, deadline: str, retry: str) -> dict[str, str]:
    """Return the options of a Lease of Kubernetes."""
    prefix = "high-availability.kubernetes.leader-election."
    return {
        prefix + "lease-duration": duration,
        prefix + "renew-deadline": deadline,
        prefix + "retry-period": retry,
    }


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[ZooKeeperServer]:
    with serving(ZooKeeperServer) as server:
        yield server


@pytest.fixture
def kubernetes() -> Iterator[FakeKubernetes]:
    server = FakeKubernetes()
    yield server
    server.close()


@pytest.fixture(params=KINDS)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Service:
    """One of the three."""
    options = {
        "high-availability.type": request.param,
        "high-availability.storageDir": str(tmp_path / "shared"),
        "high-availability.cluster-id": tmp_path.name.lower().replace("_", "-")[:40].strip("-"),
    }
    if request.param == "storage":
        shared, gone = tmp_path / "shared", tmp_path / "gone"

        def go_away() -> None:
            shared.rename(gone)
            shared.write_text("this is not a directory")

        def come_back() -> None:
            shared.unlink()
            gone.rename(shared)

        lasts = "penstock.high-availability.storage.lease-duration"
        return Service({**options, lasts: "3s"}, {lasts: "1s"}, go_away, come_back)
    if request.param == "zookeeper":
        server = request.getfixturevalue("zookeeper")
        options["high-availability.zookeeper.quorum"] = server.quorum
        lasts = "high-availability.zookeeper.client.session-timeout"
        return Service({**options, lasts: "20s"}, {lasts: "1s"}, server.kill, server.start)
    fake: FakeKubernetes = request.getfixturevalue("kubernetes")
    options["kubernetes.config.file"] = fake.write_config(tmp_path / "kubeconfig")
    return Service(
        {**options, **lease("4s", "3s", "150ms")},
        lease("1s", "700ms", "150ms"),
        lambda: setattr(fake, "broken", True),
        lambda: setattr(fake, "broken", False),
    )
