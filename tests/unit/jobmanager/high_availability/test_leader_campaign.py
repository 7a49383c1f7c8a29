"""A process as a candidate: what it tells clients, what it stops, and the ids of its jobs."""

from __future__ import annotations

import threading
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import ConnectionFailedError
from penstock.jobmanager.high_availability import leader_campaign as campaigns
from penstock.jobmanager.high_availability import storage_election
from penstock.jobmanager.high_availability.election import Candidate, LeaderContender
from penstock.jobmanager.high_availability.leader_campaign import LeaderCampaign
from penstock.jobmanager.high_availability.services import HighAvailability
from penstock.options.configuration import Configuration
from tests.builders.waiting import wait_until


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HighAvailability:
    # A lease that no test loses on a busy machine; candidates look 20 times a second whether it is free.
    monkeypatch.setattr(storage_election, "_BEATS", 36_000)
    configuration = Configuration()
    configuration.set_string("high-availability.type", "storage")
    configuration.set_string("high-availability.storageDir", str(tmp_path))
    configuration.set_string("penstock.high-availability.storage.lease-duration", "1 h")
    found = HighAvailability.from_configuration(configuration)
    assert found is not None
    return found


@pytest.fixture
def pair(services: HighAvailability) -> Iterator[tuple[LeaderCampaign, LeaderCampaign]]:
    """A leader and a standby."""
    leader, standby = LeaderCampaign(services), LeaderCampaign(services)
    leader.start("127.0.0.1:1")
    wait_until(lambda: leader.leads)
    standby.start("127.0.0.1:2")
    yield leader, standby
    leader.close()
    standby.close()


def test_a_standby_tells_where_the_leader_is_and_a_leader_answers_itself(pair) -> None:
    leader, standby = pair
    assert leader.elsewhere() is None
    wait_until(lambda: standby.elsewhere() == "127.0.0.1:1")
    leader.close()
    assert leader.elsewhere() is not None
    wait_until(lambda: standby.elsewhere() is None)
    wait_until(lambda: leader.elsewhere() == "127.0.0.1:2")


def test_without_a_leader_no_address_is_returned(services: HighAvailability) -> None:
    assert LeaderCampaign(services).elsewhere() == ""


def test_a_leader_that_is_still_taking_up_its_jobs_does_not_answer_for_them(services) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def take_up(_token: int) -> None:
        entered.set()
        go_on.wait(60)

    campaign = LeaderCampaign(services, on_granted=take_up)
    campaign.start("127.0.0.1:1")
    assert entered.wait(60)
    assert not campaign.leads
    assert campaign.elsewhere() == ""
    go_on.set()
    wait_until(lambda: campaign.leads)
    campaign.close()


class Election:
    """An election that a test decides."""

    def __init__(self) -> None:
        self.token: int | None = None
        self.found: Candidate | None = None
        self.looks = 0

    def start(self, candidate: Candidate, contender: LeaderContender) -> None:
        self.contender = contender

    def leader(self) -> Candidate | None:
        self.looks += 1
        if self.found is None:
            raise ConnectionFailedError("no server answers")
        return self.found


@pytest.fixture
def election(monkeypatch: pytest.MonkeyPatch) -> Election:
    election = Election()
    monkeypatch.setattr(HighAvailability, "create_election", lambda _: election)
    return election


def test_a_leader_whose_time_is_over_does_not_answer_before_it_is_notified(
    services, election
) -> None:
    campaign = LeaderCampaign(services)
    campaign.start("127.0.0.1:1")
    election.token = 3
    election.contender.on_granted(3)
    assert campaign.leads
    assert campaign.elsewhere() is None
    election.token = None
    assert not campaign.leads
    assert campaign.elsewhere() == ""


def test_a_leader_that_was_not_heard_of_for_long_is_not_named(
    services, election, monkeypatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(campaigns, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    campaign = LeaderCampaign(services)
    campaign.start("127.0.0.1:1")
    election.found = Candidate("b", "127.0.0.1:2")
    wait_until(lambda: campaign.elsewhere() == "127.0.0.1:2")
    election.found = None
    now[0] += 4.9
    assert campaign.elsewhere() == "127.0.0.1:2"
    now[0] += 0.2
    assert campaign.elsewhere() == ""


def test_a_process_that_does_not_lead_does_not_send_clients_to_itself(services, election) -> None:
    campaign = LeaderCampaign(services)
    campaign.start("127.0.0.1:1")
    election.found = campaign.candidate  # what others have read before it was revoked
    assert campaign.elsewhere() == ""
    wait_until(lambda: campaign._seen[1] == campaign.candidate)
    assert campaign.elsewhere() == ""


def test_what_a_leader_does_is_stopped_when_it_leads_no_more(pair) -> None:
    leader, _ = pair
    stopped = threading.Event()
    token = leader.wait(lambda: False)
    with leader.leading(token, stopped.set):
        assert not stopped.is_set()
        leader.close()
        assert stopped.is_set()


def test_what_cannot_be_stopped_does_not_keep_the_rest_from_being_stopped(pair) -> None:
    leader, _ = pair
    stopped = threading.Event()

    def fail() -> None:
        raise ValueError("not now")

    token = leader.wait(lambda: False)
    with leader.leading(token, fail), leader.leading(token, stopped.set):
        leader.close()
        assert stopped.is_set()


def test_what_begins_after_the_leadership_was_lost_is_stopped_at_once(pair) -> None:
    leader, _ = pair
    stopped = threading.Event()
    with leader.leading(leader.wait(lambda: False) - 1, stopped.set):
        assert stopped.is_set()


def test_a_candidate_that_gives_up_stops_waiting(pair) -> None:
    _, standby = pair
    assert standby.wait(lambda: True) is None


def test_the_jobs_of_a_program_have_the_same_ids_in_every_process(services) -> None:
    first, second = LeaderCampaign(services), LeaderCampaign(services)
    ids = [first.next_job_id(), first.next_job_id()]
    assert ids == [second.next_job_id(), second.next_job_id()]
    assert len(set(ids)) == 2


def test_all_processes_of_a_cluster_have_one_token(services: HighAvailability) -> None:
    assert services.shared_token("first") == "first"
    assert services.shared_token("second") == "first"


def test_checkpoints_are_where_all_find_them_unless_they_are_elsewhere(services, tmp_path) -> None:
    given = Configuration()
    found = services.with_shared_checkpoints(given).to_dict()["execution.checkpointing.dir"]
    assert found == f"{tmp_path}/default/checkpoints"
    given.set_string("execution.checkpointing.dir", "s3://elsewhere")
    found = services.with_shared_checkpoints(given).to_dict()["execution.checkpointing.dir"]
    assert found == "s3://elsewhere"


@pytest.mark.parametrize(
    ("options", "warm"),
    [
        ({}, True),
        ({"spark.master": "local[4]"}, True),
        ({"spark.master": "local-cluster[2,1,1024]"}, False),
        ({"spark.master": "spark://host:7077"}, False),
        ({"spark.master": "yarn", "penstock.high-availability.warm-standby": "true"}, True),
        ({"penstock.high-availability.warm-standby": "false"}, False),
    ],
)
def test_a_standby_is_warm_where_that_costs_nothing_or_is_wanted(services, options, warm) -> None:
    for key, value in options.items():
        services.configuration.set_string(key, value)
    assert services.warm is warm
