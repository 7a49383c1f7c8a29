"""One driver per job: whoever works on a job's directory has its lease.

On a local file system the lease is a lock of the operating system (`file_lock`), elsewhere a claim with a heartbeat
(`heartbeat_lease`). Where JobManagers elect a leader, the leader's token decides (`leader_lease`).
"""

from __future__ import annotations

import logging
from typing import Protocol

from penstock.checkpoint.file_lock import FileLock, LocksNotSupportedError, read_lock_owner
from penstock.checkpoint.heartbeat_lease import HeartbeatLease, read_claim_owner
from penstock.checkpoint.leader_lease import LeaderLease, leader_at_work
from penstock.checkpoint.lease_owner import LeaseOwner, refused
from penstock.checkpoint.storage import CheckpointStorage
from penstock.errors import ArgumentError

DEFAULT_STALE_AFTER_S = 30.0

_log = logging.getLogger(__name__)


class Lease(Protocol):
    """The right to work on a job's directory."""

    @property
    def owner(self) -> LeaseOwner:
        """Who has it: this process."""

    @property
    def contested(self) -> bool:
        """Whether a driver that had it before may still be at work, and not know yet that it has lost it."""

    def check(self) -> None:
        """Raise FencedError unless this is still the driver of the job."""

    def renew(self) -> None:
        """Tell that this driver lives; a lease does so by itself."""

    def release(self, *, forget: bool = False) -> None:
        """Give the job up. With `forget` nothing of the lease stays in the directory."""


def lease_owner(storage: CheckpointStorage) -> LeaseOwner | None:
    """Return who has a job's directory, or had it last without releasing it; None if nobody is known. Changes nothing."""
    directory = storage.local_directory
    found = read_lock_owner(directory) if directory is not None else None
    return found or read_claim_owner(storage) or leader_at_work(storage)


def acquire(
    storage: CheckpointStorage,
    job: str,
    *,
    leader: int | None = None,
    stale_after_s: float = DEFAULT_STALE_AFTER_S,
) -> Lease:
    """Take the lease of a job's directory; raises FencedError if another driver has it.

    `storage` is the job's directory, `job` its name, for messages. Where there are no locks, a driver that has not been heard of for
    `stale_after_s` loses the job to the next one that asks. `leader` is the token of a driver that was elected: it takes the job from
    those that were before it, whatever they do.
    """
    if stale_after_s <= 0:
        raise ArgumentError(f"a lease cannot be stale after {stale_after_s} seconds")
    owner = LeaseOwner.here(job)
    if leader is not None:
        return LeaderLease.acquire(storage, owner, leader, stale_after_s=stale_after_s)
    elected = leader_at_work(storage)
    if elected is not None:
        raise refused(storage.base, elected)
    directory = storage.local_directory
    if directory is not None:
        try:
            return FileLock.acquire(directory, owner, sync=storage.sync)
        except LocksNotSupportedError as error:
            _log.warning("'%s' has no file locks (%s): a heartbeat is used", directory, error)
    return HeartbeatLease.acquire(storage, owner, stale_after_s=stale_after_s)
