"""Leader election on shared storage, without ZooKeeper or Kubernetes: with the same lease that protects jobs.

```
<storageDir>/<cluster id>/election/lease/<number>-<token>   claims, see `penstock.checkpoint.heartbeat_lease`
<storageDir>/<cluster id>/election/leader/<number>          who made the claim with this number, and its address
```

The number of the claim is the leader's token: it is never reused, and grows with every leader.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from penstock.checkpoint.heartbeat_lease import HeartbeatLease, current_claim
from penstock.checkpoint.lease_owner import LeaseOwner
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, CheckpointError, FencedError
from penstock.jobmanager.high_availability.election import Candidate
from penstock.jobmanager.high_availability.election_thread import ElectionThread
from penstock.jobmanager.high_availability.leadership import LeadershipState
from penstock.logs.repeated_lines import RepeatedLineFilter

_BEATS = 4  # renewals per lease duration
_CERTAIN = 0.75  # share of the lease duration for which a leader without renewals keeps leadership

_log = logging.getLogger(__name__)
_log.addFilter(RepeatedLineFilter())


class StorageElection(ElectionThread):
    """The holder of the lease of a directory is the leader. Others take over `lease_s` after the last heartbeat."""

    def __init__(self, storage: CheckpointFileSystem, *, lease_s: float) -> None:
        if lease_s <= 0:
            raise ArgumentError(f"invalid lease duration: {lease_s} seconds")
        super().__init__()
        self._storage = storage
        self._lease_s = lease_s

    def leader(self) -> Candidate | None:
        """Return who holds the lease. It may have died a moment ago."""
        claim = current_claim(self._storage)
        if claim is None:
            return None
        try:
            return Candidate.decode(self._storage.read(_leader_name(claim)))
        except CheckpointError as error:
            if isinstance(error.__cause__, FileNotFoundError):  # it has just claimed the lease
                return None
            raise

    def _run(self, candidate: Candidate, leadership: LeadershipState) -> None:
        while not self._stop.is_set():
            try:
                lease = self._acquire(candidate)
            except FencedError:
                self._stop.wait(self._lease_s / (2 * _BEATS))
                continue
            except CheckpointError as error:
                _log.warning("this JobManager cannot take part in the election: %s", error)
                self._stop.wait(self._lease_s / _BEATS)
                continue
            self._lead(lease, candidate, leadership)
            # Let others try first: a leader that lost the lease was slow, or is about to end.
            self._stop.wait(self._lease_s / 2)
        leadership.close()

    def _acquire(self, candidate: Candidate) -> HeartbeatLease:
        return HeartbeatLease.acquire(
            self._storage,
            LeaseOwner.here(candidate.id),
            beating=False,
            quiet=True,
            stale_after_s=self._lease_s,
            interrupted=self._stop.is_set,
        )

    def _lead(
        self, lease: HeartbeatLease, candidate: Candidate, leadership: LeadershipState
    ) -> None:
        with self._stepping_down(lease, leadership):
            self._storage.write_atomic(_leader_name(lease.number), candidate.encode())
            leadership.grant(lease.number, self._certain_until(lease))
            _log.info("%s leads, token %d", candidate.id, lease.number)
            self._delete_leaders_before(lease.number)
            while not self._stop.wait(self._lease_s / _BEATS) and leadership.token is not None:
                try:
                    lease.renew()
                except FencedError:
                    raise
                except CheckpointError as error:  # the next renewal may reach storage
                    _log.warning("cannot renew the leader lease: %s", error.message)
                else:
                    leadership.extend(self._certain_until(lease))

    @contextlib.contextmanager
    def _stepping_down(self, lease: HeartbeatLease, leadership: LeadershipState) -> Iterator[None]:
        try:
            yield
        except CheckpointError as error:
            _log.warning("this JobManager lost leadership: %s", error.message)
        if self._stop.is_set():
            leadership.close()  # the contender has stopped everything before the next leader starts
        leadership.revoke()
        lease.release()

    def _certain_until(self, lease: HeartbeatLease) -> float:
        return lease.renewed_at + _CERTAIN * self._lease_s

    def _delete_leaders_before(self, number: int) -> None:
        for name in self._storage.list("leader/"):
            if name < _leader_name(number):
                self._storage.delete(name)


def _leader_name(number: int) -> str:
    return f"leader/{number:08d}"
