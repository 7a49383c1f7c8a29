"""Elected leaders and a job's directory: the largest token has it, whatever the others do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.checkpoint.heartbeat_lease import HeartbeatLease
from penstock.checkpoint.leader_lease import LeaderLease
from penstock.checkpoint.lease import acquire, lease_owner
from penstock.checkpoint.lease_owner import LeaseOwner
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, FencedError


@pytest.fixture
def storage(tmp_path: Path) -> CheckpointFileSystem:
    return CheckpointFileSystem(str(tmp_path / "job"))


def elsewhere() -> LeaseOwner:
    """A driver that may or may not be alive."""
    here = LeaseOwner.here("job")
    return LeaseOwner(here.job, "far", here.pid, here.started_ms, here.token)


def leader(storage: CheckpointFileSystem, token: int) -> LeaderLease:
    return LeaderLease.acquire(storage, elsewhere(), token, stale_after_s=0.05)


def test_a_later_leader_has_the_job_at_once_and_the_earlier_one_finds_out(storage) -> None:
    first = leader(storage, 3)
    first.check()
    assert not first.contested
    second = leader(storage, 7)
    second.check()
    assert second.contested, "the first one may be about to write"
    with pytest.raises(FencedError, match="another driver has taken over this job"):
        first.check()
    first.release()
    second.check()


def test_a_leader_that_wakes_up_too_late_does_not_get_the_job(storage) -> None:
    newest = leader(storage, 7)
    with pytest.raises(FencedError):
        leader(storage, 3)
    newest.check()
    newest.release()
    with pytest.raises(FencedError):
        leader(storage, 3)  # the mark stays when the job is released
    leader(storage, 8).check()


def test_an_older_claim_that_comes_in_between_is_not_minded(storage) -> None:
    newest = leader(storage, 7)
    storage.write_new(f"leader/{3:020d}-late", b"{}")
    newest.check()


def test_a_leader_that_released_the_job_is_not_feared(storage) -> None:
    leader(storage, 1).release()
    assert lease_owner(storage) is None
    assert not leader(storage, 2).contested


def test_a_leader_whose_claim_was_deleted_writes_no_more(storage) -> None:
    lease = leader(storage, 1)
    storage.delete_tree("leader")
    with pytest.raises(FencedError, match="this driver has lost the lease of its job"):
        lease.check()


def test_driver_without_election_keeps_its_job(storage) -> None:
    plain = acquire(storage, "job")
    with pytest.raises(FencedError, match="another driver is running this job"):
        acquire(storage, "job", leader=1)
    plain.release()
    acquire(storage, "job", leader=1).check()


def test_driver_without_election_does_not_get_a_leaders_job(storage) -> None:
    held = leader(storage, 1)
    assert lease_owner(storage) == held.owner
    with pytest.raises(FencedError, match="another driver is running this job"):
        acquire(storage, "job")
    held.release(forget=True)
    acquire(storage, "job").check()


def test_a_token_that_is_none_is_refused(storage) -> None:
    with pytest.raises(ArgumentError, match="invalid leader token -1"):
        leader(storage, -1)


def test_a_leader_that_comes_too_late_takes_its_claim_back(storage) -> None:
    newest = leader(storage, 7)
    claims = storage.list("leader/")
    with pytest.raises(FencedError):
        leader(storage, 3)
    assert storage.list("leader/") == claims
    newest.check()


def test_a_leader_finds_out_before_the_one_after_it_has_deleted_its_claim(storage) -> None:
    lease = leader(storage, 3)
    storage.write_new(f"leader/{7:020d}-later", b"{}")
    assert len(storage.list("leader/")) == 2
    with pytest.raises(FencedError):
        lease.check()


@pytest.mark.parametrize("other", ["0", "zzz"], ids=["before", "after"])
def test_a_claim_with_the_same_token_is_of_the_same_leader_and_does_not_fence_it(
    storage, other
) -> None:
    storage.write_new(f"leader/{5:020d}-{other}", b"{}")
    leader(storage, 5).check()
    storage.write_new(f"leader/{6:020d}-{other}", b"{}")
    lease = leader(storage, 6)
    storage.write_new(f"leader/{6:020d}-{other}", b"{}")
    lease.check()


def test_a_leader_that_gave_its_job_up_does_not_work_on_it(storage) -> None:
    lease = leader(storage, 1)
    lease.release()
    with pytest.raises(FencedError):
        lease.check()


def test_leader_claims_are_kept_while_the_previous_leader_may_be_running(storage) -> None:
    leader(storage, 1)
    second = leader(storage, 2)
    assert second.contested
    second.release(forget=True)
    with pytest.raises(FencedError):
        leader(storage, 1)
    third = leader(storage, 3)
    assert not third.contested
    third.release(forget=True)
    assert storage.list("leader/") == []


def test_a_claim_that_cannot_be_read_may_be_of_a_leader_at_work(storage) -> None:
    storage.write_new(f"leader/{3:020d}-damaged", b"garbage")
    assert leader(storage, 7).contested


def test_driver_without_election_keeps_its_job_by_heartbeat(storage) -> None:
    plain = HeartbeatLease.acquire(storage, elsewhere(), stale_after_s=600)
    with pytest.raises(FencedError, match="another driver is running this job"):
        leader(storage, 1)
    assert storage.list("leader/") == []
    plain.release()
    leader(storage, 1).check()


def test_a_leader_of_this_machine_that_has_died_is_not_at_work(storage) -> None:
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    here = LeaseOwner.here("job")
    dead = LeaseOwner(here.job, here.host, gone.pid, 0, "dead", here.machine)
    lease = LeaderLease.acquire(storage, dead, 1, stale_after_s=0.05)
    lease.check()
    assert lease_owner(storage) is None
    assert not leader(storage, 2).contested
