"""What is particular to one service."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigurationError, ConnectionFailedError
from penstock.jobmanager.high_availability.election import Candidate
from penstock.jobmanager.high_availability.services import HighAvailability
from penstock.jobmanager.high_availability.zookeeper_election import ZooKeeperElection
from penstock.options.configuration import Configuration
from tests.builders.contenders import Recorder
from tests.builders.fake_kubernetes import FakeKubernetes
from tests.builders.waiting import wait_until
from tests.connectors.conftest import serving
from tests.connectors.high_availability.conftest import lease
from tools.servers.process import free_port
from tools.servers.zookeeper import ZooKeeperServer


def services(**options: str) -> HighAvailability | None:
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    return HighAvailability.from_configuration(configuration)


def kubernetes_options(fake: FakeKubernetes, directory: Path) -> dict[str, str]:
    """Its leader loses leadership only if another one takes it: no renewal is that slow."""
    return {
        "high-availability.type": "kubernetes",
        "high-availability.storageDir": str(directory),
        "kubernetes.config.file": fake.write_config(directory / "kubeconfig"),
        **lease("100s", "90s", "100ms"),
    }


def test_a_lease_that_was_deleted_gives_no_smaller_tokens(
    kubernetes: FakeKubernetes, tmp_path: Path
) -> None:
    found = services(**kubernetes_options(kubernetes, tmp_path))
    assert found is not None
    election, contender = found.create_election(), Recorder()
    election.start(Candidate.here("127.0.0.1:1"), contender)
    wait_until(contender.leads.is_set)
    for key in list(kubernetes.leases):
        made = kubernetes.leases[key]["metadata"]["creationTimestamp"]
        wait_until(lambda made=made: _now() > made)  # the next one is made in another second
        del kubernetes.leases[key]
    wait_until(lambda: len(contender.tokens) == 2)
    election.close()
    assert contender.tokens[0] < contender.tokens[1]


def _now() -> str:
    import datetime as dt

    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_of_many_that_take_a_lease_at_once_the_api_server_refuses_all_but_one(
    kubernetes: FakeKubernetes, tmp_path: Path
) -> None:
    found = services(**kubernetes_options(kubernetes, tmp_path))
    assert found is not None
    contenders = [Recorder() for _ in range(6)]
    elections = [found.create_election() for _ in contenders]
    for number, (election, contender) in enumerate(zip(elections, contenders, strict=True)):
        election.start(Candidate.here(f"127.0.0.1:{number}"), contender)
    wait_until(lambda: any(contender.leads.is_set() for contender in contenders))
    assert sum(contender.leads.is_set() for contender in contenders) == 1
    (taken,) = kubernetes.leases.values()
    assert taken["spec"]["leaseTransitions"] == 1
    for election in elections:
        election.close()


@pytest.mark.parametrize("tolerates", [False, True])
def test_a_zookeeper_that_is_back_in_time_ends_a_leadership_only_if_that_is_not_tolerated(
    tolerates: bool,
) -> None:
    with serving(ZooKeeperServer) as server:
        election = ZooKeeperElection(
            server.quorum,
            "/penstock/x/leader",
            session_s=300,  # a third of it is longer than the server is away, on any machine
            tolerates_suspension=tolerates,
        )
        contender = Recorder()
        election.start(Candidate.here("127.0.0.1:1"), contender)
        wait_until(contender.leads.is_set)
        server.kill()
        if not tolerates:
            wait_until(lambda: not contender.leads.is_set())
        server.start()
        wait_until(lambda: election.token is not None and contender.leads.is_set())
        election.close()
    granted = contender.tokens
    assert len(set(granted)) == 1, "the session is the same, and so is its node"
    assert len(granted) == (1 if tolerates else 2)


def test_a_zookeeper_that_does_not_answer_is_named() -> None:
    election = ZooKeeperElection(f"127.0.0.1:{free_port()}", "/penstock/x/leader", session_s=0.2)
    with pytest.raises(ConnectionFailedError, match="ZooKeeper does not answer"):
        election.leader()
    election.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"high-availability.type": "storage"}, "storageDir is not set"),
        (
            {
                "high-availability.type": "storage",
                "high-availability.storageDir": "/x",
                "high-availability.cluster-id": "a/b",
            },
            "is not a valid directory name",
        ),
        (
            {"high-availability.type": "zookeeper", "high-availability.storageDir": "/x"},
            "zookeeper.quorum is not set",
        ),
        (
            {
                "high-availability.type": "kubernetes",
                "high-availability.storageDir": "/x",
                "kubernetes.config.file": "/no/such/file",
            },
            "there is no Kubernetes configuration",
        ),
        (
            {
                "high-availability.type": "kubernetes",
                "high-availability.storageDir": "/x",
                "high-availability.cluster-id": "Upper",
            },
            "is not a valid name of a Lease",
        ),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        services(**options).create_election()


def test_one_jobmanager_needs_no_service() -> None:
    assert services() is None
