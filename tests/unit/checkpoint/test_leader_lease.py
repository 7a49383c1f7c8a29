"""Elected leaders and a job's directory: the largest token has it, whatever the others do."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checkpoint.leader_lease import LeaderLease
from penstock.checkpoint.lease import acquire, lease_owner
from penstock.checkpoint.lease_owner import LeaseOwner
from penstock.checkpoint.storage import CheckpointStorage
from penstock.errors import ArgumentError, FencedError


@pytest.fixture
def storage(tmp_path: Path) -> CheckpointStorage:
    return CheckpointStorage(str(tmp_path / "job"))


def elsewhere() -> LeaseOwner:
    """A driver of which nobody here can tell whether it lives."""
    here = LeaseOwner.here("job")
    return LeaseOwner(here.job, "far", here.pid, here.started_ms, here.token)


def leader(storage: CheckpointStorage, token: int) -> LeaderLease:
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
    with pytest.raises(FencedError, match="this driver has lost its job"):
        lease.check()


def test_a_driver_that_nobody_elected_keeps_its_job(storage) -> None:
    plain = acquire(storage, "job")
    with pytest.raises(FencedError, match="another driver runs this job"):
        acquire(storage, "job", leader=1)
    plain.release()
    acquire(storage, "job", leader=1).check()


def test_a_driver_that_nobody_elected_does_not_get_a_leaders_job(storage) -> None:
    held = leader(storage, 1)
    assert lease_owner(storage) == held.owner
    with pytest.raises(FencedError, match="another driver runs this job"):
        acquire(storage, "job")
    held.release(forget=True)
    acquire(storage, "job").check()


def test_a_token_that_is_none_is_refused(storage) -> None:
    with pytest.raises(ArgumentError, match="cannot be -1"):
        leader(storage, -1)
