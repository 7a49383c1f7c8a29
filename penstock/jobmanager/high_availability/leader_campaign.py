"""This process in the leader election: whether it is the leader, who is otherwise, and what stops when leadership is lost."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.jobmanager.high_availability.election import Candidate, LeaderElection
from penstock.jobmanager.high_availability.services import HighAvailability
from penstock.time import clock

_POLL_S = 0.2
_LEADER_AGE_S = 0.5  # after this time the leader is looked up again
_LEADER_KNOWN_S = 5.0  # after this time the last known leader is outdated

_log = logging.getLogger(__name__)


class LeaderCampaign:
    """Takes part in the leader election of one cluster, for all jobs of a process.

    `on_granted` and `on_revoked` are called alternately, in their own thread. Work that must stop at once when leadership is lost is
    registered with `leading`.
    """

    def __init__(
        self,
        services: HighAvailability,
        *,
        on_granted: Callable[[int], None] = lambda _: None,
        on_revoked: Callable[[], None] = lambda: None,
    ) -> None:
        self.services = services
        self.started_ms = clock.now_ms()
        #: What others learn of this process; None before `start`.
        self.candidate: Candidate | None = None
        self._on_granted = on_granted
        self._on_revoked = on_revoked
        self._election: LeaderElection = services.create_election()
        #: Guards `_token` and `_stops`; notified when the token changes.
        self._changed = threading.Condition()
        #: Of the leadership, above those of earlier leaders; None without it.
        self._token: int | None = None
        #: The token, once the leader has recovered its jobs.
        self._ready: int | None = None
        #: What must stop at once when the leadership is lost, by its key.
        self._stops: dict[object, Callable[[], None]] = {}
        #: Number of jobs so far, for their names.
        self._jobs = 0
        #: Held by the thread that asks who leads; the others use `_seen`.
        self._looking = threading.Lock()
        #: When that was asked last (monotonic), and the answer.
        self._seen: tuple[float, Candidate | None] = (float("-inf"), None)

    def start(self, address: str) -> None:
        """Take part in the election; `address` is the address of this process for clients."""
        self.candidate = Candidate.here(address)
        self._election.start(self.candidate, _Contender(self))

    def close(self) -> None:
        """Leave the election; a leader releases leadership as soon as everything is stopped."""
        self._election.close()

    # For the REST server

    @property
    def leads(self) -> bool:
        """Whether this process is the leader and has recovered its jobs."""
        ready = self._ready
        return ready is not None and self._election.token == ready

    def elsewhere(self) -> str | None:
        """Return None if this process is the leader, else the leader's address, or an empty string if unknown. Never blocks.

        The leader is looked up in the background; old results are ignored.
        """
        if self.leads:
            return None
        at, known = self._seen
        age = time.monotonic() - at
        if age > _LEADER_AGE_S and self._looking.acquire(blocking=False):
            threading.Thread(target=self._look, name="penstock-leader", daemon=True).start()
        if known is None or age > _LEADER_KNOWN_S or known == self.candidate:
            return ""
        return known.address

    def _look(self) -> None:
        try:
            self._seen = time.monotonic(), self._election.leader()
        except Exception as error:  # noqa: BLE001 - the leader is reported as unknown
            _log.warning("cannot look up the leader: %s", error)
        finally:
            self._looking.release()

    def shared_token(self, own: str) -> str:
        """Return the REST token that all JobManagers of the cluster share; `own` if this is the first one."""
        return self.services.shared_token(own)

    # For jobs

    def next_job_id(self) -> str:
        """Return the id of the next job of this program: the same in every process that runs it."""
        self._jobs += 1
        name = f"{self.services.cluster_id}/{self._jobs}"
        return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()

    def wait(self, given_up: Callable[[], bool]) -> int | None:
        """Wait until this process is the leader and return its token; None if `given_up` becomes true meanwhile."""
        with self._changed:
            while not given_up():
                if self._token is not None:
                    return self._token
                self._changed.wait(_POLL_S)
        return None

    @contextmanager
    def leading(self, token: int, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop` if leadership with this token is lost inside the `with` block."""
        key = object()
        with self._changed:
            self._stops[key] = stop
            late = self._token != token
        if late:
            stop()
        try:
            yield
        finally:
            with self._changed:
                del self._stops[key]

    # Callbacks of the election

    def _granted(self, token: int) -> None:
        with self._changed:
            self._token = token
            self._changed.notify_all()
        self._on_granted(token)
        self._ready = token

    def _revoked(self) -> None:
        self._ready = None
        with self._changed:
            self._token = None
            stops = list(self._stops.values())
        for stop in stops:
            try:
                stop()
            except Exception:  # noqa: BLE001 - the others must be stopped anyway
                _log.exception("a job could not be stopped after leadership was lost")
        self._on_revoked()


class _Contender:
    """The contender of a campaign, called by the election."""

    def __init__(self, campaign: LeaderCampaign) -> None:
        self._campaign = campaign

    def on_granted(self, token: int) -> None:
        self._campaign._granted(token)  # noqa: SLF001 - only for this class

    def on_revoked(self) -> None:
        self._campaign._revoked()  # noqa: SLF001 - as above
