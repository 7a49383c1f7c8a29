"""The interface of leader election among several JobManagers, for any service."""

from __future__ import annotations

import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Candidate:
    """A JobManager in the election: a globally unique id, and its address for clients."""

    id: str
    address: str

    @classmethod
    def here(cls, address: str) -> Candidate:
        """Return this process as a candidate."""
        return cls(f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:12]}", address)

    def encode(self) -> bytes:
        """Return the candidate as bytes."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> Candidate | None:
        """Parse the result of `encode`; None if it is invalid."""
        try:
            found = json.loads(data or b"")
            return cls(str(found["id"]), str(found["address"]))
        except (KeyError, TypeError, ValueError):
            return None


class LeaderContender(Protocol):
    """Is notified of leadership. One call at a time, never from the election thread, so calls may block."""

    def on_granted(self, token: int) -> None:
        """Become the leader. `token` is larger than that of every previous leader: writes with a smaller one must be rejected."""

    def on_revoked(self) -> None:
        """Stop at once: leadership is lost, and another process may be the leader already."""


class LeaderElection(Protocol):
    """Elects the leader. At most one candidate has leadership at a time, but a leader may learn late that it lost it.

    So leadership alone is not sufficient: writes of a leader carry its fencing token, and the larger token wins.
    """

    def start(self, candidate: Candidate, contender: LeaderContender) -> None:
        """Take part in the election until `close`."""

    @property
    def token(self) -> int | None:
        """The token of this candidate while it is the leader, as far as it knows."""

    def leader(self) -> Candidate | None:
        """Return the leader, as far as known; None if there is none. May call a service, may raise."""

    def close(self) -> None:
        """Leave the election; a leader releases leadership, so that the next one need not wait. The contender is notified."""
