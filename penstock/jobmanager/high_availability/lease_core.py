"""Decides what a candidate does with a versioned lease: a pure core, without clocks and without Kubernetes.

The holder of a lease renews it. Clocks of other machines are not trusted: a lease has expired when it has not changed for its whole
duration by the local clock. If two candidates take it at the same time, the service rejects the one that read an older version.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease as it was read. `version` changes with every update."""

    holder: str | None
    duration_s: float
    transitions: int  # number of changes of the holder
    version: str


class LeaseAction(enum.Enum):
    """The action for a lease that was just read."""

    CREATE = "create it"
    TAKE = "take it"
    RENEW = "renew it"
    WAIT = "wait"


class LeaseCore:
    """Watches a lease for one candidate."""

    def __init__(self, candidate: str) -> None:
        self._candidate = candidate
        self._seen: LeaseRecord | None = None
        self._since = 0.0  # when this version was first seen

    def observe(self, record: LeaseRecord | None, now: float) -> LeaseAction:
        """Record the current lease; return the action."""
        if record is None or self._seen is None or record.version != self._seen.version:
            self._seen, self._since = record, now
        if record is None:
            return LeaseAction.CREATE
        if record.holder == self._candidate:
            return LeaseAction.RENEW
        if not record.holder or now - self._since >= record.duration_s:
            return LeaseAction.TAKE
        return LeaseAction.WAIT
