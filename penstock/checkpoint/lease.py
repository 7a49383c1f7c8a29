"""Job leases: they ensure that one driver at a time works on a job's directory.

On a local file system the lease is a lock of the operating system (`file_lock`), elsewhere a claim with a heartbeat
(`heartbeat_lease`). With leader election, the leader's token decides (`leader_lease`).
"""

from __future__ import annotations

import logging
from typing import Protocol

from penstock.checkpoint.file_lock import FileLock, LocksNotSupportedError, read_lock_owner
from penstock.checkpoint.heartbeat_lease import HeartbeatLease, read_claim_owner
from penstock.checkpoint.leader_lease import LeaderLease, leader_at_work
from penstock.checkpoint.lease_owner import LeaseOwner, refused
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError

DEFAULT_STALE_AFTER_S = 30.0

_log = logging.getLogger(__name__)


class Lease(Protocol):
    """The right to work on a job's directory."""

    @property
    def owner(self) -> LeaseOwner:
        """The owner: this process."""

    @property
    def contested(self) -> bool:
        """Whether the previous owner may still be running, not knowing yet that it has lost the lease."""

    def check(self) -> None:
        """Raise FencedError unless this is still the driver of the job."""

    def renew(self) -> None:
        """Renew the lease; leases also do so by themselves."""

    def release(self, *, forget: bool = False) -> None:
        """Release the job. With `forget`, delete all files of the lease."""


def lease_owner(storage: CheckpointFileSystem) -> LeaseOwner | None:
    """Return the owner of a job's directory, or the last one that did not release it; None if unknown. Changes nothing."""
    directory = storage.local_directory
    found = read_lock_owner(directory) if directory is not None else None
    return found or read_claim_owner(storage) or leader_at_work(storage)


def acquire(
    storage: CheckpointFileSystem,
    job: str,
    *,
    leader: int | None = None,
    stale_after_s: float = DEFAULT_STALE_AFTER_S,
) -> Lease:
    """Acquire the lease of a job's directory; raises FencedError if another driver owns it.

    `storage` is the job's directory, `job` its name for messages. Without locks, a driver that has been silent for
    `stale_after_s` loses the job to the next one that asks. `leader` is the token of an elected driver: it takes the job
    from all
    earlier leaders.
    """
    if stale_after_s <= 0:
        raise ArgumentError(f"invalid lease timeout of {stale_after_s} seconds")
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
            _log.warning(
                "'%s' does not support file locks (%s): using a heartbeat lease", directory, error
            )
    return HeartbeatLease.acquire(storage, owner, stale_after_s=stale_after_s)
