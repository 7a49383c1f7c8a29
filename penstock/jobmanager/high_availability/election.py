"""What elects a leader among several JobManagers, whatever service decides."""

from __future__ import annotations

import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Candidate:
    """A JobManager that leads or would: an id that no other process ever has, and where clients reach it."""

    id: str
    address: str

    @classmethod
    def here(cls, address: str) -> Candidate:
        """Return this process as a candidate."""
        return cls(f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:12]}", address)

    def encode(self) -> bytes:
        """Return it as others read it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> Candidate | None:
        """Return what `encode` was called on, or None if it cannot be told."""
        try:
            found = json.loads(data or b"")
            return cls(str(found["id"]), str(found["address"]))
        except (KeyError, TypeError, ValueError):
            return None


class Contender(Protocol):
    """What is told that it leads. One call at a time, never from the thread that elects: it may take its time."""

    def on_granted(self, token: int) -> None:
        """Lead. `token` is larger than that of every leader before: what carries a smaller one is to be refused."""

    def on_revoked(self) -> None:
        """Stop leading at once. Another one may lead already."""


class LeaderElection(Protocol):
    """Decides, with others elsewhere, who leads. At most one is told so at a time, but one may learn late that it no longer does.

    So leading alone proves nothing: what a leader writes carries its token, and the larger one wins.
    """

    def start(self, candidate: Candidate, contender: Contender) -> None:
        """Take part, until `close`."""

    @property
    def token(self) -> int | None:
        """The token of this candidate while it leads, as far as is known here."""

    def leader(self) -> Candidate | None:
        """Return who leads, as far as is known; None if nobody does. May ask a service, may raise."""

    def close(self) -> None:
        """Take part no more; a leader gives up its place, so that the next one need not wait. The contender is told."""
