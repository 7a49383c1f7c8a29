"""A job's lease with leader election: the JobManager with the largest fencing token owns the job immediately.

```
<job>/leader/<token>-<owner's token>    a leader's claim: the owner, and whether it was released
```

No leader waits for a predecessor that hangs: the election has already decided that it is gone. A leader that wakes up finds
the claim of a larger token at its next `check`. One that wakes up just before it claims the job writes its claim, lists, finds
the larger one, and withdraws its own; the leader with the larger token ignores smaller ones.
"""

from __future__ import annotations

import contextlib
import json
import logging

from penstock.checkpoint.file_lock import LocksNotSupportedError, locked_by
from penstock.checkpoint.heartbeat_lease import HeartbeatLease
from penstock.checkpoint.lease_owner import LeaseOwner, fenced, refused
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import ArgumentError, CheckpointError, FencedError

CLAIMS = "leader"

_DIGITS = 20  # of a 64-bit number, so that names sort by token

_log = logging.getLogger(__name__)


class LeaderLease:
    """The right of the elected leader with a token to work on a job's directory."""

    def __init__(self, storage: CheckpointFileSystem, owner: LeaseOwner, token: int) -> None:
        if token < 0:
            raise ArgumentError(f"invalid leader token {token}")
        self._storage = storage
        self.owner = owner
        self.contested = False  # whether a leader that has lost the job may not know it yet
        self._name = f"{CLAIMS}/{token:0{_DIGITS}d}-{owner.token}"
        self._lost: FencedError | None = None

    @classmethod
    def acquire(
        cls, storage: CheckpointFileSystem, owner: LeaseOwner, token: int, *, stale_after_s: float
    ) -> LeaderLease:
        """Take a job's directory from leaders with smaller tokens; raises FencedError if there is a larger one.

        A driver that was not elected keeps its job, unless it has been silent for `stale_after_s`.
        """
        lease = cls(storage, owner, token)
        lease._refuse_other_drivers(stale_after_s)
        lease._claim()
        return lease

    def _refuse_other_drivers(self, stale_after_s: float) -> None:
        directory = self._storage.local_directory
        if directory is not None:
            with contextlib.suppress(LocksNotSupportedError):
                other = locked_by(directory)
                if other is not None:
                    raise refused(str(directory), other)
        HeartbeatLease(self._storage, self.owner, stale_after_s=stale_after_s).wait_for_the_holder()

    def _claim(self) -> None:
        self._storage.write_new(self._name, self._record())
        names = self._storage.list(f"{CLAIMS}/")
        larger = [name for name in names if _token(name) > _token(self._name)]
        if self._name not in names or larger:
            self._storage.delete(self._name)
            raise fenced(self._storage.base, self._owner_of(max(larger)) if larger else None)
        for name in names:
            if name != self._name:
                self.contested |= self._may_work(name)
                self._storage.delete(name)

    def _may_work(self, name: str) -> bool:
        owner, released = _decode(self._read(name))
        return not released and (owner is None or not owner.is_gone)

    def check(self) -> None:
        """Raise FencedError if a later leader has claimed the job."""
        if self._lost is not None:
            raise self._lost
        names = self._storage.list(f"{CLAIMS}/")
        newest = max(names, default=None)
        if newest == self._name or (
            newest is not None and self._name in names and _token(newest) == _token(self._name)
        ):
            return
        owner = None
        if newest is not None and newest > self._name:
            owner = self._owner_of(newest)
        self._lost = fenced(self._storage.base, owner)
        raise self._lost

    def renew(self) -> None:
        """Do nothing: the election tracks whether this leader is alive."""

    def release(self, *, forget: bool = False) -> None:
        """Release the job. The claim stays, so that earlier leaders still find it, unless `forget` is set."""
        try:
            self.check()
            if forget and not self.contested:
                self._storage.delete_tree(CLAIMS)
            else:
                self._storage.write_atomic(self._name, self._record(released=True))
        except FencedError:
            return
        except CheckpointError as error:
            _log.warning("could not release the leader's claim: %s", error.message)
        self._lost = fenced(self._storage.base, None)

    def _record(self, *, released: bool = False) -> bytes:
        return json.dumps({"owner": self.owner.to_json(), "released": released}).encode() + b"\n"

    def _owner_of(self, name: str) -> LeaseOwner | None:
        return _decode(self._read(name))[0]

    def _read(self, name: str) -> bytes | None:
        return _read(self._storage, name)


def leader_at_work(storage: CheckpointFileSystem) -> LeaseOwner | None:
    """Return the elected leader that owns a job's directory, unless it was released or its process is known to be dead."""
    names = storage.list(f"{CLAIMS}/")
    owner, released = _decode(_read(storage, max(names))) if names else (None, True)
    return None if released or owner is None or owner.is_gone else owner


def _read(storage: CheckpointFileSystem, name: str) -> bytes | None:
    try:
        return storage.read(name)
    except CheckpointError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def _token(name: str) -> int:
    digits = name.rpartition("/")[2].partition("-")[0]
    return int(digits) if digits.isdecimal() else -1


def _decode(data: bytes | None) -> tuple[LeaseOwner | None, bool]:
    try:
        record = json.loads(data or b"")
        return LeaseOwner.from_json(record["owner"]), record["released"] is True
    except (KeyError, TypeError, ValueError):
        return None, False
