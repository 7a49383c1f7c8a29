"""A job's lease on storage without locks: numbered claims, and a heartbeat that shows that the driver is alive.

```
<job>/lease/<number>-<token>    a driver's claim: the owner, its number of renewals, whether it was released
```

The driver with the highest number owns the job. A driver that wants it waits until the claim with the highest number is
released or no longer renewed, writes a claim with the next number, and lists the claims again. If there is an unknown one, it
withdraws its own. So two drivers never both get the job: had both missed the other's claim, each would have listed before the
other wrote, but each writes before it lists. Storage only has to be list-after-write consistent, as all large object stores
and HDFS are.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from penstock.checkpoint.lease_owner import LeaseOwner, fenced, refused
from penstock.checkpoint.storage import CheckpointFileSystem
from penstock.errors import CheckpointError, FencedError

LEASE = "lease"

_BEATS = 4  # renewals within the time after which a lease that is not renewed is stale
_CLAIMS = 5

_log = logging.getLogger(__name__)
# The tokens of this process, each from before its claim is written until after it is released. A claim of this pid whose
# token is
# missing here belongs to an earlier process with the same pid, and any driver may take it over.
_held: set[str] = set()


class HeartbeatLease:
    """A claim that a thread renews until `release`.

    A driver that hangs for longer than `stale_after_s` (suspended, cut off from storage) may lose the job. It notices at
    its next
    `check`, which lists the claims. A caller that retries until it gets the lease is `quiet` about leases that are still
    valid, and
    may be `interrupted` while it waits. `clock` and `sleep` are for tests.
    """

    def __init__(
        self,
        storage: CheckpointFileSystem,
        owner: LeaseOwner,
        *,
        stale_after_s: float = 30.0,
        quiet: bool = False,
        interrupted: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._storage = storage
        self.owner = owner
        self._stale_after_s = stale_after_s
        self._quiet = quiet
        self._interrupted = interrupted
        self._clock = clock
        self._sleep = sleep
        #: Of the own claim: above those of all earlier claims. A higher one takes the job.
        self.number = 0
        #: Number of renewals; others see from its change that the owner lives.
        self._beats = 0
        #: Start of the last successful renewal, by `clock`.
        self.renewed_at = clock()
        #: Why the lease is lost; once set, every later `check` raises it.
        self._lost: FencedError | None = None
        #: Whether a driver that has lost the job may not know it yet: claims are kept then.
        self.contested = False
        #: Between the renewing thread and the working thread.
        self._lock = threading.Lock()
        #: Ends the renewing thread.
        self._stop = threading.Event()
        #: Renews the claim; None if the caller does.
        self._thread: threading.Thread | None = None

    @classmethod
    def acquire(
        cls,
        storage: CheckpointFileSystem,
        owner: LeaseOwner,
        *,
        beating: bool = True,
        **options: Any,
    ) -> HeartbeatLease:
        """Claim a job's directory; raises FencedError if another driver owns it. Without `beating`, call `renew` yourself."""
        lease = cls(storage, owner, **options)
        _held.add(owner.token)
        try:
            lease._claim()
        except BaseException:
            _held.discard(owner.token)
            raise
        if beating:
            lease._thread = threading.Thread(target=lease._beat, name="penstock-lease", daemon=True)
            lease._thread.start()
        return lease

    # Acquiring.

    def _claim(self) -> None:
        for _ in range(_CLAIMS):
            known = self.wait_for_the_holder()
            self.number = max(map(_number, known), default=0) + 1
            name = self._claimed()
            self.renewed_at = self._clock()
            self._storage.write_new(name, self._record())
            names = self._storage.list(f"{LEASE}/")
            others = [other for other in names if other != name]
            if name in names and known.issuperset(others):
                for other in others:
                    self._storage.delete(other)
                return
            # The other driver may not have seen this claim, so it may be running.
            self._storage.delete(name)
            self._sleep(random.uniform(0, self._stale_after_s / 10))  # noqa: S311 - for load distribution only
        raise FencedError(
            "other drivers are starting this job at the same time",
            detail=f"they claim the directory '{self._storage.base}'",
            hint="start one driver only",
        )

    def wait_for_the_holder(self) -> frozenset[str]:
        """Return the existing claims once the job has no owner; raises FencedError if it has one."""
        names = self._storage.list(f"{LEASE}/")
        seen = self._read_highest(names)
        began = self._clock()
        logged = False
        while True:
            gone = None in seen.values()
            for name, data in list(seen.items()):
                owner, over = _decode(data)
                if over or data is None:
                    del seen[name]
                elif owner is not None and owner.token in _held:
                    raise refused(self._storage.base, owner)
                elif owner is not None and owner.is_gone:
                    del seen[name]
            if not seen and gone:
                # A withdrawn claim, so the job may belong to another driver.
                names = self._storage.list(f"{LEASE}/")
                seen = self._read_highest(names)
                began = self._clock()
                continue
            if not seen:
                return frozenset(names)
            owner = _decode(next(iter(seen.values())))[0]
            if not logged:
                logged = True
                _log.log(
                    logging.DEBUG if self._quiet else logging.WARNING,
                    "the job at '%s' was run by %s; waiting up to %g s to see whether it still is",
                    self._storage.base,
                    owner,
                    self._stale_after_s,
                )
            if self._clock() - began >= self._stale_after_s:
                _log.warning("taking over the job at '%s' from %s", self._storage.base, owner)
                self.contested = True
                return frozenset(names)
            if self._interrupted():
                raise refused(self._storage.base, owner)
            self._sleep(min(1.0, self._stale_after_s / 10))
            for name, before in seen.items():
                seen[name] = data = self._read(name)
                if data not in {None, before} and not _decode(data)[1]:
                    raise refused(self._storage.base, _decode(data)[0])

    def _read_highest(self, names: Sequence[str]) -> dict[str, bytes | None]:
        number = max(map(_number, names), default=0)
        return {name: self._read(name) for name in names if _number(name) == number}

    # Owning.

    def check(self) -> None:
        """Raise FencedError unless this is still the driver of the job; renew the claim if that is due."""
        with self._lock:
            if self._clock() - self.renewed_at >= self._stale_after_s / _BEATS:
                self._renew()
            else:
                self._look()

    def renew(self) -> None:
        """Renew the claim; raises FencedError if this driver has lost the job."""
        with self._lock:
            self._renew()

    def release(self, *, forget: bool = False) -> None:
        """Release the job, so that another driver can start immediately. With `forget`, delete all claims that can be deleted."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self._stale_after_s / _BEATS)
        with self._lock:
            if self.owner.token not in _held:
                return
            try:
                self._look()
                if forget and not self.contested:
                    self._storage.delete_tree(LEASE)
                else:
                    # The claim stays, so that numbers are never reused: a silent driver may be about to renew its claim.
                    self._storage.write_atomic(self._claimed(), self._record(released=True))
            except FencedError:
                return
            except CheckpointError as error:
                _log.warning("could not release the lease: %s", error.message)
            finally:
                _held.discard(self.owner.token)
            self._lost = fenced(self._storage.base, None)

    def _look(self) -> None:
        if self._lost is not None:
            raise self._lost
        names = self._storage.list(f"{LEASE}/")
        newest = max(names, key=_number, default=None)
        if self._claimed() in names and newest is not None and _number(newest) <= self.number:
            return
        owner = None
        if newest is not None and _number(newest) > self.number:
            owner = _decode(self._read(newest))[0]
        self._lost = fenced(self._storage.base, owner)
        raise self._lost

    def _renew(self) -> None:
        self._look()
        self._beats += 1
        began = self._clock()
        self._storage.write_atomic(self._claimed(), self._record())
        self.renewed_at = began

    def _beat(self) -> None:
        while not self._stop.wait(self._stale_after_s / _BEATS):
            try:
                self.renew()
            except FencedError as error:
                _log.warning("%s", error.message)
                return
            except CheckpointError as error:  # the next renewal may succeed
                _log.warning("could not renew the lease: %s", error.message)

    def _claimed(self) -> str:
        return _name(self.number, self.owner)

    def _record(self, *, released: bool = False) -> bytes:
        record = {"owner": self.owner.to_json(), "beats": self._beats, "released": released}
        return json.dumps(record).encode() + b"\n"

    def _read(self, name: str) -> bytes | None:
        return _read(self._storage, name)


def current_claim(storage: CheckpointFileSystem) -> int | None:
    """Return the highest claim number, unless there is no claim, it was released, or its process is known to be dead."""
    names = storage.list(f"{LEASE}/")
    if not names:
        return None
    newest = max(names, key=_number)
    owner, over = _decode(_read(storage, newest))
    if owner is not None and owner.token not in _held:
        over = over or owner.is_gone
    return None if over else _number(newest)


def read_claim_owner(storage: CheckpointFileSystem) -> LeaseOwner | None:
    """Return the owner of the claim with the highest number, unless it was released."""
    names = storage.list(f"{LEASE}/")
    owner, over = _decode(_read(storage, max(names, key=_number))) if names else (None, True)
    return None if over else owner


def _read(storage: CheckpointFileSystem, name: str) -> bytes | None:
    try:
        return storage.read(name)
    except CheckpointError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def _name(number: int, owner: LeaseOwner) -> str:
    return f"{LEASE}/{number:08d}-{owner.token}"


def _number(name: str) -> int:
    digits = name.rpartition("/")[2].partition("-")[0]
    return int(digits) if digits.isdecimal() else 0


def _decode(data: bytes | None) -> tuple[LeaseOwner | None, bool]:
    """Return the owner in a claim, if readable, and whether the claim was released."""
    try:
        record = json.loads(data or b"")
        return LeaseOwner.from_json(record["owner"]), record["released"] is True
    except (KeyError, TypeError, ValueError):
        return None, False
