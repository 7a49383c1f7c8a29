"""What a candidate does with a lease that carries a version: a pure core, without clocks and without Kubernetes.

Who holds a lease says so in it and renews it. The clocks of others are not trusted: a lease is over when it has not changed for its
whole duration, as seen from here. Of two that take it at the same moment the service refuses the one that read an older version.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease as it was read. `version` is another one after every change."""

    holder: str | None
    duration_s: float
    transitions: int  # how often it has changed hands
    version: str


class Step(enum.Enum):
    """What to do with a lease that was just read."""

    CREATE = "create it"
    TAKE = "take it"
    RENEW = "renew it"
    WAIT = "wait"


class LeaseCore:
    """Watches a lease for one candidate."""

    def __init__(self, candidate: str) -> None:
        self._candidate = candidate
        self._seen: LeaseRecord | None = None
        self._since = 0.0  # when it was first seen like this

    def observe(self, record: LeaseRecord | None, now: float) -> Step:
        """Take note of how the lease is now; return what to do."""
        if record is None or self._seen is None or record.version != self._seen.version:
            self._seen, self._since = record, now
        if record is None:
            return Step.CREATE
        if record.holder == self._candidate:
            return Step.RENEW
        if not record.holder or now - self._since >= record.duration_s:
            return Step.TAKE
        return Step.WAIT
