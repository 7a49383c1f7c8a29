"""Leader election with ZooKeeper: every candidate has a sequential node, and the lowest is the leader.

```
<path.root>/<cluster id>/leader/candidate-<number>    ephemeral: exists as long as the candidate's session
```

A candidate watches only the node before its own. The token is the id of the transaction that created the node: candidates become
leaders in the order of their nodes, so tokens grow.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from penstock import options
from penstock.dependencies.extras import optional_module
from penstock.errors import ConfigurationError, ConnectionFailedError
from penstock.jobmanager.high_availability.election import Candidate
from penstock.jobmanager.high_availability.election_thread import ElectionThread
from penstock.jobmanager.high_availability.leadership import LeadershipState
from penstock.options.configuration import Configuration

if TYPE_CHECKING:
    from kazoo.client import KazooClient

_PREFIX = "candidate-"
_CERTAIN = 2 / 3  # share of the session that is certain after the start of a successful request
_LEFT = 1 / 3  # share of the session that is certain when the client notices a lost connection
_BEATS = 6  # checks of its own node per session timeout
_PAUSE_S = 0.5

_log = logging.getLogger(__name__)


class ZooKeeperElection(ElectionThread):
    """The candidate with the lowest node below a path is the leader.

    A leader that loses its connection loses leadership, or if that is `tolerated`, keeps it as long as its session certainly lasts. A
    process that was stopped (suspended, swapped out) learns late that its session expired: so leadership is certain only for a part
    of the session timeout after the last check of its node, by its own clock.
    """

    def __init__(
        self, quorum: str, path: str, *, session_s: float, tolerates_suspension: bool = False
    ) -> None:
        super().__init__()
        self._client = _connect(quorum, session_s)
        self._path = path
        self._session_s = session_s
        self._timeout_s = 2 * session_s
        self._grace_s = session_s * _LEFT if tolerates_suspension else 0.0
        self._starting = threading.Lock()
        self._live: threading.Event | None = None
        self._work = threading.Event()  # set when something may have changed
        self._connected = threading.Event()
        self._node: str | None = None  # of this session

    @classmethod
    def from_configuration(cls, cluster_id: str, configuration: Configuration) -> ZooKeeperElection:
        """Read the options."""
        quorum = configuration.get(options.HA_ZOOKEEPER_QUORUM)
        if quorum is None:
            raise ConfigurationError(
                "high-availability.type is zookeeper, but high-availability.zookeeper.quorum is not set",
                hint="set it to the comma-separated host:port of its servers",
            )
        root = configuration.get(options.HA_ZOOKEEPER_ROOT).strip("/")
        return cls(
            quorum,
            "/".join(["", *filter(None, [root]), cluster_id, "leader"]),
            session_s=configuration.get(options.HA_ZOOKEEPER_SESSION).to_millis() / 1000,
            tolerates_suspension=configuration.get(options.HA_ZOOKEEPER_TOLERATE),
        )

    def _prepare(self) -> None:
        self._client.add_listener(self._on_state)
        self._start_client()
        if self._client.connected:  # it connected before the listener was added
            self._connected.set()
            self._work.set()

    def leader(self) -> Candidate | None:
        """Return the candidate with the lowest node."""
        from kazoo.exceptions import KazooException, NoNodeError

        try:
            if not self._start_client().wait(self._timeout_s):
                raise ConnectionFailedError(
                    "ZooKeeper does not answer",
                    detail=f"no connection within {self._timeout_s:g} s",
                )
            nodes = self._nodes()
            return Candidate.decode(self._client.get(nodes[0])[0]) if nodes else None
        except NoNodeError:
            return None
        except (KazooException, self._client.handler.timeout_exception) as error:
            raise ConnectionFailedError(
                "ZooKeeper does not answer", detail=str(error) or type(error).__name__
            ) from error

    def close(self) -> None:
        """Leave the election: the contender is notified, then the node is deleted with the session."""
        self._stop.set()
        self._work.set()
        super().close()
        if self._leadership is not None:
            self._leadership.close()
        self._client.stop()
        self._client.close()

    def _start_client(self) -> threading.Event:
        """Connect once; return the event that is set on connection. Two concurrent starts would close each other's connection."""
        with self._starting:
            if self._live is None:
                self._live = self._client.start_async()
            return self._live

    # The connection's threads

    def _on_state(self, state: str) -> None:
        from kazoo.client import KazooState

        assert self._leadership is not None
        if state == KazooState.CONNECTED:
            self._connected.set()
        else:
            self._connected.clear()
            if state == KazooState.LOST:
                self._node = None
                self._leadership.revoke()
            elif self._grace_s:
                self._leadership.shorten(self._grace_s)
            else:
                self._leadership.revoke()
        self._work.set()

    def _on_change(self, _event: object) -> None:
        self._work.set()

    # The election thread

    def _run(self, candidate: Candidate, leadership: LeadershipState) -> None:
        from kazoo.exceptions import KazooException

        first = False  # whether its node was the lowest at the last check
        while not self._stop.is_set():
            self._work.wait(self._session_s / _BEATS if first else None)
            self._work.clear()
            if self._stop.is_set() or not self._connected.is_set():
                continue
            try:
                first = self._elect(candidate, leadership)
            except (
                KazooException,
                ConnectionError,
                self._client.handler.timeout_exception,
            ) as error:
                _log.warning("leader election failed, will retry: %r", error)
                self._stop.wait(_PAUSE_S)
                self._work.set()

    def _elect(self, candidate: Candidate, leadership: LeadershipState) -> bool:
        """Gain leadership if this candidate's node is the lowest; return whether it is."""
        own = self._own_node(candidate)
        began = time.monotonic()
        nodes = self._nodes()
        if own not in nodes:  # it was deleted
            self._node = None
            leadership.revoke()
            self._work.set()
            return False
        place = nodes.index(own)
        if place:
            leadership.revoke()
            if self._client.exists(nodes[place - 1], watch=self._on_change) is None:
                self._work.set()
            return False
        found = self._client.exists(own, watch=self._on_change)
        if found is not None and self._connected.is_set():
            if leadership.token is None:
                _log.info("%s leads, token %d", candidate.id, found.czxid)
            leadership.grant(found.czxid, began + _CERTAIN * self._session_s)
        return True

    def _own_node(self, candidate: Candidate) -> str:
        """Return this session's node; create it unless it exists, also if it was created and the response was lost."""
        if self._node is None:
            self._client.ensure_path(self._path)
            identity = self._client.client_id
            if identity is None:  # the session has expired meanwhile
                raise ConnectionError("the ZooKeeper session has expired")
            session = identity[0]
            for node in self._nodes():
                found = self._client.exists(node)
                if found is not None and found.ephemeralOwner == session:
                    self._node = node
                    return node
            self._node = self._client.create(
                f"{self._path}/{_PREFIX}", candidate.encode(), ephemeral=True, sequence=True
            )
        return self._node

    def _nodes(self) -> list[str]:
        names = [name for name in self._client.get_children(self._path) if name.startswith(_PREFIX)]
        return [f"{self._path}/{name}" for name in sorted(names)]


def _connect(quorum: str, session_s: float) -> KazooClient:
    kazoo = optional_module(
        "kazoo.client", extra="zookeeper", needed_by="high-availability.type zookeeper"
    )
    return kazoo.KazooClient(
        hosts=quorum,
        timeout=session_s,
        connection_retry={"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 2.0},
        command_retry={"max_tries": 0},
    )
